//! Control traffic: small requests beside the measured path.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::fmt::rfc2822;
use reqwest::header::DATE;
use reqwest::{Certificate, Client, Method, StatusCode};
use rustls::crypto::{CryptoProvider, ring};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::base::names::HttpVersion;
use crate::base::secret::Secret;
use crate::base::units::Nanos;
use crate::probe::certificate::is_of_certificate;
use crate::spec::target::{Ready, Target};
use crate::wire::exposition::MAX_PAGE;

/// Longest body of JSON that is read.
const MAX_BODY: usize = 1 << 20;
/// Longest time for one request.
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Readiness is asked this often.
const READY_POLL: Duration = Duration::from_millis(100);
/// The interrupt flag is looked at this often.
const INTERRUPT_CHECK: Duration = Duration::from_millis(20);

/// Why a deployment could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The CA file cannot be used.
    #[error("ca file {}: {cause}; it must hold certificates in PEM form", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
    /// No client could be made.
    #[error("cannot set up the control connection: {cause}")]
    Setup {
        /// Why.
        cause: String,
    },
    /// The deployment did not become ready.
    #[error("{url} was not ready after {after}: {seen}; check the deployment's log, `ready.path` and `ready.timeout`")]
    NotReady {
        /// What was asked.
        url: String,
        /// How long.
        after: Nanos,
        /// The last answer.
        seen: String,
    },
    /// Its certificate is not one to trust, which no waiting mends.
    #[error("{url}: {cause}; mend the certificate, or name the file of its CA in `ca_file` of the target")]
    Certificate {
        /// What was asked.
        url: String,
        /// Why.
        cause: String,
    },
    /// The deployment was asked to empty its caches and did not.
    #[error(
        "the server did not reset its caches: {seen}; see the deployment's log, or use `caches: salted` in the workload"
    )]
    NotReset {
        /// What was asked, and what came back.
        seen: String,
    },
    /// The user wants to stop.
    #[error("interrupted while the deployment was asked")]
    Interrupted,
}

/// Asks one deployment.
pub struct Control {
    runtime: Runtime,
    client: Client,
    url: String,
    api_key: Option<Secret>,
}

impl Control {
    /// A control connection to a target. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ControlError::CaFile`] and [`ControlError::Setup`].
    pub fn new(target: &Target, api_key: Option<Secret>) -> Result<Self, ControlError> {
        if CryptoProvider::get_default().is_none() {
            // Loses only against another thread that installs the same provider.
            drop(ring::default_provider().install_default());
        }
        let failed = |cause: String| ControlError::Setup { cause };
        let mut builder = Client::builder()
            .timeout(REQUEST_LIMIT)
            // Servers close kept connections without a word (llama.cpp after a few seconds, vLLM after five): a question
            // now and then, which must not fail, has a connection of its own.
            .pool_max_idle_per_host(0)
            .user_agent(concat!("servegate/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none());
        if let Some(url) = &target.proxy {
            let proxy = reqwest::Proxy::all(url).map_err(|error| failed(error.to_string()))?;
            builder = builder.proxy(proxy);
        } else {
            // Control traffic goes the way of the measured requests, whatever the environment says.
            builder = builder.no_proxy();
        }
        if target.protocol == HttpVersion::Http2 && target.url.starts_with("http:") {
            builder = builder.http2_prior_knowledge();
        }
        if let Some(file) = &target.ca_file {
            builder = builder.tls_certs_merge(certificates(Path::new(file))?);
        }
        Ok(Self {
            runtime: Builder::new_current_thread().enable_all().build().map_err(|error| failed(error.to_string()))?,
            client: builder.build().map_err(|error| failed(error.to_string()))?,
            url: target.url.trim_end_matches('/').to_owned(),
            api_key,
        })
    }

    /// Asks until the readiness path answers 200; gives the time from the call to that answer.
    ///
    /// # Errors
    /// [`ControlError::NotReady`] after `ready.timeout`; [`ControlError::Certificate`] at the first one that is not to be
    /// trusted; [`ControlError::Interrupted`] within 50 ms of the flag.
    pub fn ready(&self, ready: &Ready, interrupt: &AtomicBool) -> Result<Nanos, ControlError> {
        let start = Instant::now();
        let url = format!("{}{}", self.url, ready.path);
        let mut seen = "no answer yet".to_owned();
        let poll = async {
            loop {
                match self.request(Method::GET, &url).send().await {
                    Ok(answer) if answer.status().as_u16() == 200 => return Ok(()),
                    Ok(answer) => seen = format!("it answered {}", answer.status()),
                    Err(error) if is_of_certificate(&error) => {
                        return Err(ControlError::Certificate { url: url.clone(), cause: cause(&error) });
                    }
                    Err(error) => seen = cause(&error),
                }
                sleep(READY_POLL).await;
            }
        };
        let ended = self.within(ready.timeout, interrupt, poll)?;
        let elapsed = Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        match ended {
            Some(ended) => ended.map(|()| elapsed),
            None => Err(ControlError::NotReady { url, after: ready.timeout, seen }),
        }
    }

    /// Carries questions out; gives nothing when they are not answered within `limit`.
    ///
    /// # Errors
    /// [`ControlError::Interrupted`] within 50 ms of the flag.
    pub(super) fn within<T>(
        &self,
        limit: Nanos,
        interrupt: &AtomicBool,
        questions: impl Future<Output = T>,
    ) -> Result<Option<T>, ControlError> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupted(interrupt) => Err(ControlError::Interrupted),
                ended = timeout(Duration::from_nanos(limit.0), questions) => Ok(ended.ok()),
            }
        })
    }

    /// The JSON that a path answers with status 200; none for anything else, and for more than 1 MiB.
    pub(super) fn json(&self, path: &str) -> Option<Value> {
        let request = self.request(Method::GET, &format!("{}{path}", self.url));
        let answer = self.runtime.block_on(answer(request, MAX_BODY)).ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// What a path answers to a request without a body, whatever the status.
    ///
    /// # Errors
    /// No answer, or one of more than 1 MiB: why, in one line.
    pub(super) async fn ask(&self, method: Method, path: &str) -> Result<(StatusCode, Vec<u8>), String> {
        let request = self.request(method, &format!("{}{path}", self.url));
        let answer = request.send().await.map_err(|error| cause(&error))?;
        Ok((answer.status(), body(answer, MAX_BODY).await?))
    }

    /// Where a page is: beside the API for a path, and where it says for a URL.
    pub(super) fn beside(&self, place: &str) -> String {
        if place.starts_with('/') { format!("{}{place}", origin(&self.url)) } else { place.to_owned() }
    }

    /// What a URL answers with status 200. The API key goes only to the target's own origin.
    ///
    /// # Errors
    /// Any other answer, none within `limit`, or one larger than a page of counters: why, in one line.
    pub(super) fn page(&self, url: &str, limit: Duration) -> Result<Answer, String> {
        let own = origin(url) == origin(&self.url);
        let request = if own { self.request(Method::GET, url) } else { self.client.get(url) };
        self.runtime.block_on(answer(request.timeout(limit), MAX_PAGE))
    }

    fn request(&self, method: Method, url: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, url);
        match &self.api_key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        }
    }
}

/// What came back with status 200.
pub(super) struct Answer {
    pub(super) body: Vec<u8>,
    /// The server's own time, in Unix seconds.
    pub(super) at_unix_s: Option<f64>,
}

async fn answer(request: reqwest::RequestBuilder, limit: usize) -> Result<Answer, String> {
    let answer = request.send().await.map_err(|error| cause(&error))?;
    if answer.status().as_u16() != 200 {
        return Err(format!("it answered {}", answer.status()));
    }
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
    let at_unix_s =
        date.and_then(|date| rfc2822::parse(date).ok()).map(|at| at.timestamp().as_duration().as_secs_f64());
    Ok(Answer { body: body(answer, limit).await?, at_unix_s })
}

async fn body(mut answer: reqwest::Response, limit: usize) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| cause(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > limit {
            return Err(format!("its answer is larger than {limit} bytes"));
        }
    }
    Ok(body)
}

/// Scheme, host and port.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(host..).and_then(|rest| rest.find(['/', '?'])).map_or(url.len(), |at| host + at);
    url.get(..end).unwrap_or(url)
}

async fn interrupted(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        sleep(INTERRUPT_CHECK).await;
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, ControlError> {
    let failed = |cause: String| ControlError::CaFile { path: path.to_owned(), cause };
    let pem = fs::read(path).map_err(|error| failed(error.to_string()))?;
    Certificate::from_pem_bundle(&pem).map_err(|error| failed(error.to_string()))
}

/// The innermost reason of a failed request, in one line.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::*;
    use crate::base::names::Api;
    use crate::spec::target::MetricsPage;

    /// Answers the n-th request (one per connection) with the script's text.
    pub(in crate::probe) fn server(script: fn(usize, &str) -> String) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for (number, mut stream) in listener.incoming().flatten().enumerate() {
                let mut buffer = [0; 4096];
                let count = stream.read(&mut buffer).unwrap_or(0);
                let answer = script(number, std::str::from_utf8(&buffer[..count]).unwrap());
                // A client that has read enough may be gone.
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        address
    }

    pub(in crate::probe) fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    }

    pub(in crate::probe) fn control(address: SocketAddr) -> Control {
        control_at(&format!("http://{address}/"), None)
    }

    pub(in crate::probe) fn control_at(url: &str, ca_file: Option<String>) -> Control {
        let target = Target {
            url: url.to_owned(),
            api: Api::Chat,
            model: "m".to_owned(),
            api_key_env: None,
            ca_file,
            tokenizer: None,
            protocol: HttpVersion::default(),
            proxy: None,
            session_header: None,
            restart: None,
            ready: Ready::default(),
            metrics: MetricsPage::default(),
            extra_body: serde_json::Map::new(),
            conditions: BTreeMap::new(),
        };
        Control::new(&target, Some(Secret::new("sk-test"))).unwrap()
    }

    #[test]
    fn readiness_is_asked_until_it_is_200() {
        let address = server(|number, request| {
            assert!(request.starts_with("GET /health HTTP/1.1\r\n"), "{request}");
            if number < 2 { answer("503 Service Unavailable", "") } else { answer("200 OK", "") }
        });
        let elapsed = control(address).ready(&Ready::default(), &AtomicBool::new(false)).unwrap();
        assert!(elapsed >= Nanos::from_millis(200), "two pauses: {elapsed}");
    }

    #[test]
    fn what_was_seen_last_is_in_the_error_and_an_interrupt_ends_the_wait() {
        let short = Ready { timeout: Nanos::from_millis(300), ..Ready::default() };
        let busy = control(server(|_, _| answer("503 Service Unavailable", "")));
        let error = busy.ready(&short, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("503 Service Unavailable") && error.contains("/health was not ready"), "{error}");
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = control(free).ready(&short, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
        let interrupted = control(free).ready(&Ready::default(), &AtomicBool::new(true));
        assert!(matches!(interrupted, Err(ControlError::Interrupted)));
    }

    #[test]
    fn a_connection_that_the_server_closes_after_its_answer_is_not_used_again() {
        // It offers to keep the connection and closes it.
        let address = server(|_, _| "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned());
        let control = control(address);
        for _ in 0..20 {
            assert!(control.json("/version").is_some());
        }
    }

    #[test]
    fn json_comes_with_the_key_and_is_bounded() {
        let address = server(|_, request| {
            assert!(request.contains("authorization: Bearer sk-test"), "{request}");
            match request.split(' ').nth(1) {
                Some("/version") => answer("200 OK", "{\"version\":\"1\"}"),
                Some("/large") => answer("200 OK", &format!("[{}1]", "1,".repeat(MAX_BODY))),
                Some("/text") => answer("200 OK", "ok"),
                _ => answer("404 Not Found", "{}"),
            }
        });
        let control = control(address);
        assert_eq!(control.json("/version"), Some(serde_json::json!({"version": "1"})));
        for path in ["/large", "/text", "/missing"] {
            assert_eq!(control.json(path), None, "{path}");
        }
    }
}
