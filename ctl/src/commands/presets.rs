//! `presets`: jobs that come with the program.

use std::path::Path;

use serde::Serialize;
use shoal_config::presets;
use shoal_config::spec::ModelSpec;
use shoal_plan::blocks::ModelTable;
use shoal_plan::cost::flop_per_token;

use super::Context;
use crate::cli::Presets;
use crate::failure::{Failure, Verdict};
use crate::output::Show;
use crate::output::table::table;
use crate::output::units::count;

#[derive(Serialize)]
struct Preset {
    name: &'static str,
    /// `gpt2` or `llama`.
    kind: &'static str,
    parameters: u64,
    /// Of a step.
    tokens_per_step: u64,
    /// Floating-point operations of forward and backward.
    flop_per_token: u64,
    steps: u64,
    about: String,
}

/// A preset as a file.
#[derive(Serialize)]
struct File<'n> {
    name: &'n str,
    text: &'static str,
}

pub(super) fn run(context: &Context, args: &Presets) -> Result<Verdict, Failure> {
    match &args.name {
        None => context.format.print(&Vec::from(presets::ALL.map(|(name, text)| of(name, text))))?,
        Some(name) => {
            let text = presets::text(name).ok_or_else(|| unknown(name))?;
            context.format.print(&File { name, text })?;
        }
    }
    Ok(Verdict::True)
}

/// The error for a name that is none.
pub(super) fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = presets::ALL.iter().map(|(name, _)| *name).collect();
    Failure::Usage(format!("there is no preset {name:?}; there are {}", known.join(", ")))
}

fn of(name: &'static str, text: &'static str) -> Preset {
    let spec = shoal_config::preset(name, Path::new("/")).expect("CF-2 (every preset parses)");
    Preset {
        name,
        kind: match spec.model {
            ModelSpec::Gpt2(_) => "gpt2",
            ModelSpec::Llama(_) => "llama",
        },
        parameters: ModelTable::of(&spec.model).parameters(),
        tokens_per_step: u64::from(spec.train.global_batch) * u64::from(spec.model.context()),
        flop_per_token: flop_per_token(&spec.model),
        steps: spec.train.steps,
        about: presets::about(text),
    }
}

impl Show for Vec<Preset> {
    fn show(&self) -> String {
        let rows = self.iter().map(|preset| {
            [
                preset.name.to_owned(),
                preset.kind.to_owned(),
                count(preset.parameters),
                count(preset.tokens_per_step),
                count(preset.flop_per_token),
                preset.about.clone(),
            ]
        });
        let listed =
            table(["NAME", "KIND", "PARAMETERS", "TOKENS A STEP", "FLOP A TOKEN", "WHAT IT IS"], &[2, 3, 4], rows);
        format!(
            "{listed}\n\n`shoalctl submit --preset NAME --data PATH` trains one on text; `shoalctl presets NAME` prints its job file; \
             `[model] preset = \"NAME\"` takes its sizes"
        )
    }
}

impl Show for File<'_> {
    fn show(&self) -> String {
        self.text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_says_what_it_is_and_how_large() {
        let listed = Vec::from(presets::ALL.map(|(name, text)| of(name, text)));
        let bench = listed.iter().find(|preset| preset.name == "bench-m").expect("listed");
        assert_eq!((bench.kind, bench.tokens_per_step), ("gpt2", 1024));
        assert!((124_000_000..125_000_000).contains(&bench.parameters), "{}", bench.parameters);
        let text = listed.show();
        for preset in &listed {
            assert!(text.contains(&preset.about) && preset.flop_per_token > 3 * preset.parameters, "{}", preset.name);
        }
        assert!(unknown("x").to_string().contains("there are demo, bench-s"));
    }
}
