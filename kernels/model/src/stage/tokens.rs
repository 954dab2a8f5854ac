//! What a stage makes of the tokens it is given.

use crate::ModelError;

/// A copy of them: one for each row, all in the vocabulary.
pub(super) fn checked(tokens: &[u32], rows: usize, vocab: usize) -> Result<Vec<u32>, ModelError> {
    assert_eq!(tokens.len(), rows, "SM-7 (a token for every row)");
    match tokens.iter().find(|&&t| t as usize >= vocab) {
        Some(&token) => Err(ModelError::Token { token, vocab: vocab as u32 }),
        None => Ok(tokens.to_vec()),
    }
}
