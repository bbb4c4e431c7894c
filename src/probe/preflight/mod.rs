//! One small request through the normal path before anything is measured, so that the usual mistakes
//! are one clear sentence each and not three hundred failed records.

mod refusal;
#[cfg(test)]
mod tests;

use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::wire::decoded::{Decoded, Outcome, TokenSource};
use crate::wire::dialect::{Dialect, Prompt, Template};
use crate::wire::tokenizer::Tokenizer;
use crate::wire::transport::{Exchange, Failure, Outbound, Transport, Wake};

pub use refusal::{Caution, Refused};

/// The first request asks for so many tokens.
const TOKENS: u32 = 16;
/// Its prompt; not one of a plan.
const PROMPT: &str = "Count from one to ten.";
/// The prompt where the length is forced: a server that ignores that ends the answer after a word.
const SHORT: &str = "Answer with one word: yes or no?";
/// Content events that cannot have come in one read unless something held the stream back.
const HELD_BACK: usize = 8;
/// A failure that may pass is met so often before it counts.
const TRIES: u32 = 3;
/// After so long without an answer it is said what is waited for.
const SILENCE: Nanos = Nanos::from_secs(5);
/// Between two tries.
const PAUSE: Nanos = Nanos::from_millis(250);

/// The request and what is known of the target.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    /// Its name.
    pub api: Api,
    /// HTTP interface of the target.
    pub dialect: &'a Dialect,
    /// Its request body.
    pub template: &'a Template,
    /// Model that is asked for.
    pub model: &'a str,
    /// Models that the target serves, when it tells.
    pub offered: Option<&'a [String]>,
    /// Longest time for the answer: a model may be loaded on the first request.
    pub timeout: Nanos,
    /// Counts the answer where the server does not.
    pub tokenizer: Option<&'a Tokenizer>,
}

/// Sends one small request and says what is wrong with the target, if anything. A failure that may pass is tried
/// again: what share of requests fails is for the measurement to say. A target that is silent for long is told to
/// `waiting`, with the limit: whoever started this should not have to guess.
///
/// # Errors
/// See [`Refused`]; a clear refusal at once, the last failure after three.
pub fn preflight(
    trial: Trial<'_>,
    transport: &mut dyn Transport,
    waiting: &mut dyn FnMut(Nanos),
) -> Result<Vec<Caution>, Refused> {
    let mut before: Option<Refused> = None;
    for tries in 1..=TRIES {
        let due = if before.is_some() { transport.now() + PAUSE } else { transport.now() };
        match attempt(&trial, transport, (u64::from(tries), due), waiting) {
            Ok(mut cautions) => {
                let retried = before.map(|cause| Caution::Retried { tries, cause: Box::new(cause) });
                cautions.splice(0..0, retried);
                return Ok(cautions);
            }
            Err((refused, Passing::May)) => before = Some(refused),
            Err((refused, Passing::Stays)) => return Err(refused),
        }
    }
    Err(before.unwrap_or(Refused::Interrupted))
}

/// Whether the next request may be answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    May,
    Stays,
}

impl Passing {
    /// A broken connection, an error of the server, an error or nothing in place of the answer. Not what is wrong with
    /// every request alike, and not what takes minutes to find out.
    fn of(refused: &Refused, exchange: &Exchange) -> Self {
        let server = exchange.status.is_some_and(|status| status >= 500);
        let told = exchange.status == Some(200) && exchange.failure != Some(Failure::TooLarge);
        let may = match refused {
            Refused::Cut { .. } | Refused::Closed { .. } | Refused::Nothing { .. } => true,
            Refused::Other { .. } | Refused::Failing { .. } | Refused::NotReady { .. } => server || told,
            Refused::Unreachable { .. }
            | Refused::Tls { .. }
            | Refused::Silent { .. }
            | Refused::Unauthorized { .. }
            | Refused::NoSuchModel { .. }
            | Refused::NoSuchPath { .. }
            | Refused::TooMany { .. }
            | Refused::OtherProtocol { .. }
            | Refused::NotStreaming { .. }
            | Refused::WrongDialect { .. }
            | Refused::OwnHost { .. }
            | Refused::Interrupted => false,
        };
        if may { Self::May } else { Self::Stays }
    }
}

fn attempt(
    trial: &Trial<'_>,
    transport: &mut dyn Transport,
    (id, due): (u64, Nanos),
    waiting: &mut dyn FnMut(Nanos),
) -> Result<Vec<Caution>, (Refused, Passing)> {
    let wanted = trial.template.wanted(TOKENS);
    transport.submit(Outbound {
        id,
        due,
        request_id: format!("servegate-preflight/{id}"),
        session: None,
        path: trial.dialect.path(),
        body: trial.template.body(Prompt::Text(if wanted.forced { SHORT } else { PROMPT }), TOKENS, 0),
        timeout: trial.timeout,
        stall_timeout: trial.timeout,
    });
    let mut wake = transport.wait(Some(due + SILENCE));
    if matches!(wake, Wake::Reached) {
        waiting(trial.timeout);
        wake = transport.wait(None);
    }
    transport.abandon();
    match wake {
        Wake::Ended(exchange) => {
            let decoded = trial.dialect.decode_with(trial.tokenizer, &exchange, wanted);
            judge(trial, &exchange, &decoded).map_err(|refused| {
                let passing = Passing::of(&refused, &exchange);
                (refused, passing)
            })
        }
        Wake::Interrupted => Err((Refused::Interrupted, Passing::Stays)),
        Wake::Reached => Err((Refused::Silent { limit: trial.timeout }, Passing::Stays)),
    }
}

fn judge(trial: &Trial<'_>, exchange: &Exchange, decoded: &Decoded) -> Result<Vec<Caution>, Refused> {
    let cause = match (&decoded.detail, decoded.hint) {
        (Some(detail), Some(hint)) => format!("{detail}; {hint}"),
        (detail, _) => detail.clone().unwrap_or_default(),
    };
    match decoded.outcome {
        Outcome::Ok | Outcome::WrongLength => Ok(cautions(trial, decoded)),
        _ if exchange.failure == Some(Failure::TooLarge) => Err(Refused::Other { cause }),
        Outcome::Connection | Outcome::Truncated if !decoded.chunks.is_empty() => Err(Refused::Cut { cause }),
        Outcome::Connection => Err(match exchange.failure.clone() {
            Some(Failure::Connect(cause)) => Refused::Unreachable { cause },
            Some(Failure::Tls(cause)) => Refused::Tls { cause },
            _ => Refused::Closed { cause },
        }),
        Outcome::TimedOut | Outcome::Stalled => Err(Refused::Silent { limit: trial.timeout }),
        Outcome::HttpError | Outcome::Shed => Err(refusal(trial, exchange.status.unwrap_or_default(), cause)),
        Outcome::InStreamError => Err(Refused::Other { cause }),
        Outcome::ClientFault => Err(Refused::OwnHost { cause }),
        Outcome::Empty if decoded.finish.is_some() => Err(Refused::Nothing { cause }),
        Outcome::Malformed | Outcome::Truncated | Outcome::Empty => {
            let start = exchange.body.trim_ascii_start().first();
            let lines = trial.dialect.streams_json_lines();
            Err(if matches!(start, Some(b'[' | b'<')) || (start == Some(&b'{') && !lines) {
                Refused::NotStreaming { cause }
            } else {
                Refused::WrongDialect { cause }
            })
        }
    }
}

fn refusal(trial: &Trial<'_>, status: u16, cause: String) -> Refused {
    let missing = trial.offered.is_some_and(|offered| !offered.iter().any(|name| name == trial.model));
    let no_model =
        || Refused::NoSuchModel { model: trial.model.to_owned(), offered: trial.offered.unwrap_or_default().to_vec() };
    match status {
        401 | 403 => Refused::Unauthorized { status },
        400 | 404 | 422 if missing => no_model(),
        // An engine's own words on an unknown model; an unknown path gets a generic page.
        404 if cause.contains("model") => no_model(),
        100..=199 => Refused::OtherProtocol { status },
        429 => Refused::TooMany { cause },
        502..=504 => Refused::NotReady { cause },
        500..=599 => Refused::Failing { cause },
        404 | 405 => Refused::NoSuchPath { path: trial.dialect.path().to_owned(), status },
        _ => Refused::Other { cause },
    }
}

fn cautions(trial: &Trial<'_>, decoded: &Decoded) -> Vec<Caution> {
    let chunks = &decoded.chunks;
    let held_back = chunks.len() >= HELD_BACK && chunks.windows(2).all(|pair| pair.first() == pair.last());
    let counted = decoded.tokens_from == TokenSource::Usage;
    let output = decoded.output_tokens.unwrap_or_default();
    let ignored = decoded.outcome == Outcome::WrongLength;
    let early = counted && !ignored && output < trial.template.wanted(TOKENS).output_tokens;
    [
        (!counted, Caution::NoUsage { tokenizer: decoded.tokens_from == TokenSource::Tokenizer }),
        (held_back, Caution::HeldBack),
        (ignored, Caution::LengthIgnored { output, api: trial.api }),
        (early, Caution::EndsEarly { output, api: trial.api }),
    ]
    .into_iter()
    .filter_map(|(holds, caution)| holds.then_some(caution))
    .chain(decoded.doubt.map(Caution::Doubtful))
    .collect()
}
