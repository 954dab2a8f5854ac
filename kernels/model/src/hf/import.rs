//! Reading weights that `transformers` wrote.

use safetensors::{Dtype, SafeTensorError, SafeTensors};
use shoal_config::JobSpec;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use super::layout::{PREFIX, tensors};

/// Why a file is not the model's weights.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Not a safetensors file.
    #[error("not a safetensors file")]
    Format(#[source] SafeTensorError),
    /// A tensor is not there, with or without `transformer.` before its name.
    #[error("the file has no tensor {name}")]
    Missing {
        /// Its name.
        name: String,
    },
    /// A tensor has other sizes than the job's model.
    #[error("tensor {name} has shape {found:?}, the job's model needs {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// In the file.
        found: Vec<usize>,
        /// In the model.
        expected: Vec<u64>,
    },
    /// A tensor is not f32.
    #[error("tensor {name} is {found:?}; only F32 can be read, convert it first")]
    Type {
        /// Its name.
        name: String,
        /// In the file.
        found: Dtype,
    },
}

/// Reads `model.safetensors`; `write` gets every parameter. Gaps between parameters are not written. A separate
/// `lm_head.weight` is passed over: the head is tied.
///
/// # Errors
/// If the file is not the weights of the job's model.
pub fn read_model(
    file: &[u8],
    table: &ModelTable,
    spec: &JobSpec,
    mut write: impl FnMut(BlockId, Interval, &[f32]),
) -> Result<(), ImportError> {
    let parsed = SafeTensors::deserialize(file).map_err(ImportError::Format)?;
    for tensor in tensors(table, spec) {
        let name = tensor.entry.name;
        let bare = name.strip_prefix(PREFIX).unwrap_or(&name);
        let Ok(view) = parsed.tensor(&name).or_else(|_| parsed.tensor(bare)) else {
            return Err(ImportError::Missing { name });
        };
        if view.dtype() != Dtype::F32 {
            return Err(ImportError::Type { name, found: view.dtype() });
        }
        if !view.shape().iter().map(|&n| n as u64).eq(tensor.entry.shape.iter().copied()) {
            return Err(ImportError::Shape { name, found: view.shape().to_vec(), expected: tensor.entry.shape });
        }
        let (words, _) = view.data().as_chunks::<4>();
        let theirs: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
        write(tensor.block, tensor.interval, &tensor.order.import(&theirs));
    }
    Ok(())
}
