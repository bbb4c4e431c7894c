//! The simulated server over HTTP in real time: OpenAI's endpoints and vLLM's operations pages.

mod answer;
mod metrics;
mod pace;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::sim::Deployment;
use crate::sim::ask::{self, Refusal};
use crate::sim::engine;
use crate::sim::fault::Dealer;
use crate::sim::profile::Profile;
use crate::sim::server::answer::{Answer, Spoken};
use crate::sim::server::pace::{Handle, Signal};
use crate::sim::voice::Speech;

/// Longest request body that is read.
const MAX_REQUEST: usize = 16 << 20;
/// A client that has not sent a request head by then is dropped.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// When the server says that it is ready. Before that every answer is 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// At once.
    AtOnce,
    /// So long after the start.
    After(Duration),
    /// Never.
    Never,
}

/// What the server is apart from its deployment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Asked for as `Authorization: Bearer <key>` on `/v1`; no key, no question.
    pub api_key: Option<String>,
    /// When it becomes ready.
    pub readiness: Readiness,
}

impl Default for Options {
    fn default() -> Self {
        Self { api_key: None, readiness: Readiness::AtOnce }
    }
}

/// The server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not to be had.
    #[error("cannot listen on {addr}: {source}; choose another port, or 0 for a free one")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// No thread for the engine.
    #[error("cannot start the thread of the simulated engine: {0}")]
    Thread(io::Error),
}

/// A bound server that has not begun to serve.
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    site: Arc<Site>,
}

struct Site {
    engine: Handle,
    profile: Profile,
    options: Options,
    faults: Mutex<Dealer>,
    started: Instant,
    numbers: AtomicU64,
}

impl Server {
    /// Listens on an address (port 0 for a free one) and boots the deployment. Use a loopback address
    /// unless others are meant to reach it.
    ///
    /// # Errors
    /// When the address is taken or refused, or no thread can be started.
    pub async fn bind(addr: SocketAddr, deployment: &Deployment, options: Options) -> Result<Self, StartError> {
        let refused = |source| StartError::Bind { addr, source };
        let listener = TcpListener::bind(addr).await.map_err(refused)?;
        let addr = listener.local_addr().map_err(refused)?;
        let site = Site {
            engine: Handle::boot(deployment).map_err(StartError::Thread)?,
            profile: deployment.profile.clone(),
            options,
            faults: Mutex::new(Dealer::new(&deployment.faults, deployment.noise.boot.unwrap_or_default())),
            started: Instant::now(),
            numbers: AtomicU64::new(0),
        };
        Ok(Self { listener, addr, site: Arc::new(site) })
    }

    /// The address it listens on.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `shutdown` is done, then drops every connection.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, Arc::clone(&self.site)));
                    }
                    // Out of descriptors, most likely: wait for one rather than spin.
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
    }
}

async fn connection(stream: TcpStream, site: Arc<Site>) {
    // Every chunk leaves at once; where the option is refused, chunks are only later.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("no TCP_NODELAY: {error}");
    }
    let service = hyper::service::service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("a connection ended early: {error}");
    }
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let path = request.uri().path();
        if !self.is_ready() {
            return refuse(Refusal::new(503, "ServiceUnavailable", "the engine is not ready", None));
        }
        if path.starts_with("/v1/") && !self.is_authorised(&request) {
            return refuse(Refusal::new(401, "Unauthorized", "Unauthorized", None));
        }
        match (request.method(), path) {
            (&Method::POST, "/v1/chat/completions" | "/v1/completions") => self.complete(request).await,
            (&Method::GET, "/v1/models") => respond(StatusCode::OK, "application/json", self.models()),
            (&Method::GET, "/health") => respond(StatusCode::OK, "text/plain", String::new()),
            (&Method::GET, "/version") => {
                let version = concat!("{\"version\":\"", env!("CARGO_PKG_VERSION"), "+servegate-sim\"}");
                respond(StatusCode::OK, "application/json", version)
            }
            (&Method::GET, "/metrics") => {
                let page = self.engine.meter().page(self.profile.model, self.profile.block_tokens);
                respond(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
            }
            (&Method::POST, "/reset_prefix_cache") => {
                self.engine.reset_prefix_cache();
                respond(StatusCode::OK, "application/json", "{\"success\":true}")
            }
            _ => refuse(Refusal::new(404, "NotFoundError", "Not Found", None)),
        }
    }

    fn is_ready(&self) -> bool {
        match self.options.readiness {
            Readiness::AtOnce => true,
            Readiness::After(delay) => self.started.elapsed() >= delay,
            Readiness::Never => false,
        }
    }

    fn is_authorised(&self, request: &Request<Incoming>) -> bool {
        let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        self.options.api_key.as_deref().is_none_or(|key| given.and_then(|it| it.strip_prefix("Bearer ")) == Some(key))
    }

    fn models(&self) -> String {
        let Profile { model, max_model_len, .. } = &self.profile;
        format!(
            "{{\"object\":\"list\",\"data\":[{{\"id\":\"{model}\",\"object\":\"model\",\"created\":0,\
             \"owned_by\":\"servegate-sim\",\"root\":\"{model}\",\"parent\":null,\"max_model_len\":{max_model_len}}}]}}"
        )
    }

    async fn complete(&self, request: Request<Incoming>) -> Response<Answer> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_REQUEST).collect().await else {
            return refuse(Refusal::new(413, "RequestTooLarge", "the request body is too large or was cut off", None));
        };
        let mut ask = match ask::read(head.uri.path(), &body.to_bytes(), &self.profile) {
            Ok(ask) => ask,
            Err(refusal) => return refuse(refusal),
        };
        let id = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (prompt_tokens, output_tokens) = (ask.prompt_tokens, ask.output_tokens);
        let blocks = std::mem::take(&mut ask.blocks);
        let request = engine::Request { id, prompt_tokens, output_tokens, blocks };
        let mut ticket = self.engine.submit(request, ask.by_length);
        let fault = self.faults.lock().unwrap_or_else(PoisonError::into_inner).deal();
        let speech = Speech::new(id, self.profile.model, ask, fault);
        let kind = if speech.is_stream() { "text/event-stream; charset=utf-8" } else { "application/json" };
        match ticket.signals.recv().await {
            Some(Signal::Rejected) => refuse(speech.too_long()),
            Some(first) => response(StatusCode::OK, kind, Answer::Spoken(Box::new(Spoken::new(speech, ticket, first)))),
            None => refuse(Refusal::new(500, "InternalServerError", "the engine has stopped", None)),
        }
    }
}

fn refuse(refusal: Refusal) -> Response<Answer> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    respond(status, "application/json", refusal.body)
}

fn respond(status: StatusCode, kind: &'static str, text: impl Into<bytes::Bytes>) -> Response<Answer> {
    response(status, kind, Answer::Text(Some(text.into())))
}

fn response(status: StatusCode, kind: &'static str, answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::oneshot;

    use super::*;
    use crate::sim::fault::{Fault, Share};
    use crate::sim::noise::Noise;

    const BODY: &str = r#"{"model":"llama-3.1-8b","messages":[{"content":"a b c"}],"max_tokens":20,"stream":true,
        "stream_options":{"include_usage":true},"ignore_eos":true}"#;

    /// Steps of a tenth of a millisecond, so that nothing takes long.
    fn quick(faults: &[Share]) -> Deployment {
        let profile = Profile { weights_ms: 0.1, fixed_ms: 0.0, api_ms: 0.0, frontend_ms: 0.0, ..Profile::h100_8b() };
        Deployment { faults: faults.to_vec(), ..Deployment::new(profile, Noise::OFF) }
    }

    /// Serves while `client` talks to it; the whole must end in good time.
    fn with_server<T>(deployment: &Deployment, options: Options, client: impl AsyncFnOnce(SocketAddr) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::bind(([127, 0, 0, 1], 0).into(), deployment, options).await.unwrap();
            let addr = server.addr();
            let (stop, stopped) = oneshot::channel::<()>();
            let talk = async {
                let got = tokio::time::timeout(Duration::from_secs(20), client(addr)).await.unwrap();
                drop(stop);
                got
            };
            tokio::join!(talk, server.serve(async { drop(stopped.await) })).0
        })
    }

    async fn send(addr: SocketAddr, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let request =
            format!("{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn call(addr: SocketAddr, head: &str, body: &str) -> String {
        let mut answer = String::new();
        send(addr, head, body).await.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[test]
    fn a_client_gets_its_stream_and_the_pages_know_of_it() {
        with_server(&quick(&[]), Options::default(), async |addr| {
            let answer = call(addr, "POST /v1/chat/completions", BODY).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream"), "{answer}");
            assert_eq!(answer.matches("\"content\":\"").count(), 21);
            assert!(answer.contains("\"completion_tokens\":20") && answer.contains("data: [DONE]"));
            let whole =
                call(addr, "POST /v1/completions", r#"{"prompt":"a b","max_tokens":3,"ignore_eos":true}"#).await;
            assert!(whole.contains("\"total_tokens\":6,\"completion_tokens\":3}"), "{whole}");
            let page = call(addr, "GET /metrics", "").await;
            assert!(
                page.contains("vllm:generation_tokens_total{engine=\"0\",model_name=\"llama-3.1-8b\"} 23"),
                "{page}"
            );
            assert!(call(addr, "GET /health", "").await.starts_with("HTTP/1.1 200 "));
            assert!(call(addr, "GET /v1/models", "").await.contains("\"id\":\"llama-3.1-8b\""));
            let reset = call(addr, "POST /reset_prefix_cache", "").await;
            assert!(reset.starts_with("HTTP/1.1 200 ") && reset.contains("{\"success\":true}"), "{reset}");
            assert!(call(addr, "GET /version", "").await.contains("\"version\":\""));
            for (head, body, status) in [
                ("GET /nothing", "", "404"),
                ("POST /v1/chat/completions", "{", "400"),
                ("POST /v1/chat/completions", r#"{"model":"nope"}"#, "404"),
                ("POST /v1/completions", r#"{"prompt":"a","max_tokens":131072,"ignore_eos":true}"#, "400"),
            ] {
                let answer = call(addr, head, body).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head} {body}: {answer}");
            }
        });
    }

    #[test]
    fn keys_and_readiness_are_asked_for() {
        let locked = Options { api_key: Some("k".to_owned()), readiness: Readiness::AtOnce };
        with_server(&quick(&[]), locked, async |addr| {
            for (header, status) in
                [("", "401"), ("\r\nauthorization: Bearer x", "401"), ("\r\nauthorization: Bearer k", "200")]
            {
                let answer = call(addr, &format!("GET /v1/models HTTP/1.1{header}\r\nx-rest:"), "").await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            }
            assert!(call(addr, "GET /health", "").await.starts_with("HTTP/1.1 200 "));
        });
        let never = Options { readiness: Readiness::Never, ..Options::default() };
        with_server(&quick(&[]), never, async |addr| {
            assert!(call(addr, "GET /health", "").await.starts_with("HTTP/1.1 503 "));
        });
    }

    #[test]
    fn a_client_that_leaves_frees_the_engine() {
        let endless = [Share { fault: Fault::StalledStream, share: 1.0 }];
        with_server(&quick(&endless), Options::default(), async |addr| {
            let mut stream = send(addr, "POST /v1/chat/completions", &BODY.replace("20", "100000")).await;
            stream.read_exact(&mut [0; 64]).await.unwrap();
            drop(stream);
            loop {
                let page = call(addr, "GET /metrics", "").await;
                if page.contains("finished_reason=\"abort\"} 1")
                    && page.contains("num_requests_running{engine=\"0\",model_name=\"llama-3.1-8b\"} 0")
                {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }

    #[test]
    fn a_cut_stream_and_an_endless_one_look_so_on_the_wire() {
        let cut = [Share { fault: Fault::CutStream, share: 1.0 }];
        with_server(&quick(&cut), Options::default(), async |addr| {
            let mut answer = Vec::new();
            // A broken connection may show as an error or as an end without the last chunk.
            drop(send(addr, "POST /v1/chat/completions", BODY).await.read_to_end(&mut answer).await);
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.contains("\"delta\"") && !answer.contains("[DONE]") && !answer.ends_with("0\r\n\r\n"));
        });
        let endless = [Share { fault: Fault::EndlessBody, share: 1.0 }];
        with_server(&quick(&endless), Options::default(), async |addr| {
            let mut stream = send(addr, "POST /v1/chat/completions", BODY).await;
            stream.read_exact(&mut vec![0; 1 << 20]).await.unwrap();
        });
    }
}
