//! Why a target cannot be connected to, and errors of others as one line.

use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

use crate::wire::transport::Failure;

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

/// What the load generator's own system refuses: open files (of the process, of the host), local ports, buffers, memory.
const OWN: [Errno; 5] = [Errno::EMFILE, Errno::ENFILE, Errno::EADDRNOTAVAIL, Errno::ENOBUFS, Errno::ENOMEM];

/// Whether the load generator's own system is to blame for an error, and not whoever is at the other end.
pub(super) fn is_own(error: &(dyn std::error::Error + 'static)) -> bool {
    let code = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
    code.is_some_and(|code| OWN.contains(&Errno::from_raw(code))) || error.source().is_some_and(is_own)
}

/// The failure that an error is: of the load generator's own system, or else as `other` says.
pub(super) fn failure(error: &(dyn std::error::Error + 'static), other: fn(String) -> Failure) -> Failure {
    if is_own(error) { Failure::Client(cause(error)) } else { other(cause(error)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn what_this_host_refuses_is_no_failure_of_the_target_however_deep_it_lies() {
        for code in OWN {
            let error = || io::Error::from_raw_os_error(code as i32);
            assert!(is_own(&error()) && is_own(&Outer(error())), "{code}");
            assert!(
                matches!(failure(&Outer(error()), Failure::Cut), Failure::Client(cause) if cause.contains("outer"))
            );
        }
        for code in [Errno::ECONNREFUSED, Errno::ECONNRESET, Errno::ETIMEDOUT, Errno::EHOSTUNREACH] {
            assert!(!is_own(&Outer(io::Error::from_raw_os_error(code as i32))), "{code}");
        }
        assert_eq!(failure(&io::Error::other("x"), Failure::Cut), Failure::Cut("x".to_owned()));
    }
}
