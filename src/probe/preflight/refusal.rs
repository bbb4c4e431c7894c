//! What keeps a target from being measured, and what to know of it, in a sentence each.

use super::TOKENS;
use crate::base::names::Api;
use crate::base::units::Nanos;
use crate::wire::decoded::Doubt;
use crate::wire::dialect::forcing;

/// At most so many model names are listed in an error.
const LISTED: usize = 8;

/// Why a target is not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No connection.
    #[error("the target is unreachable: {cause}; check the url and that the deployment is up")]
    Unreachable {
        /// Why.
        cause: String,
    },
    /// The load generator's own host has no room for a connection.
    #[error("no request can be sent from here: {cause}")]
    OwnHost {
        /// What it refused, and what to do.
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
    /// 429.
    #[error(
        "the target limits requests, and its limit was reached by a single one: {cause}; wait, keep other traffic away, or \
         raise the limit of the key (a limit that cuts the load off cannot be measured under)"
    )]
    TooMany {
        /// What came.
        cause: String,
    },
    /// 502, 503 or 504.
    #[error(
        "the target is up and not ready: {cause}; wait until its model is loaded (`ready` of the target names the path that \
         tells it), and see whether a gateway in front of it reaches the engine"
    )]
    NotReady {
        /// What came.
        cause: String,
    },
    /// Any other 5xx.
    #[error(
        "the target fails on a small request: {cause}; look for this request in the deployment's log, and try without \
         `extra_body`"
    )]
    Failing {
        /// What came.
        cause: String,
    },
    /// 1xx as the final answer.
    #[error(
        "the target wants to speak another protocol ({status}): what listens there is no HTTP interface of an engine; check \
         the port and the path in the url"
    )]
    OtherProtocol {
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

fn offer(offered: &[String]) -> String {
    if offered.is_empty() {
        return "it does not tell which it serves".to_owned();
    }
    let more = if offered.len() > LISTED { " and others" } else { "" };
    let names: Vec<_> = offered.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    format!("it serves {}{more}", names.join(", "))
}
