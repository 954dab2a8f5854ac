//! Weights of a job, for what is computed in this process.

use std::io::Read;
use std::time::Duration;

use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::job::Job;
use shoal_plan::space::Interval;

use crate::client::Client;
use crate::export::{Written, broke_off};
use crate::failure::Failure;

/// A block begins to come within this time.
const BEGINS: Duration = Duration::from_secs(60);
/// Elements that are read at a time.
const STRETCH: u64 = 1 << 18;

/// Gives all weights of a written step to `take`, block by block, a stretch at a time.
///
/// # Errors
/// The coordinator does not have them, or the download breaks off.
pub fn load(
    client: &Client,
    (id, job): (&str, &Job),
    step: u64,
    mut take: impl FnMut(BlockId, Interval, &[f32]),
) -> Result<(), Failure> {
    let written = Written { client, job: id, step, wait: BEGINS };
    for block in &ModelTable::of(&job.spec.model).blocks {
        let mut from = written.open(&format!("state/{step}/{}/weight", block.id.0))?;
        let mut at = 0;
        while at < block.len {
            let interval = Interval::new(at, block.len.min(at + STRETCH));
            let mut bytes = vec![0; interval.len() as usize * 4];
            from.read_exact(&mut bytes).map_err(|error| broke_off(&block.id.to_string(), error))?;
            let values: Vec<f32> = bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
            take(block.id, interval, &values);
            at = interval.end;
        }
    }
    Ok(())
}
