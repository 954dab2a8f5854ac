//! The header of a safetensors file, read from a file that nobody vouches for.
//!
//! Layout: little-endian u64 length of the header; JSON `{name: {dtype, shape, data_offsets}}`, padded with spaces; values
//! row-major little-endian, without gaps.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Longest header that is read: what the format's own readers allow.
const MOST: u64 = 100_000_000;

/// A tensor as its file describes it, its place inside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// As named in the header, e.g. `BF16`.
    pub(crate) kind: String,
    pub(crate) shape: Vec<u64>,
    /// Bytes of the file.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// Tensors in the order of the header, names that are there twice among them.
struct Header(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Tensors)
    }
}

struct Tensors;

impl<'de> Visitor<'de> for Tensors {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let entry = map.next_value().map_err(|error| {
                A::Error::custom(format!("tensor {name} has no dtype, shape and data_offsets: {error}"))
            })?;
            entries.push((name, entry));
        }
        Ok(Header(entries))
    }
}

/// Every tensor of a file of `len` bytes; what is wrong with it otherwise.
pub(crate) fn read(file: &File, len: u64) -> io::Result<Result<BTreeMap<String, Described>, String>> {
    let mut prefix = [0; 8];
    if len < 8 {
        return Ok(Err(format!("{len} bytes are shorter than a safetensors file's first number")));
    }
    file.read_exact_at(&mut prefix, 0)?;
    let header = u64::from_le_bytes(prefix);
    if header > MOST.min(len - 8) {
        return Ok(Err(format!("its first number says a header of {header} bytes, of {len} in all (at most {MOST})")));
    }
    let mut text = vec![0; header as usize];
    file.read_exact_at(&mut text, 8)?;
    Ok(parse(&text, len - 8 - header))
}

/// Every tensor of a header that `data` bytes follow.
fn parse(text: &[u8], data: u64) -> Result<BTreeMap<String, Described>, String> {
    let Header(entries) =
        serde_json::from_slice(text).map_err(|error| format!("its header cannot be used: {error}"))?;
    let first = 8 + text.len() as u64;
    let mut tensors = BTreeMap::new();
    for (name, Entry { dtype, shape, data_offsets: [from, to] }) in entries {
        if from > to || to > data {
            return Err(format!("tensor {name} lies at {from}..{to} of {data} bytes"));
        }
        let said = shape.iter().try_fold(bytes_of(&dtype), |all, n| all.checked_mul(*n));
        if said.is_none_or(|said| bytes_of(&dtype) > 0 && said != to - from) {
            return Err(format!("tensor {name} of {dtype} {shape:?} has {} bytes", to - from));
        }
        let described = Described { kind: dtype, shape, start: first + from, bytes: to - from };
        if let Some(twice) = tensors.insert(name.clone(), described) {
            return Err(format!("tensor {name} is there twice, at byte {} too", twice.start));
        }
    }
    let mut extents: Vec<(u64, u64)> = tensors.values().map(|t| (t.start, t.start + t.bytes)).collect();
    extents.sort_unstable();
    let mut end = first;
    for (start, stop) in extents {
        match start.cmp(&end) {
            Ordering::Less => return Err(format!("two tensors share byte {start}")),
            Ordering::Greater => return Err(format!("bytes {end} to {start} belong to no tensor")),
            Ordering::Equal => end = stop,
        }
    }
    if end != first + data {
        return Err(format!("{} bytes behind the last tensor belong to none", first + data - end));
    }
    Ok(tensors)
}

/// Bytes of an element, 0 for a type that is not known here.
fn bytes_of(kind: &str) -> u64 {
    match kind {
        "F64" | "I64" | "U64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        "I8" | "U8" | "BOOL" => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_held_against_its_file() {
        let good = br#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let described = parse(good, 8).expect("a header");
        assert_eq!(described["a"].start, 8 + good.len() as u64);
        for (text, data, says) in [
            (&good[..], 7, "tensor a lies at 0..8 of 7 bytes"),
            (b"[1]", 8, "expected a JSON object of tensors"),
            (br#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#, 8, "tensor a of F32 [3] has 8 bytes"),
            (br#"{"a":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}}"#, 8, "has 0 bytes"),
            (br#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}"#, 8, "tensor a has no dtype"),
            (br#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[8,4]}}"#, 8, "tensor a lies at 8..4"),
            (
                br#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
                8,
                "two tensors share byte",
            ),
            (&good[..], 9, "1 bytes behind the last tensor belong to none"),
            (br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#, 2, "bytes 61 to 62 belong to no tensor"),
            (
                br#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
                2,
                "tensor a is there twice",
            ),
        ] {
            let found = parse(text, data).expect_err(says);
            assert!(found.contains(says), "{found}");
        }
    }

    /// FI-1 (untrusted).
    #[test]
    fn no_length_is_believed_that_the_file_does_not_have() {
        let mut file = tempfile::tempfile().expect("temp file");
        io::Write::write_all(&mut file, &u64::MAX.to_le_bytes()).expect("written");
        let found = read(&file, 8).expect("readable").expect_err("a lie");
        assert!(found.contains("a header of 18446744073709551615 bytes, of 8 in all"), "{found}");
        assert!(read(&file, 3).expect("readable").expect_err("short").contains("3 bytes are shorter"));
    }
}
