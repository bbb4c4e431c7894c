//! Where requests go: the parsed URL, its addresses, TLS, and the headers that every request carries.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::base::names::HttpVersion;
use crate::base::secret::Secret;
use crate::base::units::Nanos;
use crate::loadgen::http::clock::Clock;
use crate::loadgen::http::error::{HttpError, cause, failure, is_own};
use crate::loadgen::http::line::{Io, Line, Tap};
use crate::loadgen::http::stamp::Stamper;
use crate::loadgen::http::tls::{connector, protocol};
use crate::loadgen::http::tunnel;
use crate::wire::transport::{Failure, Outbound};

/// A name must resolve, and one address must answer, within this time.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Servers and gateways write it into their logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A deployment as the measured path needs it.
#[derive(Clone, Debug, Default)]
pub struct HttpTarget {
    /// `http://` or `https://`, host, optional port and path prefix.
    pub url: String,
    /// Sent as `Authorization: Bearer`.
    pub api_key: Option<Secret>,
    /// File with CA certificates (PEM) to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// The version of HTTP that is spoken; nothing is negotiated.
    pub version: HttpVersion,
    /// `http://host:port` of a proxy that every connection is tunnelled through (`CONNECT`).
    pub proxy: Option<String>,
    /// The header that carries the session of a request, by which a router keeps its requests on one server.
    pub session_header: Option<String>,
}

/// A target, ready to be connected to.
pub(super) struct Endpoint {
    authority: Authority,
    /// `host:port` to ask a proxy for; none without one.
    tunnel: Option<String>,
    version: HttpVersion,
    /// Path in front of the API's paths, without a trailing slash.
    prefix: String,
    headers: HeaderMap,
    /// Header of a request's session.
    session_header: Option<HeaderName>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Of the host, or of the proxy.
    addresses: Vec<SocketAddr>,
    /// How long the name took to resolve.
    resolved_in: Nanos,
    /// Which of the addresses answered last.
    preferred: AtomicUsize,
}

impl Endpoint {
    /// Parses the URL, resolves the host once, and loads the certificates.
    pub(super) async fn new(target: &HttpTarget, clock: Clock) -> Result<Self, HttpError> {
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
                (Some((connector(target.ca_file.as_deref(), target.version)?, name)), 443)
            }
            _ => return Err(url("its scheme is neither http nor https")),
        };
        let port = authority.port_u16().unwrap_or(port);
        let start = clock.now();
        let (addresses, tunnel) = match &target.proxy {
            None => (resolve(&host, port).await?, None),
            Some(proxy) => (proxy_addresses(proxy).await?, Some(format!("{}:{port}", authority.host()))),
        };
        let prefix = uri.path().trim_end_matches('/');
        let prefix = match target.version {
            HttpVersion::Http1 => prefix.to_owned(),
            // HTTP/2 has no host header: scheme and authority are parts of the request.
            HttpVersion::Http2 => format!("{}://{authority}{prefix}", if tls.is_some() { "https" } else { "http" }),
        };
        Ok(Self {
            headers: headers(&authority, target)?,
            session_header: target.session_header.as_deref().and_then(|name| name.parse().ok()),
            prefix,
            tunnel,
            version: target.version,
            resolved_in: clock.now().since(start),
            authority,
            tls,
            addresses,
            preferred: AtomicUsize::new(0),
        })
    }

    /// The request as it is sent.
    pub(super) fn request<B>(&self, outbound: &Outbound, body: B) -> Result<http::Request<B>, http::Error> {
        let mut request = http::Request::post(format!("{}{}", self.prefix, outbound.path)).body(body)?;
        request.headers_mut().clone_from(&self.headers);
        request.headers_mut().insert(REQUEST_ID, HeaderValue::from_str(&outbound.request_id)?);
        if let Some((name, session)) = self.session_header.as_ref().zip(outbound.session.as_ref()) {
            request.headers_mut().insert(name, HeaderValue::from_str(session)?);
        }
        Ok(request)
    }

    /// Opens a connection, TLS handshake included.
    pub(super) async fn open(&self, stamper: &Arc<Stamper>) -> Result<Line, Failure> {
        let mut stream = self.connect().await?;
        if let Some(authority) = &self.tunnel {
            let opened = timeout(CONNECT_LIMIT, tunnel::open(&mut stream, authority)).await;
            opened.map_err(|_elapsed| Failure::Connect("no answer of the proxy".to_owned()))??;
        }
        stream.set_nodelay(true).map_err(|error| failure(&error, Failure::Connect))?;
        let tap = Tap::new(stream, Arc::clone(stamper));
        let stamps = tap.stamps();
        let start = stamper.now();
        let (io, tls): (Box<dyn Io>, _) = match &self.tls {
            None => (Box::new(tap), None),
            Some((connector, name)) => match timeout(CONNECT_LIMIT, connector.connect(name.clone(), tap)).await {
                Ok(Ok(stream)) if self.agreed(stream.get_ref().1.alpn_protocol()) => {
                    (Box::new(stream), Some(stamper.now().since(start)))
                }
                Ok(Ok(_other)) => return Err(Failure::Tls("the server does not speak HTTP/2".to_owned())),
                Ok(Err(error)) => return Err(failure(&error, Failure::Tls)),
                Err(_elapsed) => return Err(Failure::Tls("no answer to the TLS handshake".to_owned())),
            },
        };
        Line::start(self.version, io, Arc::clone(&stamps), tls).await.map_err(|error| failure(&error, Failure::Connect))
    }

    /// Whether TLS agreed on the version that is spoken. A server that names none speaks HTTP/1.1.
    fn agreed(&self, named: Option<&[u8]>) -> bool {
        self.version == HttpVersion::Http1 || named == Some(protocol(self.version))
    }

    /// How long the host's name, or the proxy's, took to resolve.
    pub(super) fn resolved_in(&self) -> Nanos {
        self.resolved_in
    }

    /// Tries the addresses in turn, the one that answered last first.
    async fn connect(&self) -> Result<TcpStream, Failure> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let mut seen = format!("{}: no address", self.authority);
        // A host without IPv6 refuses `::1` itself: only where no address was even tried is it this host's fault.
        let mut own = true;
        for (place, address) in self.addresses.iter().enumerate().cycle().skip(preferred).take(self.addresses.len()) {
            match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    self.preferred.store(place, Ordering::Relaxed);
                    return Ok(stream);
                }
                Ok(Err(error)) => {
                    own &= is_own(&error);
                    seen = format!("{address}: {}", cause(&error));
                }
                Err(_elapsed) => {
                    own = false;
                    seen = format!("{address}: no answer within {} s", CONNECT_LIMIT.as_secs());
                }
            }
        }
        let own = own && !self.addresses.is_empty();
        let seen = if self.tunnel.is_some() { format!("the target's proxy: {seen}") } else { seen };
        Err(if own { Failure::Client(seen) } else { Failure::Connect(seen) })
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, HttpError> {
    let failed = |cause: String| HttpError::Resolve { host: host.to_owned(), cause };
    let found = timeout(CONNECT_LIMIT, lookup_host((host, port))).await;
    let found = found.map_err(|elapsed| failed(elapsed.to_string()))?.map_err(|error| failed(cause(&error)))?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() { Err(failed("the name has none".to_owned())) } else { Ok(addresses) }
}

async fn proxy_addresses(proxy: &str) -> Result<Vec<SocketAddr>, HttpError> {
    let refused = |reason: &str| HttpError::Proxy { reason: reason.to_owned() };
    let uri: Uri = proxy.parse().map_err(|error: http::uri::InvalidUri| refused(&error.to_string()))?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    match (uri.scheme_str(), authority) {
        (Some("http"), Some(authority)) => {
            resolve(authority.host().trim_matches(['[', ']']), authority.port_u16().unwrap_or(80)).await
        }
        _ => Err(refused("it is no http URL with a host, or it holds a user")),
    }
}

fn headers(authority: &Authority, target: &HttpTarget) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    if target.version == HttpVersion::Http1 {
        let host = HeaderValue::from_str(authority.as_str());
        headers.insert(HOST, host.map_err(|error| HttpError::Url { reason: error.to_string() })?);
    }
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("servegate/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(key) = &target.api_key {
        let mut bearer = HeaderValue::try_from(format!("Bearer {}", key.reveal())).ok().ok_or(HttpError::ApiKey)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}
