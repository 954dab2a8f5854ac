//! Initial weights, from files or from the seed alone: any interval of any block, on any machine, in any order.
//!
//! Element `i` of block `b` is element `i` of the stream `[b, domain]` of [`normals`]. So a piece is initialised by whoever
//! holds it, and nobody ever holds the whole model.
//!
//! * DW-1 (one element of output each): whoever draws an interval gives room for it and no more.
//! * DW-2 (inside the block): intervals are of the block that they are drawn for.
//! * DW-3 (facts about files come before a job begins): a job gets its engine when its files were read.

use shoal_config::spec::{JobSpec, ModelSpec};
use shoal_kernels::normals;
use shoal_plan::blocks::{Init, ModelTable};
use shoal_plan::ids::BlockId;
use shoal_plan::job::Job;
use shoal_plan::space::Interval;
use shoal_plan::weights::WeightFacts;

use crate::files::{Files, FilesError};

/// Keeps these draws apart from every other use of the seed: "INIT".
const DOMAIN: u32 = 0x494e_4954;

/// Where a job's initial weights come from, any interval of them.
#[derive(Debug)]
pub enum Initial<'j> {
    /// Drawn.
    Seed(&'j JobSpec),
    /// Read, and held against what was submitted.
    Files(Files, &'j WeightFacts),
}

impl<'j> Initial<'j> {
    /// Opens the files, if there are any.
    ///
    /// # Errors
    /// As [`Files::open`].
    ///
    /// # Panics
    /// If the job begins with files and nobody has read them yet.
    pub fn open(job: &'j Job, table: &ModelTable) -> Result<Self, FilesError> {
        let files = Files::open(&job.spec.init, &job.spec.model, table)?;
        Ok(match files {
            None => Self::Seed(&job.spec),
            Some(files) => {
                Self::Files(files, job.weights.as_ref().expect("DW-3 (facts about files come before a job begins)"))
            }
        })
    }

    /// Writes the initial weights of `interval` of a block; gaps between parameters become zero.
    ///
    /// # Errors
    /// A file cannot be read, or was changed since the job was submitted.
    ///
    /// # Panics
    /// As [`fill`].
    pub fn fill(
        &self,
        table: &ModelTable,
        block: BlockId,
        interval: Interval,
        out: &mut [f32],
    ) -> Result<(), FilesError> {
        match self {
            Self::Seed(spec) => fill(table, spec, block, interval, out),
            Self::Files(files, facts) => files.read_submitted(table, facts, (block, interval), out)?,
        }
        Ok(())
    }
}

/// Writes the drawn weights of `interval` of a block; gaps between parameters become zero.
///
/// # Panics
/// If `out` is not as long as the interval, or the interval ends outside the block.
pub fn fill(table: &ModelTable, spec: &JobSpec, block: BlockId, interval: Interval, out: &mut [f32]) {
    assert_eq!(interval.len(), out.len() as u64, "DW-1 (one element of output each)");
    let block_table = table.block(block);
    assert!(interval.end <= block_table.len, "DW-2 (inside the block): {interval} of {}", block_table.len);
    out.fill(0.0);
    for param in &block_table.params {
        let Some(part) = param.interval.intersection(interval) else { continue };
        let target = &mut out[(part.start - interval.start) as usize..(part.end - interval.start) as usize];
        match param.init {
            Init::Zeros => {}
            Init::Ones => target.fill(1.0),
            Init::Normal | Init::NormalResidual => {
                normals(spec.seed, [block.0, DOMAIN], part.start, deviation(&spec.model, param.init), target);
            }
        }
    }
}

fn deviation(model: &ModelSpec, init: Init) -> f64 {
    let range = f64::from(model.init_range());
    match init {
        Init::Zeros | Init::Ones => 0.0,
        Init::Normal => range,
        Init::NormalResidual => range / f64::from(2 * model.layers()).sqrt(),
    }
}

#[cfg(test)]
mod tests;
