//! Errors of Rust programs as failures.

use std::{error::Error, fmt, io};

use redrive_core::{AsFailure, Class, Code, Failure, named};

// CLS-2, CLS-4
#[test]
fn an_io_error_is_classified_by_its_kind() {
    use io::ErrorKind as Kind;
    let cases = [
        (Kind::ConnectionRefused, Class::Retryable, named::CONNECTION_REFUSED),
        (Kind::ConnectionReset, Class::Retryable, named::CONNECTION_RESET),
        (Kind::BrokenPipe, Class::Retryable, named::CONNECTION_RESET),
        (Kind::TimedOut, Class::Retryable, named::CONNECTION_TIMEOUT),
        (Kind::UnexpectedEof, Class::Retryable, named::CUT_BODY),
        (Kind::Interrupted, Class::Retryable, named::ERROR),
        (Kind::NotFound, Class::Final, "not_found"),
        (Kind::PermissionDenied, Class::Final, "permission_denied"),
        (Kind::InvalidInput, Class::Final, "invalid_input"),
        (Kind::InvalidData, Class::Final, "invalid_data"),
        (Kind::Unsupported, Class::Final, "unsupported"),
    ];
    for (kind, class, code) in cases {
        let failure = io::Error::new(kind, "what it said").as_failure();
        assert_eq!((failure.class(), failure.code()), (class, &Code::name(code)), "{kind:?}");
        assert_eq!(failure.message().as_str(), "what it said");
        assert!(!failure.is_stated(), "{kind:?}: a kind is a code, not a statement");
    }
}

// CLS-5
#[test]
fn a_class_alone_is_a_statement() {
    for class in [Class::Final, Class::Retryable, Class::RateLimited { retry_after: None }] {
        let failure = Failure::from(class);
        assert_eq!((failure.class(), failure.is_stated()), (class, true));
    }
}

#[derive(Debug)]
struct Outer(Box<dyn Error + Send + Sync>);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the outer one")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_ref())
    }
}

#[test]
fn a_boxed_error_is_what_its_causes_say() {
    let boxed = |error: Box<dyn Error + Send + Sync>| error.as_failure();

    let gone = Failure::http(410, None, "gone");
    assert_eq!(boxed(gone.clone().into()), gone);
    assert_eq!(boxed(Outer(Outer(gone.clone().into()).into()).into()), gone);

    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    let failure = boxed(Outer(refused.into()).into());
    assert_eq!(failure.code(), &Code::name(named::CONNECTION_REFUSED));

    let unknown = boxed("out of luck".into());
    assert_eq!((unknown.class(), unknown.code()), (Class::Retryable, &Code::name(named::ERROR)));
    assert_eq!(unknown.message().as_str(), "out of luck");
}

#[test]
fn a_failure_is_an_error_that_says_its_code_and_message() {
    let failure = Failure::http(503, None, "busy \u{1b}[31m");
    assert_eq!(failure.to_string(), "503: busy \\u{1b}[31m");
    assert_eq!(Failure::from(Class::Final).to_string(), "error");
}
