//! From an ended exchange to what it turned out to be. The first of these that holds decides: a status
//! that is no success; an error or a broken event in the stream; the exchange's own failure; a missing
//! end mark; no content; too few tokens. After the end mark nothing can go wrong any more: the answer is whole.

use serde_json::Value;

use crate::wire::decoded::{Decoded, Outcome, TokenSource, Wanted};
use crate::wire::dialect::Dialect;
use crate::wire::dialect::answer::{Answer, Problem};
use crate::wire::excerpt::{DETAIL, excerpt};
use crate::wire::hints::hint;
use crate::wire::sse::{Event, Oversized, Parser};
use crate::wire::transport::{Exchange, Failure, MAX_BODY, Read};

/// No event of these APIs comes near this many bytes.
const MAX_EVENT: usize = 4 << 20;

/// Longest error body that is read as JSON.
const MAX_ERROR: usize = 64 << 10;

/// The end mark of both APIs.
const END: &str = "[DONE]";

impl Dialect {
    /// Decodes what came back for a request.
    pub fn decode(&self, exchange: &Exchange, wanted: Wanted) -> Decoded {
        let mut reader = Reader { dialect: *self, answer: Answer::default(), ended: false, recognised: false };
        let mut refused =
            exchange.status.filter(|status| !(200..300).contains(status)).map(|status| refusal(status, &exchange.body));
        if refused.is_none() {
            refused = reader.read(exchange).err();
        }
        let (tokens_from, output) = reader.answer.settle();
        let finding = refused.unwrap_or_else(|| reader.judge(exchange, wanted, (tokens_from, output)));
        let Reader { answer, ended, .. } = reader;
        Decoded {
            first_byte: exchange.reads.iter().find(|read| read.end > 0).map(|read| read.at),
            first_answer: answer.answered_at,
            chunks: answer.chunks,
            prompt_tokens: answer.tokens.prompt,
            cached_tokens: answer.tokens.cached,
            output_tokens: Some(output),
            reasoning_tokens: answer.tokens.reasoning,
            tokens_from,
            finish: answer.finish,
            ended,
            text: answer.text.finish(),
            text_bytes: answer.text_bytes,
            outcome: finding.outcome,
            detail: finding.detail,
            hint: finding.hint,
        }
    }
}

/// An outcome with what led to it.
struct Finding {
    outcome: Outcome,
    detail: Option<String>,
    hint: Option<&'static str>,
}

impl Finding {
    fn new(outcome: Outcome, detail: &str) -> Self {
        Self { outcome, detail: Some(excerpt(detail, DETAIL)), hint: None }
    }
}

/// Reads a stream to its end mark or its first problem.
struct Reader {
    dialect: Dialect,
    answer: Answer,
    ended: bool,
    /// Whether the body looks like an event stream at all.
    recognised: bool,
}

impl Reader {
    fn read(&mut self, exchange: &Exchange) -> Result<(), Finding> {
        let mut parser = Parser::new(MAX_EVENT);
        let mut from = 0;
        // A transport that did not stamp all it read still gets all of it decoded.
        let rest = Read { at: exchange.end, end: exchange.body.len() };
        for read in exchange.reads.iter().chain([&rest]) {
            let end = read.end.min(exchange.body.len());
            let mut piece = exchange.body.get(from..end).unwrap_or_default();
            from = from.max(end);
            if !piece.is_empty() {
                self.answer.at = read.at;
            }
            let oversized = |error: Oversized| Finding::new(Outcome::Malformed, &error.to_string());
            while let Some(event) = parser.next_event(&mut piece).map_err(oversized)? {
                self.event(event)?;
                if self.ended {
                    return Ok(());
                }
            }
        }
        let last = parser.finish().ok().flatten().map_or(Ok(()), |event| self.event(event));
        self.recognised = parser.recognised();
        match last {
            // Half an event is a cut stream, not a broken one.
            Err(Finding { outcome: Outcome::Malformed, .. }) | Ok(()) => Ok(()),
            Err(reported) => Err(reported),
        }
    }

    fn event(&mut self, event: Event<'_>) -> Result<(), Finding> {
        let malformed = |what: &dyn std::fmt::Display| {
            Finding::new(Outcome::Malformed, &format!("{what} (event that ends at byte {} of the stream)", event.end))
        };
        let data = std::str::from_utf8(event.data).map_err(|error| malformed(&error))?;
        if event.name == b"error" {
            return Err(Finding::new(Outcome::InStreamError, &server_message(event.data)));
        }
        match data.trim() {
            "" => Ok(()),
            END => {
                self.ended = true;
                Ok(())
            }
            data => (self.dialect.read)(&mut self.answer, data).map_err(|problem| match problem {
                Problem::Reported => Finding::new(Outcome::InStreamError, &server_message(data.as_bytes())),
                Problem::GaveUp(_) => Finding::new(Outcome::InStreamError, &problem.to_string()),
                Problem::Json(_) | Problem::Count(_) => malformed(&problem),
            }),
        }
    }

    /// The outcome of a stream without a problem of its own.
    fn judge(&self, exchange: &Exchange, wanted: Wanted, (source, output): (TokenSource, u32)) -> Finding {
        if !self.ended {
            return self.unended(exchange);
        }
        let finish = self.answer.finish.as_deref().unwrap_or("none");
        if self.answer.chunks.is_empty() {
            return Finding::new(Outcome::Empty, &format!("a whole stream without content, finish reason {finish}"));
        }
        if output == 0 {
            return Finding::new(Outcome::Malformed, "the usage counts 0 output tokens although content came");
        }
        // Chunks may hold several tokens: without usage their number proves nothing against the finish reason.
        let excused = source == TokenSource::Chunks && finish == "length";
        if wanted.forced && output < wanted.output_tokens && !excused {
            let detail = format!("{output} of {} tokens, finish reason {finish}", wanted.output_tokens);
            return Finding::new(Outcome::WrongLength, &detail);
        }
        Finding { outcome: Outcome::Ok, detail: None, hint: None }
    }

    fn unended(&self, exchange: &Exchange) -> Finding {
        let body = &exchange.body;
        let so_far = || format!("after {} bytes and {} content events", body.len(), self.answer.chunks.len());
        match &exchange.failure {
            Some(failure) => failed(failure, &so_far()),
            None if exchange.status.is_none() => Finding::new(Outcome::Connection, "no response came"),
            None if body.trim_ascii().is_empty() => Finding::new(Outcome::Empty, "an empty response"),
            None if !self.recognised => no_stream(body),
            None => {
                Finding::new(Outcome::Truncated, &format!("the stream ended without its end mark {END} {}", so_far()))
            }
        }
    }
}

/// A status that is no success.
fn refusal(status: u16, body: &[u8]) -> Finding {
    let outcome = if matches!(status, 429 | 503) { Outcome::Shed } else { Outcome::HttpError };
    let message = server_message(body);
    let detail = if message.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {message}") };
    Finding { hint: hint(status, body), ..Finding::new(outcome, &detail) }
}

/// A success whose body is no event stream: the server's error in plain JSON, or another API's answer.
fn no_stream(body: &[u8]) -> Finding {
    match error_in(body) {
        Some(message) => Finding::new(Outcome::InStreamError, &message),
        None => Finding {
            hint: Some(
                "the answer is not a stream: check the target's `url` and `api`, and that nothing turns `stream` off",
            ),
            ..Finding::new(Outcome::Malformed, &format!("not an event stream: {}", lossy(body)))
        },
    }
}

fn failed(failure: &Failure, so_far: &str) -> Finding {
    match failure {
        Failure::Connect(why) => Finding::new(Outcome::Connection, &format!("no connection: {why}")),
        Failure::Tls(why) => Finding::new(Outcome::Connection, &format!("TLS handshake failed: {why}")),
        Failure::Cut(why) => Finding::new(Outcome::Connection, &format!("connection broke {so_far}: {why}")),
        Failure::TimedOut => Finding::new(Outcome::TimedOut, &format!("not finished within its time limit, {so_far}")),
        Failure::Stalled => Finding::new(Outcome::Stalled, &format!("silent for too long, {so_far}")),
        Failure::TooLarge => Finding::new(Outcome::Malformed, &format!("a response of more than {MAX_BODY} bytes")),
    }
}

/// What the server says in an error body or event; the text itself when it is not of a usual form.
fn server_message(body: &[u8]) -> String {
    error_in(body).unwrap_or_else(|| lossy(body))
}

/// The message of an error in JSON, in the forms of the OpenAI API, of `FastAPI`, and of older engines.
fn error_in(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body.get(..=MAX_ERROR).map_or(body, |_| &[])).ok()?;
    let error = value.get("error").filter(|error| !error.is_null());
    let message = match error {
        Some(error) => error.get("message").unwrap_or(error),
        None => value.get("message").or_else(|| value.get("detail"))?,
    };
    Some(excerpt(message.as_str().map_or_else(|| message.to_string(), str::to_owned).as_str(), DETAIL))
}

fn lossy(body: &[u8]) -> String {
    excerpt(&String::from_utf8_lossy(body.get(..2 * DETAIL).unwrap_or(body)), DETAIL)
}
