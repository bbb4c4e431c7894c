//! Why a target cannot be connected to, and errors of others as one line.

use std::io;
use std::path::PathBuf;

/// Longest text of a cause.
const CAUSE_CHARS: usize = 240;

/// Why no transport could be made for a target.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL is not usable.
    #[error("target url: {reason}; write it as http://host:port or https://host")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// The proxy's URL is not usable.
    #[error("proxy url: {reason}; write it as http://host:port")]
    Proxy {
        /// What is wrong with it.
        reason: String,
    },
    /// The API key cannot be sent.
    #[error("the api key holds characters that an HTTP header cannot carry; check the environment variable")]
    ApiKey,
    /// The host has no address.
    #[error("no address for host `{host}`: {cause}; check the url and the name server")]
    Resolve {
        /// The host.
        host: String,
        /// What the resolver said.
        cause: String,
    },
    /// The CA file cannot be used.
    #[error("ca file {}: {cause}; it must hold certificates in PEM form", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// TLS cannot be set up on this host.
    #[error("cannot set up TLS: {cause}; install the system's CA certificates or name a ca file")]
    Tls {
        /// Why.
        cause: String,
    },
    /// The operating system refused threads or sockets.
    #[error("cannot start the HTTP workers: {0}")]
    Workers(#[source] io::Error),
}

/// An error with its causes, as one bounded line without control characters.
pub(super) fn cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CAUSE_CHARS).collect()
}
