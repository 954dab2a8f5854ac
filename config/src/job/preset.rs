//! `[model] preset`: the sizes of a preset, with what is typed beside it laid over them.

use crate::document::{Document, Found};
use crate::error::ConfigError;
use crate::presets;
use crate::raw::{RawJob, RawModel};

/// A preset's file, and what it is called in errors.
pub(super) struct Preset {
    label: String,
    text: &'static str,
}

impl Preset {
    /// The one that is named.
    pub(super) fn named(found: &Found<String>) -> Result<Self, ConfigError> {
        match presets::text(&found.value) {
            Some(text) => Ok(Self { label: format!("preset {}", found.value), text }),
            None => {
                let known: Vec<&str> = presets::ALL.iter().map(|(name, _)| *name).collect();
                Err(found.refuse(format!("{} (`shoalctl presets` says what each is)", known.join(", "))))
            }
        }
    }

    pub(super) fn document(&self) -> Result<Document<'_>, ConfigError> {
        Document::parse(self.text, &self.label)
    }
}

/// What is typed over what the preset says of its model.
pub(super) fn under<'d>(typed: RawModel<'d>, document: &'d Document<'_>) -> Result<RawModel<'d>, ConfigError> {
    let base = RawJob::of(document)?.model;
    if let (Some(kind), Some(known)) = (&typed.kind, &base.kind)
        && kind.value != known.value
    {
        return Err(kind.refuse(format!("left out, because the model of that preset is a {}", known.value)));
    }
    Ok(typed.over(base))
}
