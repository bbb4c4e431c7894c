//! TLS to the target: the system's trust, and a CA file beside it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;
use tokio_rustls::TlsConnector;

use crate::base::names::HttpVersion;
use crate::loadgen::http::error::HttpError;

/// The name by which TLS agrees on a version of HTTP (ALPN).
pub(super) fn protocol(version: HttpVersion) -> &'static [u8] {
    match version {
        HttpVersion::Http1 => b"http/1.1",
        HttpVersion::Http2 => b"h2",
    }
}

/// Opens TLS for one version of HTTP.
pub(super) fn connector(ca_file: Option<&Path>, version: HttpVersion) -> Result<TlsConnector, HttpError> {
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
    config.alpn_protocols = vec![protocol(version).to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let failed = |cause: String| HttpError::CaFile { path: path.to_owned(), cause };
    let pem = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| failed(error.to_string()))?;
    if found.is_empty() { Err(failed("it holds no certificate".to_owned())) } else { Ok(found) }
}
