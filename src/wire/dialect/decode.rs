//! From an ended exchange to what it turned out to be. The first of these that holds decides: a status
//! that is no success; an error or a broken event in the stream; the exchange's own failure; a missing
//! end; no content; too few tokens. After the end mark nothing can go wrong any more: the answer is whole.

use crate::wire::decoded::{Decoded, Outcome, TokenSource, Wanted};
use crate::wire::dialect::answer::{Answer, Problem, Stage};
use crate::wire::dialect::errors::{error_in, lossy, server_message};
use crate::wire::dialect::{Dialect, End, Framing};
use crate::wire::event::{Event, Oversized};
use crate::wire::excerpt::{DETAIL, excerpt};
use crate::wire::frames::Frames;
use crate::wire::hints::hint;
use crate::wire::tokenizer::Tokenizer;
use crate::wire::transport::{Exchange, Failure, MAX_BODY, Read};

/// No event of these APIs comes near this many bytes.
const MAX_EVENT: usize = 4 << 20;

/// The end mark of the OpenAI completion APIs. Gateways add it to streams of other dialects.
const DONE: &str = "[DONE]";

impl Dialect {
    /// Decodes what came back for a request, without a tokenizer.
    pub fn decode(&self, exchange: &Exchange, wanted: Wanted) -> Decoded {
        self.decode_with(None, exchange, wanted)
    }

    /// Decodes what came back for a request. Where the server does not tell its tokens, `tokenizer` counts those of the
    /// text; where it does, the two are compared.
    pub fn decode_with(&self, tokenizer: Option<&Tokenizer>, exchange: &Exchange, wanted: Wanted) -> Decoded {
        let mut reader = Reader { dialect: *self, answer: Answer::default(), recognised: false, cut: false };
        let mut refused =
            exchange.status.filter(|status| !(200..300).contains(status)).map(|status| refusal(status, &exchange.body));
        if refused.is_none() {
            refused = reader.read(exchange).err();
        }
        let (tokens_from, output) = reader.answer.settle(tokenizer);
        let wanted = Wanted { output_tokens: wanted.output_tokens.saturating_mul(reader.answer.choices()), ..wanted };
        let finding = refused.unwrap_or_else(|| reader.judge(exchange, wanted, (tokens_from, output)));
        let Reader { answer, .. } = reader;
        let doubt = finding.outcome.is_ok().then(|| answer.tokens.doubt(wanted.output_tokens, &answer.shown()));
        let (counts, ended) = (answer.tokens.counts(), answer.ended());
        Decoded {
            first_byte: exchange.reads.iter().find(|read| read.end > 0).map(|read| read.at),
            first_answer: answer.answered_at,
            chunks: answer.chunks,
            prompt_tokens: counts.prompt,
            cached_tokens: counts.cached,
            output_tokens: Some(output).filter(|output| *output > 0 || tokens_from == TokenSource::Usage),
            reasoning_tokens: counts.reasoning,
            tokens_from,
            doubt: doubt.flatten(),
            finish: answer.finish,
            ended,
            text: answer.text.finish(),
            text_bytes: answer.text_bytes,
            answer_from: answer.thought_to,
            said: answer.said,
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
    /// Whether the body looks like a stream of the dialect's framing at all.
    recognised: bool,
    /// The body ends inside an event.
    cut: bool,
}

impl Reader {
    fn read(&mut self, exchange: &Exchange) -> Result<(), Finding> {
        let mut frames = match self.dialect.framing {
            Framing::Events => Frames::events(MAX_EVENT),
            Framing::Lines => Frames::lines(MAX_EVENT),
        };
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
            while let Some(event) = frames.next(&mut piece).map_err(oversized)? {
                self.event(event)?;
                if self.answer.ended() {
                    return Ok(());
                }
            }
        }
        // What is left may be a whole event that lacks its blank line, or the beginning of one.
        self.cut = frames.is_inside();
        let last = frames.finish().ok().flatten().map(|event| {
            let says = !event.data.trim_ascii().is_empty();
            self.event(event).map(|()| says)
        });
        self.recognised = frames.recognised();
        match last {
            None => Ok(()),
            Some(Ok(says)) => {
                self.cut &= !says;
                Ok(())
            }
            // Half an event is a cut stream, not a broken one.
            Some(Err(Finding { outcome: Outcome::Malformed, .. })) => {
                self.cut = true;
                Ok(())
            }
            Some(Err(reported)) => Err(reported),
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
            DONE => {
                self.answer.end_if(true);
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
        if !self.whole(exchange) {
            return self.unended(exchange);
        }
        let finish = self.answer.finish.as_deref().unwrap_or("none");
        if self.answer.chunks.is_empty() {
            return Finding::new(Outcome::Empty, &format!("a whole stream without content, finish reason {finish}"));
        }
        if output == 0 {
            return Finding::new(Outcome::Malformed, "the usage counts 0 output tokens although content came");
        }
        // Chunks may hold several tokens, and tokens may have no text: without usage neither count proves anything against
        // the finish reason.
        // An interface whose end is the response's may have no finish reason.
        let limited = self.answer.finish.as_deref().map_or(self.dialect.end == End::Close, is_limit);
        let excused = source != TokenSource::Usage && limited;
        if wanted.forced && output < wanted.output_tokens && !excused {
            let detail = format!("{output} of {} tokens, finish reason {finish}", wanted.output_tokens);
            return Finding::new(Outcome::WrongLength, &detail);
        }
        Finding { outcome: Outcome::Ok, detail: None, hint: None }
    }

    /// Whether all of the answer came: its end mark; or, in a response that ended in order, all that is said before
    /// the mark, the finish reason and the usage; or content, for a dialect without a mark. A response that ends inside
    /// an event did not end in order, whatever the connection says.
    fn whole(&self, exchange: &Exchange) -> bool {
        let in_order = exchange.failure.is_none() && exchange.status.is_some() && !self.cut;
        let said_all = match self.dialect.end {
            End::Done => self.answer.stage == Stage::Complete,
            End::Own(_) => false,
            End::Close => !self.answer.chunks.is_empty(),
        };
        self.answer.ended() || (in_order && said_all)
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
                let mark = match self.dialect.end {
                    End::Done => DONE,
                    End::Own(mark) => mark,
                    End::Close if self.cut => {
                        return Finding::new(
                            Outcome::Truncated,
                            &format!("the stream ended inside an event {}", so_far()),
                        );
                    }
                    End::Close => {
                        return Finding::new(Outcome::Empty, &format!("a response without content {}", so_far()));
                    }
                };
                Finding::new(
                    Outcome::Truncated,
                    &format!("the stream ended without its end mark `{mark}` {}", so_far()),
                )
            }
        }
    }
}

/// Whether a finish reason says that the wanted length was reached, in the words of all dialects.
fn is_limit(finish: &str) -> bool {
    matches!(finish, "length" | "max_tokens" | "max_output_tokens" | "limit")
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
    match (error_in(body), compression(body)) {
        (Some(message), _) => Finding::new(Outcome::InStreamError, &message),
        (None, Some(name)) => Finding {
            hint: Some("no compression was asked for: turn `content-encoding` off in the server or its gateway"),
            ..Finding::new(Outcome::Malformed, &format!("not an event stream: the body is compressed ({name})"))
        },
        (None, None) => Finding {
            hint: Some(
                "the answer is not a stream: check the target's `url` and `api`, and that nothing turns `stream` off",
            ),
            ..Finding::new(Outcome::Malformed, &format!("not an event stream: {}", lossy(body)))
        },
    }
}

/// What a body is compressed with, where it shows.
fn compression(body: &[u8]) -> Option<&'static str> {
    let marks: [(&[u8], _); 5] = [
        (&[0x1f, 0x8b], "gzip"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
        (&[0x78, 0x01], "deflate"),
        (&[0x78, 0x9c], "deflate"),
        (&[0x78, 0xda], "deflate"),
    ];
    marks.into_iter().find(|(mark, _)| body.starts_with(mark)).map(|(_, name)| name)
}

fn failed(failure: &Failure, so_far: &str) -> Finding {
    match failure {
        Failure::Client(why) => Finding {
            hint: Some("raise the limit of open files (`ulimit -n`), or widen net.ipv4.ip_local_port_range"),
            ..Finding::new(Outcome::ClientFault, &format!("this host refused: {why}"))
        },
        Failure::Connect(why) => Finding::new(Outcome::Connection, &format!("no connection: {why}")),
        Failure::Tls(why) => Finding::new(Outcome::Connection, &format!("TLS handshake failed: {why}")),
        Failure::Cut(why) => Finding::new(Outcome::Connection, &format!("connection broke {so_far}: {why}")),
        Failure::Unsolicited(status) => {
            let detail = format!("an answer (HTTP {status}) lay there before the request was sent: it answers nothing");
            Finding::new(Outcome::Malformed, &detail)
        }
        Failure::TimedOut => Finding::new(Outcome::TimedOut, &format!("not finished within its time limit, {so_far}")),
        Failure::Stalled => Finding::new(Outcome::Stalled, &format!("silent for too long, {so_far}")),
        Failure::TooLarge => Finding::new(Outcome::Malformed, &format!("a response of more than {MAX_BODY} bytes")),
    }
}
