//! What enters a stage and goes from block to block.

use std::sync::Arc;

use shoal_kernels::Buffer;

use crate::ModelError;
use crate::block::Scope;

/// What a stage is fed with.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// First stage: tokens `[samples, context]`.
    Tokens(&'a [u32]),
    /// Later stages: the activation `[samples, context, width]` of the stage before.
    Activation(Arc<Buffer>),
}

/// What goes from block to block.
pub(super) enum Flow {
    Tokens(Vec<u32>),
    Rows(Arc<Buffer>),
    Ended,
}

impl Flow {
    /// The input of a micro-batch, held against its sizes.
    pub(super) fn of(input: Input<'_>, scope: &Scope<'_>) -> Result<Self, ModelError> {
        match input {
            Input::Tokens(tokens) => checked(tokens, scope).map(Self::Tokens),
            Input::Activation(x) => {
                assert_eq!(x.len(), scope.rows() * scope.sizes.width, "SM-7 (a row a token): an activation");
                Ok(Self::Rows(x))
            }
        }
    }
}

/// Tokens of a micro-batch that the vocabulary has.
pub(super) fn checked(tokens: &[u32], scope: &Scope<'_>) -> Result<Vec<u32>, ModelError> {
    assert_eq!(tokens.len(), scope.rows(), "SM-7 (a row a token): tokens");
    let vocab = scope.sizes.vocab;
    match tokens.iter().find(|&&t| t as usize >= vocab) {
        Some(&token) => Err(ModelError::Token { token, vocab: vocab as u32 }),
        None => Ok(tokens.to_vec()),
    }
}
