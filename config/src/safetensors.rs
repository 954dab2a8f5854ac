//! The header of a safetensors file whose tensors follow each other: little-endian u64 length, then JSON
//! `{name: {dtype, shape, data_offsets}}`, padded with spaces to a multiple of eight bytes. Values follow.

use serde_json::{Map, Value, json};

use crate::spec::Dtype;

/// What such a header calls an element type.
#[must_use]
pub fn name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "F32",
        Dtype::F16 => "F16",
        Dtype::Bf16 => "BF16",
    }
}

/// The type of a name, if it is one that holds weights.
#[must_use]
pub fn named(word: &str) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|dtype| name(*dtype) == word)
}

/// A header that is being put together, tensor by tensor.
#[derive(Clone, Debug, Default)]
pub struct Header {
    fields: Map<String, Value>,
    /// Bytes of the tensors so far.
    end: u64,
}

impl Header {
    /// For PyTorch: `transformers` refuses a file that does not say which framework its layout is from.
    #[must_use]
    pub fn of_torch() -> Self {
        let said = ("__metadata__".to_owned(), json!({"format": "pt"}));
        Self { fields: Map::from_iter([said]), end: 0 }
    }

    /// One more tensor, behind the others.
    pub fn push(&mut self, tensor: impl Into<String>, dtype: Dtype, shape: &[u64]) {
        let end = self.end + shape.iter().product::<u64>() * dtype.bytes();
        let described = json!({"dtype": name(dtype), "shape": shape, "data_offsets": [self.end, end]});
        self.fields.insert(tensor.into(), described);
        self.end = end;
    }

    /// Length and header.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = Value::Object(self.fields.clone()).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        [&(text.len() as u64).to_le_bytes()[..], &text].concat()
    }

    /// Bytes of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.to_bytes().len() as u64 + self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_follow_each_other_behind_a_padded_header() {
        let mut header = Header::of_torch();
        header.push("a", Dtype::Bf16, &[2, 3]);
        header.push("bc", Dtype::F32, &[5]);
        let bytes = header.to_bytes();
        let (length, text) = bytes.split_at(8);
        assert_eq!(u64::from_le_bytes(length.try_into().expect("eight bytes")), text.len() as u64);
        assert_eq!(
            std::str::from_utf8(text).expect("text"),
            r#"{"__metadata__":{"format":"pt"},"a":{"data_offsets":[0,12],"dtype":"BF16","shape":[2,3]},"#.to_owned()
                + r#""bc":{"data_offsets":[12,32],"dtype":"F32","shape":[5]}}       "#
        );
        assert_eq!(header.file_bytes(), bytes.len() as u64 + 32);
    }

    #[test]
    fn a_type_is_found_by_its_name() {
        assert!(Dtype::ALL.into_iter().all(|dtype| named(name(dtype)) == Some(dtype)));
        assert_eq!(named("F64"), None);
    }
}
