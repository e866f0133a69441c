//! Makes a failure of a request without a response.
//!
//! hyper, rustls and the system wrap each other's errors several layers deep; the innermost error says
//! what happened.

use std::{error::Error, io, iter::successors};

use redrive_core::{Cause, Failure, named};
use rustls::AlertDescription;

use super::connector::NoAddress;

pub(crate) fn no_response(error: &(dyn Error + 'static), server: &str) -> Failure {
    let code = error_chain(error).find_map(code_of).unwrap_or(named::CONNECTION_FAILED);
    let why = error_chain(error).last().map(ToString::to_string).unwrap_or_default();
    Failure::named(code, Cause::Handler, &format!("no response from {server}: {why}"))
}

/// An error and its sources, the outermost first. An I/O error does not list the error it wraps as its
/// source.
pub(crate) fn error_chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| {
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(carried) => Some(carried),
            None => error.source(),
        }
    })
}

fn code_of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref() {
        return Some(match error {
            NoAddress::Unresolved(_) => named::DNS,
            NoAddress::Private(_) => named::PRIVATE_ADDRESS,
        });
    }
    if let Some(error) = error.downcast_ref() {
        return Some(if is_certificate_error(error) { named::CERTIFICATE } else { named::TLS });
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        return match error {
            error if error.is_incomplete_message() => Some(named::CONNECTION_RESET),
            error if error.is_parse() => Some(named::BAD_RESPONSE),
            _ => None,
        };
    }
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut, UnexpectedEof,
    };
    match error.downcast_ref::<io::Error>()?.kind() {
        ConnectionRefused => Some(named::CONNECTION_REFUSED),
        ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof => {
            Some(named::CONNECTION_RESET)
        }
        TimedOut => Some(named::CONNECTION_TIMEOUT),
        _ => None,
    }
}

fn is_certificate_error(error: &rustls::Error) -> bool {
    use AlertDescription::{
        BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => true,
        // The server rejects our certificate, or requires one.
        rustls::Error::AlertReceived(
            BadCertificate
            | CertificateExpired
            | CertificateRequired
            | CertificateRevoked
            | CertificateUnknown
            | UnknownCA
            | UnsupportedCertificate,
        ) => true,
        _ => false,
    }
}
