//! The kinds of values a key can have.

use toml::de::DeValue;

use crate::document::Typed;
use crate::node::{self, Class};
use crate::spec::Auto;
use crate::units::Bytes;

/// `vocab`: bytes, or a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vocab {
    /// One token a byte.
    Bytes,
    /// This many.
    Tokens(u64),
}

/// `validation`: a share of the tokens, or a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// Of the end.
    Share(f64),
    /// Their own files.
    Path(String),
}

/// A number, or none of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OrNone(pub(crate) Option<f64>);

impl Typed for u64 {
    const ALLOWED: &'static str = "a whole number, 0 or more";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::Integer(i) => Self::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => None,
        }
    }
}

impl Typed for f64 {
    const ALLOWED: &'static str = "a number";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::Float(f) => f.as_str().parse().ok().filter(|f: &Self| f.is_finite()),
            DeValue::Integer(i) => i64::from_str_radix(i.as_str(), i.radix()).ok().map(|i| i as Self),
            _ => None,
        }
    }
}

impl Typed for bool {
    const ALLOWED: &'static str = "true or false";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::Boolean(b) => Some(*b),
            _ => None,
        }
    }
}

impl Typed for String {
    const ALLOWED: &'static str = "text in quotes";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::String(s) if !s.is_empty() => Some(s.clone().into_owned()),
            _ => None,
        }
    }
}

impl Typed for Auto<u64> {
    const ALLOWED: &'static str = "\"auto\" or a whole number";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        if is_auto(value) { Some(Self::Auto) } else { u64::of(value).map(Self::Set) }
    }
}

impl Typed for Auto<bool> {
    const ALLOWED: &'static str = "\"auto\", true or false";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        if is_auto(value) { Some(Self::Auto) } else { bool::of(value).map(Self::Set) }
    }
}

impl Typed for Auto<Class> {
    const ALLOWED: &'static str = node::CLASS;
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::String(s) => s.parse().ok(),
            _ => None,
        }
    }
}

impl Typed for Vocab {
    const ALLOWED: &'static str = "\"bytes\" or a number of tokens";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::String(s) => (s == "bytes").then_some(Self::Bytes),
            _ => u64::of(value).map(Self::Tokens),
        }
    }
}

impl Typed for Held {
    const ALLOWED: &'static str = "a share of the tokens from 0 to 0.5, or a path in quotes";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        String::of(value).map(Self::Path).or_else(|| f64::of(value).map(Self::Share))
    }
}

impl Typed for OrNone {
    const ALLOWED: &'static str = "a number above 0, or \"none\"";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::String(s) => (s == "none").then_some(Self(None)),
            _ => f64::of(value).map(|x| Self(Some(x))),
        }
    }
}

impl Typed for Bytes {
    const ALLOWED: &'static str = "a size with its unit in quotes, such as \"2GiB\" or \"512MiB\"";
    fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::String(s) => s.parse().ok(),
            _ => None,
        }
    }
}

fn is_auto(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::String(s) if s == "auto")
}
