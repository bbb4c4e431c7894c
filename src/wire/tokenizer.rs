//! The model's tokenizer, as far as `wire` needs it: how many tokens a text has. Who makes it reads the file.

use std::fmt;
use std::sync::Arc;

use crate::base::digest::Digest;

/// Counts the tokens of a text; none when the tokenizer cannot.
type Count = dyn Fn(&str) -> Option<u32> + Send + Sync;

/// A tokenizer that counts answers.
#[derive(Clone)]
pub struct Tokenizer {
    file: Digest,
    count: Arc<Count>,
}

impl Tokenizer {
    /// A tokenizer that was read from the file with this digest.
    pub fn new(file: Digest, count: impl Fn(&str) -> Option<u32> + Send + Sync + 'static) -> Self {
        Self { file, count: Arc::new(count) }
    }

    /// SHA-256 of its file: two counts by one file are alike.
    pub const fn file(&self) -> Digest {
        self.file
    }

    /// Tokens of a text, without those that a model's prompt or answer is put between; none when it cannot tell.
    pub fn count(&self, text: &str) -> Option<u32> {
        (self.count)(text).filter(|tokens| *tokens > 0)
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tokenizer").field(&self.file).finish()
    }
}
