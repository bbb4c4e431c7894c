//! One small request through the normal path before anything is measured, so that the usual mistakes
//! are one clear sentence each and not three hundred failed records.

use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::wire::decoded::{Decoded, Doubt, Outcome, TokenSource};
use crate::wire::dialect::{Dialect, Prompt, Template, forcing};
use crate::wire::tokenizer::Tokenizer;
use crate::wire::transport::{Exchange, Failure, Outbound, Transport, Wake};

/// The first request asks for so many tokens.
const TOKENS: u32 = 16;
/// Its prompt; not one of a plan.
const PROMPT: &str = "Count from one to ten.";
/// The prompt where the length is forced: a server that ignores that ends the answer after a word.
const SHORT: &str = "Answer with one word: yes or no?";
/// Content events that cannot have come in one read unless something held the stream back.
const HELD_BACK: usize = 8;
/// At most so many model names are listed in an error.
const LISTED: usize = 8;
/// A failure that may pass is met so often before it counts.
const TRIES: u32 = 3;
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

/// Why a target is not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No connection.
    #[error("the target is unreachable: {cause}; check the url and that the deployment is up")]
    Unreachable {
        /// Why.
        cause: String,
    },
    /// No TLS.
    #[error("the TLS handshake failed: {cause}; check http or https in the url, and `ca_file` for a private CA")]
    Tls {
        /// Why.
        cause: String,
    },
    /// The connection broke without an answer.
    #[error(
        "the target closed the connection without an answer: {cause}; check the port, and http or https in the url"
    )]
    Closed {
        /// Why.
        cause: String,
    },
    /// No answer in time.
    #[error("the target gave no whole answer within {limit}; check that it is not busy with other traffic")]
    Silent {
        /// The limit.
        limit: Nanos,
    },
    /// 401 or 403.
    #[error("the target refused the API key ({status}); check the environment variable named by `api_key_env`")]
    Unauthorized {
        /// HTTP status.
        status: u16,
    },
    /// The model is not served.
    #[error("the target does not serve model `{model}`; {}", offer(offered))]
    NoSuchModel {
        /// The model asked for.
        model: String,
        /// What is served, when the target tells.
        offered: Vec<String>,
    },
    /// The path of the interface does not exist.
    #[error("the target has no `{path}` ({status}); check `api` and the path in the url")]
    NoSuchPath {
        /// The path.
        path: String,
        /// HTTP status.
        status: u16,
    },
    /// The answer is not a stream.
    #[error("the target did not stream: {cause}; check `api`, and that no `extra_body` field turns `stream` off")]
    NotStreaming {
        /// What came.
        cause: String,
    },
    /// The stream began well and broke.
    #[error("the stream broke before its end: {cause}; check the deployment's log, and proxies in between")]
    Cut {
        /// What came.
        cause: String,
    },
    /// A whole answer without a token.
    #[error("the target answered without a single token: {cause}; check the model, its chat template and `extra_body`")]
    Nothing {
        /// What came.
        cause: String,
    },
    /// The stream is not that of the interface.
    #[error("the answer does not look like the `api` of the target: {cause}")]
    WrongDialect {
        /// What came.
        cause: String,
    },
    /// Any other refusal.
    #[error("the target refused a small request: {cause}")]
    Other {
        /// What came.
        cause: String,
    },
    /// The user wants to stop.
    #[error("interrupted during the first request")]
    Interrupted,
}

/// Something to know that does not keep the target from being measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Caution {
    /// Not the first request was answered well.
    #[error("the first request failed and try {tries} was answered: {cause}")]
    Retried {
        /// The try that was answered well, from 2.
        tries: u32,
        /// Why the one before was not.
        cause: Box<Refused>,
    },
    /// No usage object came.
    #[error(
        "the stream has no usage: {}, and prompt lengths are not checked; let the server report the usage of streams \
         (`stream_options.include_usage` in the OpenAI interfaces){}",
        if *.tokenizer { "output tokens are those of the text, by the tokenizer" } else { "chunks are counted as tokens" },
        if *.tokenizer { "" } else { ", or name the model's `tokenizer.json` as `tokenizer` of the target" }
    )]
    NoUsage {
        /// Whether a tokenizer counted in its place.
        tokenizer: bool,
    },
    /// The accounts of the tokens contradict each other.
    #[error("{0}; throughput, TPOT and output lengths rest on the usage")]
    Doubtful(Doubt),
    /// The answer is shorter than the length that the request forces.
    #[error(
        "the request forces {TOKENS} output tokens, and the answer has {output}: the server does not honour it, and every \
         request that ends early counts as failed (`wrong_length`); {}",
        forcing(*.api)
    )]
    LengthIgnored {
        /// Its tokens.
        output: u32,
        /// Which interface.
        api: Api,
    },
    /// The answer ended by itself, before the length that was asked for.
    #[error(
        "the answer ended after {output} of {TOKENS} tokens, as the request lets it: lengths are the model's, and a change of \
         them is a change of the work; {}",
        forcing(*.api)
    )]
    EndsEarly {
        /// Its tokens.
        output: u32,
        /// Which interface.
        api: Api,
    },
    /// The whole stream came at one instant.
    #[error("the whole stream arrived in one read: something between servegate and the engine holds it back")]
    HeldBack,
}

/// Sends one small request and says what is wrong with the target, if anything. A failure that may pass is tried
/// again: what share of requests fails is for the measurement to say.
///
/// # Errors
/// See [`Refused`]; a clear refusal at once, the last failure after three.
pub fn preflight(trial: Trial<'_>, transport: &mut dyn Transport) -> Result<Vec<Caution>, Refused> {
    let mut before: Option<Refused> = None;
    for tries in 1..=TRIES {
        let due = if before.is_some() { transport.now() + PAUSE } else { transport.now() };
        match attempt(&trial, transport, u64::from(tries), due) {
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
            Refused::Other { .. } => server || told,
            Refused::Unreachable { .. }
            | Refused::Tls { .. }
            | Refused::Silent { .. }
            | Refused::Unauthorized { .. }
            | Refused::NoSuchModel { .. }
            | Refused::NoSuchPath { .. }
            | Refused::NotStreaming { .. }
            | Refused::WrongDialect { .. }
            | Refused::Interrupted => false,
        };
        if may { Self::May } else { Self::Stays }
    }
}

fn attempt(
    trial: &Trial<'_>,
    transport: &mut dyn Transport,
    id: u64,
    due: Nanos,
) -> Result<Vec<Caution>, (Refused, Passing)> {
    let wanted = trial.template.wanted(TOKENS);
    transport.submit(Outbound {
        id,
        due,
        request_id: format!("servegate-preflight/{id}"),
        path: trial.dialect.path(),
        body: trial.template.body(Prompt::Text(if wanted.forced { SHORT } else { PROMPT }), TOKENS, 0),
        timeout: trial.timeout,
        stall_timeout: trial.timeout,
    });
    let wake = transport.wait(None);
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

fn offer(offered: &[String]) -> String {
    if offered.is_empty() {
        return "it does not tell which it serves".to_owned();
    }
    let more = if offered.len() > LISTED { " and others" } else { "" };
    let names: Vec<_> = offered.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    format!("it serves {}{more}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::dialect;
    use crate::wire::transport::Read;

    /// Answers with one exchange after the other, and with the last one for ever.
    struct Script(Vec<Exchange>);

    impl Transport for Script {
        fn now(&self) -> Nanos {
            Nanos::ZERO
        }
        fn submit(&mut self, request: Outbound) {
            assert_eq!(request.path, "/v1/completions");
            assert!(String::from_utf8_lossy(&request.body).contains("\"model\":\"m\""));
        }
        fn wait(&mut self, _until: Option<Nanos>) -> Wake {
            let exchange = if self.0.len() > 1 { self.0.remove(0) } else { self.0[0].clone() };
            Wake::Ended(Box::new(exchange))
        }
        fn abandon(&mut self) {}
    }

    /// A response whose body came in pieces, one read each.
    fn response(status: Option<u16>, pieces: &[&str], failure: Option<Failure>) -> Exchange {
        let mut exchange = Exchange {
            id: 0,
            due: Nanos::ZERO,
            sent: Nanos::ZERO,
            connect: None,
            tls: None,
            status,
            head: None,
            body: Vec::new(),
            reads: Vec::new(),
            end: Nanos::from_millis(100),
            failure,
        };
        for (at, piece) in (1..).zip(pieces) {
            exchange.body.extend_from_slice(piece.as_bytes());
            exchange.reads.push(Read { at: Nanos::from_millis(at), end: exchange.body.len() });
        }
        exchange
    }

    fn look(offered: Option<&[String]>, exchange: Exchange) -> Result<Vec<Caution>, Refused> {
        look_at(offered, &mut Script(vec![exchange]))
    }

    fn look_at(offered: Option<&[String]>, script: &mut Script) -> Result<Vec<Caution>, Refused> {
        let dialect = dialect::of(Api::Completions);
        let template = Template::new(&dialect, "m", &serde_json::Map::new());
        let timeout = Nanos::from_secs(60);
        let (api, model) = (Api::Completions, "m");
        preflight(
            Trial { api, dialect: &dialect, template: &template, model, offered, timeout, tokenizer: None },
            script,
        )
    }

    const TOKEN: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
    const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
    const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":16}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    #[test]
    fn a_target_in_order_passes_and_oddities_are_named() {
        assert_eq!(look(None, response(Some(200), &[TOKEN, TOKEN, FINISH, USAGE, DONE], None)), Ok(vec![]));
        assert_eq!(
            look(None, response(Some(200), &[TOKEN, TOKEN, FINISH, DONE], None)),
            Ok(vec![Caution::NoUsage { tokenizer: false }])
        );
        let doubtful = Caution::Doubtful(Doubt::FewerThanChunks);
        let at_once = [&TOKEN.repeat(19), FINISH, USAGE, DONE].concat();
        assert_eq!(look(None, response(Some(200), &[&at_once], None)), Ok(vec![Caution::HeldBack, doubtful]));
    }

    #[test]
    fn a_length_that_is_not_reached_says_how_to_force_it() {
        let three = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":3}}\n\n";
        let stop = FINISH.replace("length", "stop");
        let answer = || response(Some(200), &[TOKEN, TOKEN, &stop, three, DONE], None);
        assert_eq!(look(None, answer()), Ok(vec![Caution::EndsEarly { output: 3, api: Api::Completions }]));
        let dialect = dialect::of(Api::Completions);
        let extra = serde_json::Map::from_iter([("ignore_eos".to_owned(), true.into())]);
        let template = Template::new(&dialect, "m", &extra);
        let timeout = Nanos::from_secs(60);
        let api = Api::Llamacpp;
        let trial =
            Trial { api, dialect: &dialect, template: &template, model: "m", offered: None, timeout, tokenizer: None };
        let cautions = preflight(trial, &mut Script(vec![answer()])).unwrap();
        let [ignored @ Caution::LengthIgnored { output: 3, .. }] = cautions.as_slice() else { panic!("{cautions:?}") };
        let said = ignored.to_string();
        assert!(said.contains("forces 16 output tokens, and the answer has 3") && said.contains("by itself"), "{said}");
    }

    #[test]
    fn the_usual_mistakes_are_one_sentence_each() {
        let failed = |failure| look(None, response(None, &[], Some(failure))).unwrap_err();
        let cause = || "refused".to_owned();
        assert_eq!(failed(Failure::Connect(cause())), Refused::Unreachable { cause: cause() });
        assert_eq!(failed(Failure::Tls(cause())), Refused::Tls { cause: cause() });
        assert!(matches!(failed(Failure::Cut(cause())), Refused::Closed { .. }));
        let broken = |failure| look(None, response(Some(200), &[TOKEN, TOKEN], failure)).unwrap_err();
        assert!(matches!(broken(Some(Failure::Cut(cause()))), Refused::Cut { .. }), "there was an answer");
        assert!(matches!(broken(None), Refused::Cut { .. }));
        assert!(matches!(broken(Some(Failure::TooLarge)), Refused::Other { .. }));
        assert!(matches!(look(None, response(Some(200), &[FINISH, USAGE, DONE], None)), Err(Refused::Nothing { .. })));
        assert_eq!(failed(Failure::TimedOut), Refused::Silent { limit: Nanos::from_secs(60) });
    }

    #[test]
    fn a_failure_that_may_pass_is_tried_three_times_and_a_clear_refusal_once() {
        let good = || response(Some(200), &[TOKEN, TOKEN, FINISH, USAGE, DONE], None);
        let cut = || response(Some(200), &[TOKEN], Some(Failure::Cut("reset".to_owned())));
        let reset = || response(None, &[], Some(Failure::Cut("reset".to_owned())));
        let status = |status| response(Some(status), &["{}"], None);
        let in_stream = || response(Some(200), &[TOKEN, "data: {\"error\":{\"message\":\"dead\"}}\n\n", DONE], None);
        for failed in [cut(), reset(), status(500), status(503), in_stream()] {
            let mut script = Script(vec![failed.clone(), failed.clone(), good()]);
            let cautions = look_at(None, &mut script).unwrap();
            assert!(matches!(cautions.as_slice(), [Caution::Retried { tries: 3, .. }]), "{failed:?}: {cautions:?}");
            let mut script = Script(vec![failed.clone(), failed.clone(), failed.clone(), good()]);
            look_at(None, &mut script).unwrap_err();
            assert_eq!(script.0.len(), 1, "three tries, and no fourth: {failed:?}");
        }
        let refused = |failure| response(None, &[], Some(failure));
        for clear in [
            status(401),
            status(404),
            status(422),
            response(Some(200), &["<html>"], None),
            refused(Failure::Connect("refused".to_owned())),
            refused(Failure::Tls("handshake".to_owned())),
            refused(Failure::TimedOut),
            refused(Failure::TooLarge),
        ] {
            let mut script = Script(vec![clear.clone(), good()]);
            look_at(None, &mut script).unwrap_err();
            assert_eq!(script.0.len(), 1, "one try: {clear:?}");
        }
    }

    #[test]
    fn answers_that_are_no_streams_of_the_interface_say_what_to_check() {
        let answered = |status, body: &str| look(None, response(Some(status), &[body], None)).unwrap_err();
        assert_eq!(answered(401, "{}"), Refused::Unauthorized { status: 401 });
        let unknown = "{\"error\":{\"message\":\"The model `m` does not exist.\",\"code\":404}}";
        assert!(matches!(answered(404, unknown), Refused::NoSuchModel { .. }));
        let path = "/v1/completions".to_owned();
        assert_eq!(answered(404, "{\"detail\":\"Not Found\"}"), Refused::NoSuchPath { path, status: 404 });
        assert!(matches!(answered(500, "boom"), Refused::Other { cause } if cause.contains("boom")));
        assert!(matches!(answered(200, "{\"choices\":[{\"text\":\"whole\"}]}"), Refused::NotStreaming { .. }));
        assert!(matches!(answered(200, "<html>"), Refused::NotStreaming { .. }));
        assert!(matches!(answered(200, "data: 7\n\n"), Refused::WrongDialect { .. }));
        assert!(matches!(answered(200, ""), Refused::WrongDialect { .. }));
    }

    #[test]
    fn an_unknown_model_names_what_is_served() {
        let offered = ["tiny", "large"].map(str::to_owned);
        let error = look(Some(&offered), response(Some(400), &["{}"], None)).unwrap_err().to_string();
        assert_eq!(error, "the target does not serve model `m`; it serves `tiny`, `large`");
        let served = ["m".to_owned()];
        let error = look(Some(&served), response(Some(400), &["{\"error\":\"bad\"}"], None)).unwrap_err();
        assert!(matches!(error, Refused::Other { .. }));
    }
}
