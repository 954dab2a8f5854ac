//! Writing what `transformers` loads.

use std::error::Error;

use serde_json::{Map as Object, Value, json};
use shoal_config::JobSpec;
use shoal_config::safetensors::Header;
use shoal_config::spec::Dtype;
use shoal_plan::blocks::ModelTable;
use shoal_plan::ids::BlockId;
use shoal_plan::space::Interval;
use shoal_plan::weights::Dtypes;

use super::names::{HEAD, MODEL, map, prefix};
use crate::files::map::{Map, Tensor};
use crate::files::{Destination, WriteError, write};

/// One safetensors file of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The file's name.
    pub name: String,
    /// Which tensors, in the order of the model.
    tensors: std::ops::Range<usize>,
}

/// The files of a model of which none has more than `most` bytes of values, unless one tensor alone does.
#[must_use]
pub fn parts(table: &ModelTable, spec: &JobSpec, dtypes: &Dtypes, most: u64) -> Vec<Part> {
    let map = map(table, &spec.model);
    let mut cuts = vec![0];
    let mut bytes = 0;
    for (i, tensor) in map.tensors.iter().enumerate() {
        let more = bytes_of(tensor, dtypes.of(i));
        if bytes > 0 && bytes + more > most {
            cuts.push(i);
            bytes = 0;
        }
        bytes += more;
    }
    cuts.push(map.tensors.len());
    let of = cuts.len() - 1;
    let name = |i| if of == 1 { MODEL.to_owned() } else { format!("model-{:05}-of-{of:05}.safetensors", i + 1) };
    cuts.windows(2).enumerate().map(|(i, cut)| Part { name: name(i), tensors: cut[0]..cut[1] }).collect()
}

/// The type that most elements of a model have: the one that `config.json` names.
#[must_use]
pub fn main_dtype(table: &ModelTable, spec: &JobSpec, dtypes: &Dtypes) -> Dtype {
    let map = map(table, &spec.model);
    let elements = |dtype: Dtype| -> u64 {
        let tensors = map.tensors.iter().enumerate();
        tensors.filter(|(i, _)| dtypes.of(*i) == dtype).map(|(_, tensor)| tensor.elements()).sum()
    };
    // Of two alike the first: the wider.
    Dtype::ALL.into_iter().rev().max_by_key(|dtype| elements(*dtype)).unwrap_or(Dtype::F32)
}

/// `model.safetensors.index.json`: which tensor is in which file.
#[must_use]
pub fn index_json(table: &ModelTable, spec: &JobSpec, dtypes: &Dtypes, parts: &[Part]) -> Value {
    let map = map(table, &spec.model);
    let names = parts.iter().flat_map(|part| part.tensors.clone().map(|i| (i, part.name.clone())));
    let names: Object<String, Value> = names.map(|(i, file)| (full_name(&map, i, spec), json!(file))).collect();
    let bytes: u64 = map.tensors.iter().enumerate().map(|(i, tensor)| bytes_of(tensor, dtypes.of(i))).sum();
    json!({"metadata": {"total_size": bytes, "total_parameters": table.parameters()}, "weight_map": names})
}

/// Writes the whole model as one file of f32. `read` gives elements of a block's weights.
///
/// # Errors
/// What `read` gives, or the file cannot be written.
pub fn write_model<E: Error + 'static>(
    table: &ModelTable,
    spec: &JobSpec,
    read: impl FnMut(BlockId, Interval, &mut [f32]) -> Result<(), E>,
    target: Destination<'_>,
) -> Result<(), WriteError<E>> {
    let whole = Part { name: MODEL.to_owned(), tensors: 0..map(table, &spec.model).tensors.len() };
    write_part((table, spec), &whole, &Dtypes::All(Dtype::F32), read, target)
}

/// Writes one file. `read` gives elements of a block's weights.
///
/// # Errors
/// What `read` gives, a value is not of its tensor's type, or the file cannot be written.
pub fn write_part<E: Error + 'static>(
    (table, spec): (&ModelTable, &JobSpec),
    part: &Part,
    dtypes: &Dtypes,
    mut read: impl FnMut(BlockId, Interval, &mut [f32]) -> Result<(), E>,
    mut target: Destination<'_>,
) -> Result<(), WriteError<E>> {
    let map = map(table, &spec.model);
    target.out.write_all(&header(&map, spec, part, dtypes).to_bytes()).map_err(WriteError::Out)?;
    let write = |tensor| write::tensor(&map, tensor, dtypes.of(tensor), &mut read, &mut target);
    part.tensors.clone().try_for_each(write)
}

/// Bytes that [`write_part`] writes.
#[must_use]
pub fn part_len(table: &ModelTable, spec: &JobSpec, part: &Part, dtypes: &Dtypes) -> u64 {
    header(&map(table, &spec.model), spec, part, dtypes).file_bytes()
}

fn header(map: &Map, spec: &JobSpec, part: &Part, dtypes: &Dtypes) -> Header {
    let mut header = Header::of_torch();
    for i in part.tensors.clone() {
        header.push(full_name(map, i, spec), dtypes.of(i), &map.tensors[i].shape);
    }
    header
}

fn full_name(map: &Map, tensor: usize, spec: &JobSpec) -> String {
    match map.tensors[tensor].name.as_str() {
        HEAD => HEAD.to_owned(),
        name => format!("{}{name}", prefix(&spec.model)),
    }
}

fn bytes_of(tensor: &Tensor, dtype: Dtype) -> u64 {
    tensor.elements() * dtype.bytes()
}
