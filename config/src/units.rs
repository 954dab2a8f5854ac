//! Sizes with their unit.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Deserialize, Serialize};

/// A number of bytes, typed as `2GiB`, `512MiB` or `1GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// More than any machine has.
const MOST: u64 = 1 << 60;

impl Bytes {
    /// The very number, in the largest unit that it is a whole multiple of: `2GiB`.
    #[must_use]
    pub fn exact(self) -> String {
        let (shift, unit) = [(30, "GiB"), (20, "MiB"), (10, "KiB")]
            .into_iter()
            .find(|(shift, _)| self.0 > 0 && self.0.is_multiple_of(1 << shift))
            .unwrap_or((0, "B"));
        format!("{}{unit}", self.0 >> shift)
    }
}

/// A size that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not a size; allowed: a number with its unit, such as 2GiB or 512MiB, up to 1EiB")]
pub struct NotASize {
    found: String,
}

impl FromStr for Bytes {
    type Err = NotASize;

    /// A unit is required: `2` could be bytes or gigabytes.
    fn from_str(text: &str) -> Result<Self, NotASize> {
        let refuse = || NotASize { found: text.to_owned() };
        if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
            return Err(refuse());
        }
        // What does not fit is cut to the largest number, not refused.
        match text.parse::<ByteSize>() {
            Ok(size) if size.as_u64() <= MOST => Ok(Self(size.as_u64())),
            Ok(_) | Err(_) => Err(refuse()),
        }
    }
}

impl fmt::Display for Bytes {
    /// In binary units, e.g. `2.0 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ByteSize(self.0).display().iec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_a_unit() {
        for (text, bytes) in
            [("2GiB", 2 << 30), ("512 MiB", 512 << 20), ("1GB", 1_000_000_000), ("1.5KiB", 1536), ("7B", 7)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "2", "GiB", "2 apples", "-1GiB", "99999999999GiB", "2EiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert_eq!(Bytes(2 << 30).to_string(), "2.0 GiB");
        for (bytes, text) in [
            (2 << 30, "2GiB"),
            (1536 << 10, "1536KiB"),
            (512 << 20, "512MiB"),
            (1_000_000_001, "1000000001B"),
            (0, "0B"),
        ] {
            assert_eq!(Bytes(bytes).exact(), text);
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
        }
    }
}
