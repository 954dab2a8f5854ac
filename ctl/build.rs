//! Gathers the project's own sources and docs into one text, which `shoalctl demo` trains on.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories of the workspace with text worth learning.
const ROOTS: [&str; 7] = ["actors", "config", "ctl", "daemon", "docs", "kernels", "tests"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crate_dir = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let workspace = crate_dir.parent().ok_or("a crate inside its workspace")?;
    let mut files = Vec::new();
    for root in ROOTS {
        println!("cargo::rerun-if-changed=../{root}");
        gather(&workspace.join(root), &mut files)?;
    }
    files.sort();
    let mut text = String::new();
    for file in files {
        writeln!(text, "=== {}\n{}", file.strip_prefix(workspace)?.display(), fs::read_to_string(&file)?)?;
    }
    fs::write(Path::new(&std::env::var("OUT_DIR")?).join("corpus.txt"), text)?;
    Ok(())
}

fn gather(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_text = path.extension().is_some_and(|ending| ending == "rs" || ending == "md" || ending == "toml");
        if path.is_dir() {
            gather(&path, files)?;
        } else if is_text {
            files.push(path);
        }
    }
    Ok(())
}
