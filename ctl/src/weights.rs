//! Weights of a job, for what is computed in this process.

use std::io::Read;

use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::job::Job;
use shoal_plan::space::Interval;

use crate::client::Client;
use crate::failure::Failure;

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
    for block in &ModelTable::of(&job.spec.model).blocks {
        let mut from = client.download(&format!("jobs/{id}/state/{step}/{}/weight", block.id.0))?;
        let mut at = 0;
        while at < block.len {
            let interval = Interval::new(at, block.len.min(at + STRETCH));
            let mut bytes = vec![0; interval.len() as usize * 4];
            from.read_exact(&mut bytes).map_err(|error| {
                Failure::Unreachable(format!("the download of {} broke off: {error}; ask again", block.id))
            })?;
            let values: Vec<f32> = bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
            take(block.id, interval, &values);
            at = interval.end;
        }
    }
    Ok(())
}
