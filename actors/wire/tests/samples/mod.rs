//! One message of every kind, with values that look like nothing else. A new variant does not compile without a sample.

mod control;
mod header;
mod journal;
mod parts;

pub(crate) use control::control;
pub(crate) use header::{headers, widest_headers};
pub(crate) use journal::journal;

/// A message and what it is called in the golden files.
pub(crate) struct Sample<T> {
    /// Path of variants, e.g. `to_worker/holder/fence`.
    pub(crate) name: String,
    /// The message.
    pub(crate) message: T,
}

/// Names samples by their variant and checks that every variant has one.
fn named<T>(path: &str, all: &[&'static str], name: impl Fn(&T) -> &'static str, samples: Vec<T>) -> Vec<Sample<T>> {
    let found: Vec<_> = samples.iter().map(&name).collect();
    for variant in all {
        assert!(found.contains(variant), "{path}: no sample of {variant}");
    }
    let mut counts = std::collections::BTreeMap::new();
    samples
        .into_iter()
        .map(|message| {
            let variant = name(&message);
            let count = counts.entry(variant).or_insert(0);
            *count += 1;
            let number = if *count == 1 { String::new() } else { format!("#{count}") };
            Sample { name: format!("{path}{variant}{number}"), message }
        })
        .collect()
}

/// Puts samples into the message around them.
fn wrapped<T, U>(samples: Vec<Sample<T>>, wrap: impl Fn(T) -> U) -> Vec<Sample<U>> {
    samples.into_iter().map(|sample| Sample { name: sample.name, message: wrap(sample.message) }).collect()
}

/// The list of an enum's variants with a function that names one; the match has no arm for variants that are not listed.
macro_rules! variants {
    ($enum:ident: $($variant:ident = $name:literal),+ $(,)?) => {
        (&[$($name),+] as &[&'static str], |value: &$enum| -> &'static str {
            match value {
                $($enum::$variant { .. } => $name),+
            }
        })
    };
}
pub(crate) use variants;
