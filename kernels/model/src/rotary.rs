//! The table of turns that a Llama's layers share on a stage.

use std::ops::Range;

use shoal_config::spec::{ModelSpec, RopeScaling, RopeSpec};
use shoal_kernels::{Arena, Buffer, Device, Rotary, RotaryScaling, Tag};
use shoal_plan::blocks::ModelTable;
use shoal_plan::memory::rotary_elements;

use crate::ModelError;

/// The table for the stage that computes `blocks`, if it has a layer that turns queries and keys.
pub(crate) fn table(
    (device, arena): (&Device, &Arena),
    model: &ModelSpec,
    table: &ModelTable,
    blocks: &Range<u32>,
) -> Result<Option<Buffer>, ModelError> {
    let rope = match model {
        ModelSpec::Llama(llama) if rotary_elements(model, table, blocks) > 0 => &llama.rope,
        ModelSpec::Llama(_) | ModelSpec::Gpt2(_) => return Ok(None),
    };
    let elements = rotary_elements(model, table, blocks) as usize;
    let mut buffer = arena.alloc(Tag::Weight, elements).map_err(|source| ModelError::Rotary { source })?;
    device.rope_table(buffer.view_mut(), model.head_size() as usize, &turns(rope));
    Ok(Some(buffer))
}

/// What the job asks for, as the kernels take it.
fn turns(rope: &RopeSpec) -> Rotary {
    let scaling = match rope.scaling {
        RopeScaling::None => RotaryScaling::None,
        RopeScaling::Linear { factor } => RotaryScaling::Linear { factor },
        RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
            RotaryScaling::Llama3 {
                factor,
                low_freq_factor: low_frequency_factor,
                high_freq_factor: high_frequency_factor,
                original_positions: original_context,
            }
        }
    };
    Rotary { theta: rope.theta, scaling }
}
