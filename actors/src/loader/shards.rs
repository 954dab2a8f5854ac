//! A directory that `shoalctl data prepare` has made: its shards, held against its manifest.

use std::path::Path;

use shoal_config::spec::DataFormat;
use shoal_data::manifest::{self, Manifest, Part};
use shoal_plan::job::TokenizerFacts;

use super::source::TokenSource;
use super::{DataError, files};

/// Training and validation tokens, and what made them.
pub(super) struct Prepared {
    pub(super) train: TokenSource,
    pub(super) validation: TokenSource,
    pub(super) tokenizer: TokenizerFacts,
}

/// Opens all shards. Their lengths are held against the manifest here, their bytes when they are read.
pub(super) fn open(path: &Path, vocab: u32) -> Result<Prepared, DataError> {
    let (manifest, dir) = Manifest::read(path)?;
    let tokenizer = manifest.tokenizer();
    check_vocab(path, &tokenizer, vocab)?;
    if manifest.train.tokens == 0 {
        return Err(DataError::Empty { path: path.to_owned() });
    }
    let part = |part: &Part| shards(&dir, part, manifest.token_bytes);
    Ok(Prepared { train: part(&manifest.train)?, validation: part(&manifest.validation)?, tokenizer })
}

/// A model has a row for every token of its tokenizer, whether the data has it or not.
pub(super) fn check_vocab(path: &Path, tokenizer: &TokenizerFacts, vocab: u32) -> Result<(), DataError> {
    let fits = tokenizer.vocab <= vocab;
    let narrow = || DataError::Narrow { path: path.to_owned(), tokenizer: *tokenizer, vocab };
    if fits { Ok(()) } else { Err(narrow()) }
}

fn shards(dir: &Path, part: &Part, token_bytes: u64) -> Result<TokenSource, DataError> {
    let mut files = Vec::with_capacity(part.shards.len());
    for shard in &part.shards {
        let mut file = files::open_one(DataFormat::LlmC, dir.join(&shard.file))?;
        if (file.tokens, file.width) != (shard.tokens, token_bytes) {
            return Err(DataError::Shard {
                path: file.path,
                found: format!("{} tokens of {} bytes", file.tokens, file.width),
                said: format!("{} of {token_bytes}", shard.tokens),
            });
        }
        file.blake3 = manifest::digest(&shard.blake3);
        files.push(file.into());
    }
    Ok(TokenSource::of(DataFormat::Shards, files))
}
