//! Job files that come with the program. Whoever runs one says which data it reads.
//!
//! CF-2 (every preset parses): they are part of the program, and its tests parse all of them.

use std::path::Path;

use crate::job;
use crate::spec::JobSpec;

/// Every preset: its name and its text.
pub const ALL: [(&str, &str); 6] = [
    ("demo", include_str!("../presets/demo.toml")),
    ("bench-s", include_str!("../presets/bench-s.toml")),
    ("bench-m", include_str!("../presets/bench-m.toml")),
    ("tiny", include_str!("../presets/tiny.toml")),
    ("llama-tiny", include_str!("../presets/llama-tiny.toml")),
    ("llama-s", include_str!("../presets/llama-s.toml")),
];

/// The text of the preset of this name.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// What a preset is for, as its file begins.
#[must_use]
pub fn about(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix("# "));
    lines.collect::<Vec<_>>().join(" ")
}

/// The preset of this name, reading text from `data`; none if there is none of this name.
///
/// # Panics
/// If its file does not parse, which a test excludes.
#[must_use]
pub fn preset(name: &str, data: &Path) -> Option<JobSpec> {
    let mut spec =
        job::parse(text(name)?, &format!("{name}.toml"), Path::new("/")).expect("CF-2 (every preset parses)");
    data.clone_into(&mut spec.data.path);
    Some(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Auto, Gpt2Spec};

    fn gpt2(spec: &JobSpec) -> &Gpt2Spec {
        spec.model.as_gpt2().expect("a GPT-2")
    }

    #[test]
    fn every_preset_parses() {
        for (name, _) in ALL {
            let spec = preset(name, Path::new("/text")).expect("known preset");
            assert_eq!(spec.name, name);
            assert_eq!(spec.data.path, Path::new("/text"));
            assert!(about(text(name).expect("known preset")).ends_with('.'), "{name} says what it is for");
        }
        assert_eq!(preset("no-such-preset", Path::new("/text")), None);
    }

    #[test]
    fn the_sizes_that_are_promised() {
        let demo = preset("demo", Path::new("/text")).expect("known preset");
        assert_eq!((demo.parallel.pipeline, demo.parallel.data), (Auto::Set(2), Auto::Set(2)));
        assert_eq!((demo.train.steps, gpt2(&demo).vocab), (90, 256));
        let bench = preset("bench-s", Path::new("/text")).expect("known preset");
        let model = gpt2(&bench);
        assert_eq!((model.layers, model.heads, model.width, model.context, model.vocab), (6, 6, 384, 256, 256));
        assert_eq!(bench.train.micro_batch, 8);
        let bench = preset("bench-m", Path::new("/text")).expect("known preset");
        let model = gpt2(&bench);
        assert_eq!((model.layers, model.heads, model.width, model.context, model.vocab), (12, 12, 768, 512, 50_304));
        assert_eq!(bench.train.micro_batch, 2);
        let llama = preset("llama-s", Path::new("/text")).expect("known preset").model;
        let grouped = (llama.heads(), llama.kv_heads(), llama.head_size(), llama.inner());
        assert_eq!((llama.layers(), llama.width(), grouped), (6, 384, (6, 2, 64, 1024)));
    }
}
