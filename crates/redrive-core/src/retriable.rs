//! Which failures a policy retries (CLS-5).

use crate::{Class, Code, Failure, GiveUpReason};

/// Which failures are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Retriable {
    /// What the class says.
    #[default]
    ByClass,
    /// Everything, except a `final` that the handler stated.
    All,
    /// Nothing.
    None,
    /// These codes alone, except a `final` that the handler stated.
    Codes(Vec<Code>),
}

impl Retriable {
    /// Why this failure must not be tried again, or `None` if it may be.
    pub(crate) fn refuses(&self, failure: &Failure) -> Option<GiveUpReason> {
        if failure.is_stated() && failure.class() == Class::Final {
            return Some(GiveUpReason::Final);
        }
        match self {
            Self::None => Some(GiveUpReason::NotRetriable),
            Self::Codes(codes) if !codes.contains(failure.code()) => {
                Some(GiveUpReason::NotRetriable)
            }
            Self::ByClass if failure.class() == Class::Final => Some(GiveUpReason::Final),
            Self::ByClass | Self::All | Self::Codes(_) => None,
        }
    }
}
