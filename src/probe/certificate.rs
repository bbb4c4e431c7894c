//! Whether a failed request failed at the server's certificate.

use std::error::Error;
use std::io;

/// Most errors inside each other that are looked at.
const DEPTH: usize = 16;

/// Whether an invalid certificate is among the causes: nothing that waiting mends.
pub(super) fn is_of_certificate(error: &reqwest::Error) -> bool {
    let mut next = error.source();
    for _ in 0..DEPTH {
        let Some(error) = next else { break };
        if matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        // An I/O error does not give what it wraps as its source.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};

    use crate::base::units::Nanos;
    use crate::probe::control::ControlError;
    use crate::probe::control::tests::control_at;
    use crate::spec::target::Ready;

    /// The certificate is of 127.0.0.1, and `localhost` is asked for.
    #[test]
    fn a_certificate_of_another_host_ends_the_wait_at_once() {
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/loadgen/http/testdata");
        let leaf = CertificateDer::from_pem_file(testdata.join("leaf.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(testdata.join("test-only-key.pem")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
                drop(stream.read(&mut [0; 1_024]));
            }
        });
        let ca_file = Some(testdata.join("ca.pem").display().to_string());
        let control = control_at(&format!("https://localhost:{port}"), ca_file);
        let ready = Ready { timeout: Nanos::from_secs(30), ..Ready::default() };
        let error = control.ready(&ready, &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(&error, ControlError::Certificate { .. }), "{error}");
        assert!(error.to_string().contains("`ca_file`"), "{error}");
    }
}
