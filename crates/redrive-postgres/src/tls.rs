//! TLS, by rustls.

use std::{path::Path, sync::Arc};

use redrive_store::{Error, Result};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::url::Trust;

const DOING: &str = "setting up encryption";

/// Makes encrypted connections to servers whose certificates are trusted.
pub(crate) fn connector(trust: &Trust) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|source| refused("no version of TLS is available", source))?;
    let config = match trust {
        Trust::AnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth(),
        Trust::System => {
            builder.with_root_certificates(system_authorities()?).with_no_client_auth()
        }
        Trust::File(path) => {
            builder.with_root_certificates(authorities_in(path)?).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn system_authorities() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // Certificates of the machine that cannot be parsed are skipped.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::Refused {
            doing: DOING.to_owned(),
            problem: "this machine trusts no certificate authority; install ca-certificates, or \
                      name a file with sslrootcert=FILE"
                .to_owned(),
            source: None,
        });
    }
    Ok(roots)
}

fn authorities_in(path: &Path) -> Result<RootCertStore> {
    let named = |what: &str| format!("{} {what} (sslrootcert)", path.display());
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|source| refused(&named("cannot be read"), source))?;
    for certificate in certificates {
        let certificate =
            certificate.map_err(|source| refused(&named("holds a damaged certificate"), source))?;
        roots
            .add(certificate)
            .map_err(|source| refused(&named("holds a damaged certificate"), source))?;
    }
    if roots.is_empty() {
        return Err(Error::Refused {
            doing: DOING.to_owned(),
            problem: named("holds no certificate in PEM form"),
            source: None,
        });
    }
    Ok(roots)
}

fn refused(problem: &str, source: impl Into<redrive_store::BoxError>) -> Error {
    Error::Refused {
        doing: DOING.to_owned(),
        problem: problem.to_owned(),
        source: Some(source.into()),
    }
}

/// Accepts every certificate, as `prefer` and `require` of libpq do: the connection is encrypted, but the server
/// is not authenticated. The signatures of the handshake are checked.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
