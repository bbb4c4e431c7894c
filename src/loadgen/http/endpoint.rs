//! Where requests go: the parsed URL, its addresses, TLS, and the headers that every request carries.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Uri};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::base::secret::Secret;
use crate::loadgen::http::clock::Clock;
use crate::loadgen::http::line::{Io, Line, Tap};
use crate::wire::transport::Failure;

/// A name must resolve, and one address must answer, within this time.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Longest text of a cause.
const CAUSE_CHARS: usize = 240;

/// A deployment as the measured path needs it.
#[derive(Clone, Debug)]
pub struct HttpTarget {
    /// `http://` or `https://`, host, optional port and path prefix.
    pub url: String,
    /// Sent as `Authorization: Bearer`.
    pub api_key: Option<Secret>,
    /// File with CA certificates (PEM) to trust beside the system's.
    pub ca_file: Option<PathBuf>,
}

/// Why no transport could be made for a target.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL is not usable.
    #[error("target url: {reason}; write it as http://host:port or https://host")]
    Url {
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

/// A target, ready to be connected to.
pub(super) struct Endpoint {
    authority: Authority,
    /// Path in front of the API's paths, without a trailing slash.
    prefix: String,
    headers: HeaderMap,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    addresses: Vec<SocketAddr>,
    /// Which of the addresses answered last.
    preferred: AtomicUsize,
}

impl Endpoint {
    /// Parses the URL, resolves the host once, and loads the certificates.
    pub(super) async fn new(target: &HttpTarget) -> Result<Self, HttpError> {
        let url = |reason: &str| HttpError::Url { reason: reason.to_owned() };
        let uri: Uri = target.url.parse().map_err(|error: http::uri::InvalidUri| url(&error.to_string()))?;
        let authority = uri.authority().ok_or_else(|| url("it names no host"))?.clone();
        if authority.as_str().contains('@') {
            return Err(url("it must not hold a user or password; use an API key"));
        }
        if uri.query().is_some() {
            return Err(url("it must not hold a query"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let (tls, port) = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => (None, 80),
            Some(scheme) if *scheme == Scheme::HTTPS => {
                let name = ServerName::try_from(host.clone()).map_err(|error| url(&error.to_string()))?;
                (Some((connector(target.ca_file.as_deref())?, name)), 443)
            }
            _ => return Err(url("its scheme is neither http nor https")),
        };
        let addresses = resolve(&host, authority.port_u16().unwrap_or(port)).await?;
        Ok(Self {
            headers: headers(&authority, target.api_key.as_ref())?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
            authority,
            tls,
            addresses,
            preferred: AtomicUsize::new(0),
        })
    }

    /// The request for a path of the API.
    pub(super) fn request<B>(&self, path: &str, body: B) -> Result<http::Request<B>, http::Error> {
        let mut request = http::Request::post(format!("{}{path}", self.prefix)).body(body)?;
        request.headers_mut().clone_from(&self.headers);
        Ok(request)
    }

    /// Opens a connection, TLS handshake included.
    pub(super) async fn open(&self, clock: Clock) -> Result<Line, Failure> {
        let stream = self.connect().await?;
        stream.set_nodelay(true).map_err(|error| Failure::Connect(cause(&error)))?;
        let tap = Tap::new(stream, clock);
        let stamps = tap.stamps();
        let io: Box<dyn Io> = match &self.tls {
            None => Box::new(tap),
            Some((connector, name)) => match timeout(CONNECT_LIMIT, connector.connect(name.clone(), tap)).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(error)) => return Err(Failure::Tls(cause(&error))),
                Err(_elapsed) => return Err(Failure::Tls("no answer to the TLS handshake".to_owned())),
            },
        };
        Line::start(io, stamps).await.map_err(|error| Failure::Connect(cause(&error)))
    }

    /// Tries the addresses in turn, the one that answered last first.
    async fn connect(&self) -> Result<TcpStream, Failure> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let mut seen = format!("{}: no address", self.authority);
        for (place, address) in self.addresses.iter().enumerate().cycle().skip(preferred).take(self.addresses.len()) {
            match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    self.preferred.store(place, Ordering::Relaxed);
                    return Ok(stream);
                }
                Ok(Err(error)) => seen = format!("{address}: {}", cause(&error)),
                Err(_elapsed) => seen = format!("{address}: no answer within {} s", CONNECT_LIMIT.as_secs()),
            }
        }
        Err(Failure::Connect(seen))
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, HttpError> {
    let failed = |cause: String| HttpError::Resolve { host: host.to_owned(), cause };
    let found = timeout(CONNECT_LIMIT, lookup_host((host, port))).await;
    let found = found.map_err(|elapsed| failed(elapsed.to_string()))?.map_err(|error| failed(cause(&error)))?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() { Err(failed("the name has none".to_owned())) } else { Ok(addresses) }
}

fn headers(authority: &Authority, api_key: Option<&Secret>) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    let host =
        HeaderValue::from_str(authority.as_str()).map_err(|error| HttpError::Url { reason: error.to_string() })?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("servegate/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = api_key {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", key.reveal())).ok().ok_or(HttpError::ApiKey)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, HttpError> {
    let provider = Arc::new(ring::default_provider());
    let failed = |error: rustls::Error| HttpError::Tls { cause: error.to_string() };
    let extra = ca_file.map_or(Ok(Vec::new()), certificates)?;
    let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&provider)).map_err(failed)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let failed = |cause: String| HttpError::CaFile { path: path.to_owned(), cause };
    let pem = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| failed(error.to_string()))?;
    if found.is_empty() { Err(failed("it holds no certificate".to_owned())) } else { Ok(found) }
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
