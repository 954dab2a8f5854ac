//! Which tokens begin, end and fill texts, as a model's files say it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is known of them. They enter no bits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecialTokens {
    /// Begins a text.
    pub begin: Option<u32>,
    /// Each of them ends a text.
    pub end: Vec<u32>,
    /// Fills a batch up.
    pub pad: Option<u32>,
}

impl SpecialTokens {
    /// What `config.json` of a directory says, and `generation_config.json` before it. What is not there, or no token, says
    /// nothing.
    #[must_use]
    pub fn of_files(dir: &Path) -> Self {
        let mut found = Self::default();
        for name in ["config.json", "generation_config.json"] {
            let Ok(keys) = super::object(&dir.join(name)) else { continue };
            let first = |key| tokens(&keys, key).into_iter().next();
            found.begin = first("bos_token_id").or(found.begin);
            found.pad = first("pad_token_id").or(found.pad);
            let end = tokens(&keys, "eos_token_id");
            if !end.is_empty() {
                found.end = end;
            }
        }
        found
    }
}

/// One token, or several.
fn tokens(keys: &Map<String, Value>, key: &str) -> Vec<u32> {
    let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
    match keys.get(key) {
        Some(Value::Array(several)) => several.iter().filter_map(token).collect(),
        Some(one) => token(one).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_files_say_is_known_and_nothing_else() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(SpecialTokens::of_files(dir.path()), SpecialTokens::default());
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
        write("config.json", r#"{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": -1}"#);
        let plain = SpecialTokens { begin: Some(1), end: vec![2], pad: None };
        assert_eq!(SpecialTokens::of_files(dir.path()), plain);
        write("generation_config.json", r#"{"bos_token_id": null, "eos_token_id": [2, 7, "x"], "pad_token_id": 0}"#);
        assert_eq!(SpecialTokens::of_files(dir.path()), SpecialTokens { end: vec![2, 7], pad: Some(0), ..plain });
    }
}
