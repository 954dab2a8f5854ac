//! A safetensors file written as a stream: the header is known before the first value.
//!
//! Layout: little-endian u64 length of the header; JSON `{name: {dtype, shape, data_offsets}}` padded with spaces to 8
//! bytes; values, row-major little-endian, without gaps, in the order of the offsets.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

/// Values read, converted and written at a time.
const STRETCH: usize = 1 << 16;

/// Name and shape of an f32 tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
}

impl Entry {
    pub(crate) fn elements(&self) -> u64 {
        self.shape.iter().product()
    }
}

/// The header of a file with these tensors in this order.
pub(crate) fn header(entries: &[Entry], metadata: &BTreeMap<String, String>) -> Vec<u8> {
    let mut fields = Map::new();
    if !metadata.is_empty() {
        fields.insert("__metadata__".to_owned(), json!(metadata));
    }
    let mut at = 0;
    for entry in entries {
        let end = at + entry.elements() * 4;
        fields.insert(entry.name.clone(), json!({"dtype": "F32", "shape": entry.shape, "data_offsets": [at, end]}));
        at = end;
    }
    let mut text = Value::Object(fields).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.append(&mut text);
    out
}

/// Bytes of the whole file.
pub(crate) fn file_len(entries: &[Entry], metadata: &BTreeMap<String, String>) -> u64 {
    header(entries, metadata).len() as u64 + entries.iter().map(|e| e.elements() * 4).sum::<u64>()
}

/// Writes values.
pub(crate) fn write_values(out: &mut dyn Write, values: &[f32]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(values.len().min(STRETCH) * 4);
    for stretch in values.chunks(STRETCH) {
        bytes.clear();
        bytes.extend(stretch.iter().flat_map(|x| x.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Writes `elements` values that `read(start, values)` gives a stretch at a time.
pub(crate) fn write_stretches(
    out: &mut dyn Write,
    elements: u64,
    mut read: impl FnMut(u64, &mut [f32]) -> io::Result<()>,
) -> io::Result<()> {
    let mut values = vec![0.0; STRETCH.min(elements as usize)];
    let mut at = 0;
    while at < elements {
        let count = (elements - at).min(STRETCH as u64) as usize;
        read(at, &mut values[..count])?;
        write_values(out, &values[..count])?;
        at += count as u64;
    }
    Ok(())
}
