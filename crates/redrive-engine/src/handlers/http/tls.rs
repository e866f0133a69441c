//! The TLS set-up of every request that the engine sends: handlers, uploads, object stores and spans.
//!
//! ring, TLS 1.2 and 1.3, the operating system's certificate authorities, no client certificate.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// The certificate authorities of the operating system, or of the file in `SSL_CERT_FILE`.
///
/// Certificates that cannot be parsed are left out, so one bad file does not disable the others.
pub(crate) fn native_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

pub(crate) fn client_config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
