//! Selects the failures that a policy retries (CLS-5).

use crate::{Class, Code, Failure, GiveUpReason};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Retriable {
    /// Decides by the class of the failure.
    #[default]
    ByClass,
    /// Every failure, except a `final` that the handler stated.
    All,
    None,
    /// These codes only, except a `final` that the handler stated.
    Codes(Vec<Code>),
}

impl Retriable {
    /// Why the failure is not retried; `None` if it may be retried.
    pub fn refuses(&self, failure: &Failure) -> Option<GiveUpReason> {
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
