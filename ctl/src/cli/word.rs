//! Options whose values are words of a type of ours.
//!
//! CT-5 (a possible word is a type's): the words that can be typed are made from the type's own list.

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Takes one of `all`, by its word.
pub(super) fn of<T, const N: usize>(all: [T; N], word: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.map(word)).map(move |typed| {
        let found = all.into_iter().find(|value| word(*value) == typed);
        found.expect("CT-5 (a possible word is a type's)")
    })
}
