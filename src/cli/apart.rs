//! Two targets of one deployment under two names: it would be compared with itself, and pass.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs as _};

use http::Uri;

use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::spec::target::Target;

/// Refuses two names of one deployment that runs all the time. One name twice says that this is wanted. Two host names
/// at one address may be told apart by what answers there, and are only said.
pub(crate) fn check(
    names: [&str; 2],
    [reference, candidate]: [&Target; 2],
    terminal: &mut Terminal,
) -> Result<(), CliError> {
    let asked = |target: &Target| (target.api, target.model.clone(), target.extra_body.clone());
    let restarted = reference.restart.is_some() && candidate.restart.is_some();
    if names[0] == names[1] || restarted || asked(reference) != asked(candidate) {
        return Ok(());
    }
    let both = format!("the targets `{}` and `{}`", names[0], names[1]);
    match same(&Place::of(&reference.url), &Place::of(&candidate.url)) {
        Same::No => Ok(()),
        Same::Perhaps => {
            terminal
                .warn(&format!("warning: {both} have one address and model; see to it that they are two deployments"));
            Ok(())
        }
        Same::Yes => {
            let error = format!("{both} have one URL and model, and no restart command tells them apart");
            Err(CliError::usage(error)
                .hint("give each its own URL, or a `restart` command that starts what is to be measured")
                .hint("to compare a deployment with itself on purpose, name one target twice"))
        }
    }
}

/// Where a URL leads.
struct Place {
    host: String,
    port: u16,
    path: String,
    addresses: BTreeSet<IpAddr>,
}

/// Whether two places are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    No,
    Perhaps,
    Yes,
}

impl Place {
    /// A host that does not resolve has no address; who connects says so.
    fn of(url: &str) -> Self {
        let uri: Uri = url.parse().unwrap_or_default();
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(usual);
        let found = (host.as_str(), port).to_socket_addrs();
        let addresses = found.into_iter().flatten().map(|address| address.ip().to_canonical()).collect();
        Self { path: uri.path().trim_end_matches('/').to_owned(), host, port, addresses }
    }

    /// Whether nothing but the address tells what answers: no name that a gateway could look at.
    fn is_plain(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok() || self.addresses.iter().any(IpAddr::is_loopback)
    }
}

fn same(one: &Place, other: &Place) -> Same {
    if (one.port, &one.path) != (other.port, &other.path) {
        Same::No
    } else if one.host == other.host {
        Same::Yes
    } else if one.addresses.is_disjoint(&other.addresses) {
        Same::No
    } else if one.is_plain() || other.is_plain() {
        Same::Yes
    } else {
        Same::Perhaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_address_are_one_place_and_ports_and_paths_tell_places_apart() {
        let of = |one: &str, other: &str| same(&Place::of(one), &Place::of(other));
        for other in [
            "http://localhost:9220",
            "http://127.0.0.1:09220",
            "http://127.0.0.1:9220/",
            "http://[::ffff:127.0.0.1]:9220",
        ] {
            assert_eq!(of("http://127.0.0.1:9220", other), Same::Yes, "{other}");
        }
        assert_eq!(of("http://127.0.0.1", "http://127.0.0.1:80"), Same::Yes);
        for other in ["http://127.0.0.1:9221", "http://127.0.0.1:9220/b", "http://127.0.0.2:9220"] {
            assert_eq!(of("http://127.0.0.1:9220", other), Same::No, "{other}");
        }
        let named = |host: &str| Place {
            host: host.to_owned(),
            port: 80,
            path: String::new(),
            addresses: BTreeSet::from([IpAddr::from([192, 0, 2, 1])]),
        };
        assert_eq!(same(&named("a.test"), &named("b.test")), Same::Perhaps);
        assert_eq!(same(&named("a.test"), &named("192.0.2.1")), Same::Yes);
    }
}
