//! From a path to tensors with a known place each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use shoal_config::regular;
use shoal_config::safetensors;
use shoal_config::spec::{Dtype, InitSpec, ModelSpec};
use shoal_plan::blocks::ModelTable;

use super::FilesError;
use super::header::{self, Described};
use super::map::{Map, Tensor};
use crate::{hf, llmc};

/// Longest list of shards that is read.
const MOST_INDEX: u64 = 100_000_000;

/// The weights of a model in files; no element of them is kept.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    parts: Vec<Part>,
    pub(super) map: Map,
    /// One a tensor of the map.
    places: Vec<Place>,
    /// A head of its own beside a tied table.
    head: Option<Place>,
    /// Rows of an llm.c checkpoint's token table.
    padded_vocab: Option<u32>,
    read: AtomicU64,
}

/// One file.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
}

/// Where a tensor lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which file.
    pub(crate) part: usize,
    /// Its first byte.
    pub(crate) start: u64,
    pub(crate) dtype: Dtype,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl Files {
    /// Opens the files of a job's initial weights and holds their tensors against its model. None if it starts from its seed.
    ///
    /// # Errors
    /// A file is missing or not what it should be, or the tensors are others: all of them are named.
    pub fn open(init: &InitSpec, model: &ModelSpec, table: &ModelTable) -> Result<Option<Self>, FilesError> {
        match init {
            InitSpec::Seed => Ok(None),
            InitSpec::Hf(path) => Self::hf(path, model, table).map(Some),
            InitSpec::LlmC(path) => Self::llmc(path, model, table).map(Some),
        }
    }

    fn hf(path: &Path, model: &ModelSpec, table: &ModelTable) -> Result<Self, FilesError> {
        // Not every size shows in the shapes of tensors: the number of heads does not. A file may lie beside its configuration.
        let dir = if path.is_dir() { Some(path) } else { path.parent().filter(|dir| dir.join(hf::CONFIG).is_file()) };
        if let Some(dir) = dir {
            shoal_config::hf::check(dir, model)
                .map_err(|source| FilesError::Config { path: path.to_owned(), source })?;
        }
        let mut parts = Vec::new();
        let mut found: BTreeMap<String, (usize, Described)> = BTreeMap::new();
        let mut wrong = Vec::new();
        for path in shards(path)? {
            let (file, len) = open(&path)?;
            let described =
                header::read(&file, len).map_err(|source| FilesError::Read { path: path.clone(), source })?;
            let form = |found| FilesError::Form { path: path.clone(), form: "a safetensors file", found };
            for (name, tensor) in described.map_err(form)? {
                if found.insert(name.clone(), (parts.len(), tensor)).is_some() {
                    wrong.push(format!("{name} is there twice"));
                }
            }
            parts.push(Part { path, file });
        }
        let map = hf::map(table, model);
        let prefix = hf::prefix(model);
        let mut places = Vec::with_capacity(map.tensors.len());
        for tensor in &map.tensors {
            let full = format!("{prefix}{}", tensor.name);
            match found.remove(&full).or_else(|| found.remove(&tensor.name)) {
                None => wrong.push(format!("{full} is missing")),
                Some((part, there)) => match place(part, &there, tensor) {
                    Ok(place) => places.push(place),
                    Err(what) => wrong.push(format!("{full} {what}")),
                },
            }
        }
        let head = match found.remove(hf::HEAD) {
            None => None,
            Some((part, there)) => {
                place(part, &there, &map.tensors[0]).map_err(|what| wrong.push(format!("{} {what}", hf::HEAD))).ok()
            }
        };
        wrong.extend(found.keys().filter(|name| !hf::is_buffer(name)).map(|name| format!("{name} is no part of it")));
        if !wrong.is_empty() {
            return Err(FilesError::tensors(path, wrong));
        }
        Ok(Self { path: path.to_owned(), parts, map, places, head, padded_vocab: None, read: AtomicU64::new(0) })
    }

    fn llmc(path: &Path, model: &ModelSpec, table: &ModelTable) -> Result<Self, FilesError> {
        let (file, len) = open(path)?;
        let failed = |source| FilesError::Read { path: path.to_owned(), source };
        let form = |found| FilesError::Form { path: path.to_owned(), form: "an llm.c checkpoint", found };
        let header = shoal_config::llmc::read(&file, len).map_err(failed)?.map_err(form)?;
        let (map, places) = llmc::map(table, model, &header).map_err(|wrong| FilesError::tensors(path, wrong))?;
        let parts = vec![Part { path: path.to_owned(), file }];
        Ok(Self {
            path: path.to_owned(),
            parts,
            map,
            places,
            head: None,
            padded_vocab: Some(header.padded_vocab),
            read: AtomicU64::new(0),
        })
    }

    /// The file or directory that was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of values read so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// A tensor's place.
    pub(super) fn place(&self, tensor: usize) -> &Place {
        &self.places[tensor]
    }

    /// A separate head beside a tied table.
    pub(super) fn head(&self) -> Option<&Place> {
        self.head.as_ref()
    }

    /// Rows of an llm.c checkpoint's token table, padding included.
    pub(super) fn padded_vocab(&self) -> Option<u32> {
        self.padded_vocab
    }

    /// Reads bytes `at..at + out.len()` of a tensor.
    pub(super) fn bytes(&self, place: &Place, at: u64, out: &mut [u8]) -> Result<(), FilesError> {
        let part = &self.parts[place.part];
        self.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        part.file
            .read_exact_at(out, place.start + at)
            .map_err(|source| FilesError::Read { path: part.path.clone(), source })
    }
}

/// The files of a directory: one, or those of its index. A file stands for itself.
fn shards(dir: &Path) -> Result<Vec<PathBuf>, FilesError> {
    if dir.is_file() {
        return Ok(vec![dir.to_owned()]);
    }
    let whole = dir.join(hf::MODEL);
    let index = dir.join(hf::INDEX);
    if whole.is_file() || !index.is_file() {
        return Ok(vec![whole]);
    }
    let form = |found| FilesError::Form { path: index.clone(), form: "an index of safetensors files", found };
    let failed = |source| FilesError::Read { path: index.clone(), source };
    let (file, len) = open(&index)?;
    if len > MOST_INDEX {
        return Err(form(format!("it has {len} bytes, and at most {MOST_INDEX} are read")));
    }
    let mut text = vec![0; len as usize];
    file.read_exact_at(&mut text, 0).map_err(failed)?;
    let index: Index = serde_json::from_slice(&text).map_err(|error| form(error.to_string()))?;
    let names: BTreeSet<&String> = index.weight_map.values().collect();
    // A name that leads out of the directory is nothing that a model needs.
    if let Some(name) = names.iter().find(|name| Path::new(name).file_name() != Some(name.as_ref())) {
        return Err(form(format!("it names {name:?}, which is no file of this directory")));
    }
    Ok(names.into_iter().map(|name| dir.join(name)).collect())
}

/// A regular file and its length.
fn open(path: &Path) -> Result<(File, u64), FilesError> {
    let failed = |source| FilesError::Read { path: path.to_owned(), source };
    let file = regular::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    Ok((file, len))
}

/// A tensor's place, or what is wrong with it.
fn place(part: usize, there: &Described, wanted: &Tensor) -> Result<Place, String> {
    let Some(dtype) = safetensors::named(&there.kind) else {
        return Err(format!("is {}, and F32, F16 and BF16 can be read", there.kind));
    };
    let longer = wanted.open_ended
        && there.shape.len() == wanted.shape.len()
        && there.shape[0] >= wanted.shape[0]
        && there.shape[1..] == wanted.shape[1..];
    if there.shape != wanted.shape && !longer {
        return Err(format!("has shape {:?}, and {:?} is needed", there.shape, wanted.shape));
    }
    Ok(Place { part, start: there.start, dtype })
}
