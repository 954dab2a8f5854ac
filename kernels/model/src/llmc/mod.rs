//! llm.c's checkpoints: 256 little-endian i32 of header (20240326, version, context, vocabulary, layers, heads, width,
//! padded vocabulary), then each kind of tensor stacked over layers, `[out, in]`. Version 3 has f32, version 5 bf16.
//!
//! LC-1 (their list names every tensor of the map): the map of GPT-2 has the same tensors.

use std::error::Error;

use shoal_config::JobSpec;
use shoal_config::llmc::{Header, Version};
use shoal_config::spec::ModelSpec;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;

use crate::files::map::Map;
use crate::files::{Destination, Linears, Place, WriteError, gpt2, write};

/// Tensors before the layers, of a layer, and behind them, in the order of the file.
const ORDER: [&[&str]; 3] = [
    &["wte.weight", "wpe.weight"],
    &[
        "ln_1.weight",
        "ln_1.bias",
        "attn.c_attn.weight",
        "attn.c_attn.bias",
        "attn.c_proj.weight",
        "attn.c_proj.bias",
        "ln_2.weight",
        "ln_2.bias",
        "mlp.c_fc.weight",
        "mlp.c_fc.bias",
        "mlp.c_proj.weight",
        "mlp.c_proj.bias",
    ],
    &["ln_f.weight", "ln_f.bias"],
];

/// Where a checkpoint's tensors lie; everything that is not as the model needs it otherwise.
pub(crate) fn map(table: &ModelTable, model: &ModelSpec, header: &Header) -> Result<(Map, Vec<Place>), Vec<String>> {
    match model {
        ModelSpec::Gpt2(gpt2) if gpt2.is_usual() => {}
        ModelSpec::Gpt2(_) => {
            return Err(vec!["it has biases and one table for both ends, and the job's model has not".to_owned()]);
        }
        ModelSpec::Llama(_) => return Err(vec!["it is a GPT-2, and the job's model is a Llama".to_owned()]),
    }
    let wrong: Vec<String> = [
        ("layers", header.layers == model.layers(), header.layers, model.layers()),
        ("heads", header.heads == model.heads(), header.heads, model.heads()),
        ("width", header.width == model.width(), header.width, model.width()),
        ("vocabulary", header.vocab == model.vocab(), header.vocab, model.vocab()),
        ("context", header.context >= model.context(), header.context, model.context()),
    ]
    .into_iter()
    .filter(|(_, good, ..)| !good)
    .map(|(what, _, found, wanted)| format!("its {what} is {found}, and {wanted} is needed"))
    .collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let map = padded(gpt2(table, model, Linears::OutIn), header);
    let dtype = header.version.dtype();
    let mut places = vec![Place { part: 0, start: 0, dtype }; map.tensors.len()];
    let mut at = Header::BYTES;
    for tensor in order(&map, model) {
        places[tensor].start = at;
        at += map.tensors[tensor].elements() * dtype.bytes();
    }
    Ok((map, places))
}

/// The map with both tables as long as the header says.
fn padded(mut map: Map, header: &Header) -> Map {
    map.tensors[0].shape[0] = u64::from(header.padded_vocab);
    map.tensors[1].shape[0] = u64::from(header.context);
    map
}

/// Tensors in the order of the file.
fn order(map: &Map, model: &ModelSpec) -> Vec<usize> {
    let [before, layer, behind] = ORDER;
    let stacked = layer.iter().flat_map(|part| (0..model.layers()).map(move |i| format!("h.{i}.{part}")));
    let whole = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let names = whole(before).into_iter().chain(stacked).chain(whole(behind));
    let index = |name: String| map.tensors.iter().position(|tensor| tensor.name == name);
    names.map(|name| index(name).expect("LC-1 (their list names every tensor of the map)")).collect()
}

/// The header of a job's checkpoint, its token table as long as asked for, or as llm.c pads it; none if it is not a GPT-2 with biases and a tied head, which is all
/// that the form has.
#[must_use]
pub fn header(spec: &JobSpec, version: Version, padded_vocab: Option<u32>) -> Option<Header> {
    match &spec.model {
        ModelSpec::Gpt2(gpt2) if gpt2.is_usual() => {}
        ModelSpec::Gpt2(_) | ModelSpec::Llama(_) => return None,
    }
    let model = &spec.model;
    let (layers, heads, width, context) = (model.layers(), model.heads(), model.width(), model.context());
    let vocab = model.vocab();
    let padded_vocab = padded_vocab.unwrap_or(vocab.next_multiple_of(128));
    Some(Header { version, context, vocab, layers, heads, width, padded_vocab })
}

/// Writes a checkpoint. `read` gives elements of a block's weights.
///
/// # Errors
/// What `read` gives, a value is not of the checkpoint's type, or the file cannot be written.
pub fn write_model<E: Error + 'static>(
    (table, spec): (&ModelTable, &JobSpec),
    header: &Header,
    mut read: impl FnMut(BlockId, Interval, &mut [f32]) -> Result<(), E>,
    mut target: Destination<'_>,
) -> Result<(), WriteError<E>> {
    let dtype = header.version.dtype();
    let map = padded(gpt2(table, &spec.model, Linears::OutIn), header);
    target.out.write_all(&header.to_bytes()).map_err(WriteError::Out)?;
    let write = |tensor| write::tensor(&map, tensor, dtype, &mut read, &mut target);
    order(&map, &spec.model).into_iter().try_for_each(write)
}

#[cfg(test)]
mod tests;
