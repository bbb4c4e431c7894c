//! One request of a run. Instants are on the run's monotonic origin and stored in whole
//! microseconds; a record is made in that resolution, so that what is read back equals what was measured.

use crate::base::digest::ShortDigest;
use crate::base::units::Nanos;
pub use crate::wire::decoded::{Chunk, Doubt, Outcome, TokenSource};

/// What happened to one measured request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the cell.
    pub cell: String,
    /// Number of the request in its cell's plan.
    pub request: u32,
    /// Its class, in a cell that has some. Whoever compares takes the class from the plan; this one is for readers that
    /// have no plan.
    pub class: Option<String>,
    /// When it was due.
    pub due: Nanos,
    /// When it was sent.
    pub sent: Nanos,
    /// How long its connection took to open; none where one was open already. TLS is part of it.
    pub connect: Option<Nanos>,
    /// Of this, the TLS handshake.
    pub tls: Option<Nanos>,
    /// When the response's head arrived.
    pub head: Option<Nanos>,
    /// First body byte.
    pub first_byte: Option<Nanos>,
    /// First answer content (after reasoning); equals the first chunk when there is no reasoning.
    pub first_answer: Option<Nanos>,
    /// Chunks with content or reasoning, in order.
    pub chunks: Vec<Chunk>,
    /// Reads of the socket that brought the body. Fewer than chunks: several came in one read and share its instant.
    pub reads: u32,
    /// When the response ended or was given up.
    pub end: Nanos,
    /// Prompt tokens.
    pub prompt_tokens: Option<u32>,
    /// Of these, read from the prefix cache.
    pub cached_tokens: Option<u32>,
    /// Output tokens, reasoning included.
    pub output_tokens: Option<u32>,
    /// Of these, reasoning.
    pub reasoning_tokens: Option<u32>,
    /// Where the token counts come from.
    pub tokens_from: TokenSource,
    /// For a success: where the accounts of its tokens contradict each other.
    pub doubt: Option<Doubt>,
    /// Length of the answer's text in bytes, reasoning included: what the token counts are measured against.
    pub text_bytes: u64,
    /// Digest of that text, to tell whether two answers say the same; none without text, and where no digest was
    /// stored.
    pub text_digest: Option<ShortDigest>,
    /// Finish reason as the server gave it, bounded to 64 bytes.
    pub finish: Option<String>,
    /// Whether it counts as a success, and if not, why.
    pub outcome: Outcome,
    /// For a failure: what was seen, one bounded line without control characters.
    pub detail: Option<String>,
}

impl Record {
    /// The record with its instants in the order in which things happen: one that is earlier than what must come before
    /// it is moved there. So whatever a transport stamps, the record can be stored.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        let mut before = self.due;
        let early = [Some(&mut self.sent), self.head.as_mut(), self.first_byte.as_mut()];
        let instants = early.into_iter().flatten().chain(self.chunks.iter_mut().map(|chunk| &mut chunk.at));
        for at in instants.chain([&mut self.end]) {
            *at = before.max(*at);
            before = *at;
        }
        let span = self.first_content().zip(self.last_content());
        self.first_answer = self.first_answer.zip(span).map(|(at, (first, last))| at.clamp(first, last));
        self
    }

    /// Whether it counts as a success: its outcome is `ok`, content came, and its tokens are known. An `ok`
    /// without these is no evidence of anything; see [`Record::is_invalid`].
    pub fn is_success(&self) -> bool {
        self.outcome.is_ok() && !self.chunks.is_empty() && self.output_tokens.is_some_and(|tokens| tokens > 0)
    }

    /// An `ok` that lacks content or tokens. It counts as failed, and a run with many of them is not valid.
    pub fn is_invalid(&self) -> bool {
        self.outcome.is_ok() && !self.is_success()
    }

    /// First content.
    pub fn first_content(&self) -> Option<Nanos> {
        self.chunks.first().map(|chunk| chunk.at)
    }

    /// Last content.
    pub fn last_content(&self) -> Option<Nanos> {
        self.chunks.last().map(|chunk| chunk.at)
    }
}

/// The share of the prompt tokens that came from the prefix cache, over the answers that tell both.
pub fn cached_share(records: &[&Record]) -> Option<f64> {
    let told = records.iter().filter_map(|it| Some((it.cached_tokens?, it.prompt_tokens?)));
    // No more of a prompt than all of it.
    let told = told.map(|(cached, all)| (f64::from(cached.min(all)), f64::from(all)));
    let (cached, all) = told.fold((0.0, 0.0), |(cached, all), (one, of)| (cached + one, all + of));
    (all > 0.0).then(|| cached / all)
}
