//! `node.toml`: what one worker daemon offers and whom it joins.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::document::{Document, Found};
use crate::error::ConfigError;
use crate::raw::RawNode;
use crate::spec::Auto;
use crate::units::Bytes;

/// What a worker's devices take of its memory for themselves: each thread's scratch and the room where it packs operands of
/// products, scratch of them all, and with several threads the room where they pack together.
#[must_use]
pub fn own_memory(threads: u32) -> Bytes {
    const THREAD: u64 = 4 * ((512 << 10) + (1 << 20) + 192 * (512 + 16));
    const ALL: u64 = 1 << 20;
    const TOGETHER: u64 = 4 * 768 * 3072;
    Bytes(u64::from(threads.max(1)) * THREAD + ALL + if threads > 1 { TOGETHER } else { 0 })
}

/// Least memory that a worker of so many threads can do anything with: [`own_memory`], and 4 MiB for a job, in whole mebibytes.
#[must_use]
pub fn least_memory(threads: u32) -> Bytes {
    Bytes((own_memory(threads).0 + (4 << 20)).next_multiple_of(1 << 20))
}

/// Memory of a worker that says nothing about it.
pub const DEFAULT_MEMORY: Bytes = Bytes(2 << 30);

/// Instruction-set classes that a device can be told to compute with. What a machine has of them only the machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// What every x86-64 processor has: products of `plain` arithmetic, and slow.
    Portable,
    /// 256-bit vectors and fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
    /// Of every 64-bit ARM processor.
    Neon,
}

impl Class {
    /// Each of them.
    const ALL: [Self; 4] = [Self::Portable, Self::Avx2, Self::Avx512, Self::Neon];

    /// As typed and printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Neon => "neon",
        }
    }
}

/// What is not a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{asked}` is not a class; allowed: {CLASS}")]
pub struct NotAClass {
    asked: String,
}

impl FromStr for Auto<Class> {
    type Err = NotAClass;

    fn from_str(text: &str) -> Result<Self, NotAClass> {
        let class = Class::ALL.into_iter().find(|class| class.name() == text).map(Self::Set);
        class.or((text == "auto").then_some(Self::Auto)).ok_or_else(|| NotAClass { asked: text.to_owned() })
    }
}

impl fmt::Display for Auto<Class> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Set(class) => class.name(),
        })
    }
}

/// Everything a node file says, resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Unique in the cluster; its certificate carries it.
    pub name: String,
    /// Where peers reach its transport; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The coordinator's transport; the one that the cluster directory names if there is none.
    pub join: Option<SocketAddr>,
    /// What its arenas may hold, all tiers together.
    pub memory: Bytes,
    /// Compute threads.
    pub threads: u32,
    /// What its devices compute with; `auto` is the best that the machine has.
    pub class: Auto<Class>,
    /// Where written pieces go. Absolute once resolved.
    pub data_dir: PathBuf,
}

/// Reads and resolves a node file. Paths in it are relative to its directory.
///
/// # Errors
/// If it cannot be read, or as [`parse`].
pub fn read(path: &Path) -> Result<NodeSpec, ConfigError> {
    crate::document::resolve(path, parse)
}

/// Resolves the text of a node file; `file_name` names it in errors.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str, file_name: &str, base_dir: &Path) -> Result<NodeSpec, ConfigError> {
    let document = Document::parse(text, file_name)?;
    let raw = RawNode::of(&document)?;
    let name = raw.name.as_ref().ok_or_else(|| raw.section.missing("name", NAME))?;
    if !is_name(&name.value) {
        return Err(name.refuse(NAME));
    }
    let threads = match &raw.threads {
        None => 1,
        Some(found) if (1..=1024).contains(&found.value) => found.value as u32,
        Some(found) => return Err(found.refuse("a whole number from 1 to 1024")),
    };
    Ok(NodeSpec {
        name: name.value.clone(),
        listen: raw.listen.as_ref().map_or(Ok(SocketAddr::from(([127, 0, 0, 1], 0))), address)?,
        join: raw.join.as_ref().map(address).transpose()?,
        memory: match &raw.memory {
            None => DEFAULT_MEMORY,
            Some(found) if found.value >= least_memory(threads) => found.value,
            Some(found) => {
                return Err(found.refuse(format!("at least {} with {threads} threads", least_memory(threads))));
            }
        },
        threads,
        class: raw.class.as_ref().map_or(Auto::Auto, |found| found.value),
        data_dir: base_dir.join(raw.data_dir.as_ref().map_or("data", |found| found.value.as_str())),
    })
}

/// The text of a node file that resolves to `spec`.
#[must_use]
pub fn render(spec: &NodeSpec) -> String {
    let mut table = toml::Table::new();
    table.insert("name".into(), spec.name.clone().into());
    table.insert("listen".into(), spec.listen.to_string().into());
    if let Some(join) = spec.join {
        table.insert("join".into(), join.to_string().into());
    }
    table.insert("memory".into(), spec.memory.exact().into());
    table.insert("threads".into(), i64::from(spec.threads).into());
    table.insert("class".into(), spec.class.to_string().into());
    table.insert("data_dir".into(), spec.data_dir.display().to_string().into());
    table.to_string()
}

const NAME: &str = "1 to 63 of a-z, 0-9 and -, starting with a letter, but not `coordinator`";
/// What `class` can be.
pub(crate) const CLASS: &str = "\"auto\", \"portable\", \"avx2\", \"avx512\" or \"neon\"";
const ADDRESS: &str = "an address with port, such as \"127.0.0.1:4700\"";

/// What the coordinator is called: its directory, its process record, its certificate. No node can be called so.
pub const COORDINATOR: &str = "coordinator";

/// Whether a node can be called so: it becomes a directory and a DNS name in a certificate, and [`COORDINATOR`] is taken.
#[must_use]
pub fn is_name(name: &str) -> bool {
    name != COORDINATOR
        && name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn address(found: &Found<String>) -> Result<SocketAddr, ConfigError> {
    found.value.parse().map_err(|_| found.refuse(ADDRESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_here(text: &str) -> Result<NodeSpec, ConfigError> {
        parse(text, "node.toml", Path::new("/n1"))
    }

    #[test]
    fn defaults_and_round_trip() {
        let spec = parse_here("name = \"w1\"").expect("minimal file");
        assert_eq!((spec.memory, spec.threads, spec.listen.port(), spec.join), (Bytes(2 << 30), 1, 0, None));
        assert_eq!(spec.class, Auto::Auto);
        assert_eq!(spec.data_dir, Path::new("/n1/data"));
        assert!(render(&spec).contains("memory = \"2GiB\""), "{}", render(&spec));
        assert_eq!(parse_here(&render(&spec)).expect("rendered file"), spec);
        let joins = NodeSpec { join: Some(([127, 0, 0, 1], 4700).into()), ..spec.clone() };
        assert_eq!(parse_here(&render(&joins)).expect("rendered file"), joins);
        for class in Class::ALL {
            let lower = NodeSpec { class: Auto::Set(class), ..spec.clone() };
            assert_eq!(parse_here(&render(&lower)).expect("rendered file"), lower);
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        let base = "name = \"w1\"\njoin = \"127.0.0.1:4700\"\n";
        let cases = [
            ("join = \"127.0.0.1:4700\"".to_owned(), "node.toml: `name` is missing"),
            ("name = \"W 1\"\njoin = \"127.0.0.1:1\"".to_owned(), "node.toml:1: `name` is \"W 1\"; allowed: 1 to 63"),
            (format!("{base}memory = 2"), "node.toml:3: `memory` is 2; allowed: a size with its unit"),
            (
                format!("{base}memory = \"1KiB\""),
                "node.toml:3: `memory` is \"1KiB\"; allowed: at least 12.0 MiB with 1 threads",
            ),
            (
                format!("{base}threads = 2\nmemory = \"16MiB\""),
                "node.toml:4: `memory` is \"16MiB\"; allowed: at least 27.0 MiB with 2 threads",
            ),
            (
                "name = \"w1\"\njoin = \"there\"".to_owned(),
                "node.toml:2: `join` is \"there\"; allowed: an address with port",
            ),
            (format!("{base}listen = \"here\""), "node.toml:3: `listen` is \"here\"; allowed: an address with port"),
            (
                format!("{base}class = \"sse\""),
                "node.toml:3: `class` is \"sse\"; allowed: \"auto\", \"portable\", \"avx2\", \"avx512\" or \"neon\"",
            ),
            (format!("{base}memroy = \"2GiB\""), "node.toml:3: `memroy` is not a known key, did you mean `memory`?"),
        ];
        for (text, message) in cases {
            let error = parse_here(&text).expect_err(&text).to_string();
            assert!(error.starts_with(message), "{error}\nexpected {message}");
        }
    }
}
