//! The project's own sources and docs, carried in the program so that it learns real text wherever it runs.

/// Sources and docs at build time, in path order, each behind a line with its name.
pub const OWN: &str = include_str!(concat!(env!("OUT_DIR"), "/corpus.txt"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_project_itself() {
        assert!(OWN.len() > 100_000, "{} bytes", OWN.len());
        for part in ["docs/ARCHITECTURE.md", "ctl/src/demo/corpus.rs", "fn it_is_the_project_itself"] {
            assert!(OWN.contains(part), "{part}");
        }
    }
}
