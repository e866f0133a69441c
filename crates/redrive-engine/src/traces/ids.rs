//! Ids of traces and spans that every process computes alike.
//!
//! A trace is a unit with all its attempts; a sample keeps its trace from stage to stage. A span is an attempt.
//! Both ids are xxh3 hashes, with a seed from the store.

use std::fmt;

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Unit};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// 16 bytes, written as hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceId(u128);

/// 8 bytes, written as hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpanId(u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Computes the ids of one store.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceIds {
    seed: u64,
}

impl TraceIds {
    /// Two stores of one collector are not created in the same microsecond.
    pub(super) fn of_store(created_at: Timestamp) -> Self {
        Self { seed: xxh3_64_with_seed(&created_at.as_microsecond().to_le_bytes(), 0) }
    }

    /// Never zero, which OpenTelemetry does not allow.
    pub(super) fn trace(self, unit: &Unit) -> TraceId {
        let name = match unit {
            Unit::Sample { id, .. } => format!("sample:{id}"),
            unit => unit.to_string(),
        };
        TraceId(xxh3_128_with_seed(name.as_bytes(), self.seed).max(1))
    }

    pub(super) fn span(self, unit: &Unit, attempt: AttemptNumber) -> SpanId {
        let name = format!("{unit}#{attempt}");
        SpanId(xxh3_64_with_seed(name.as_bytes(), self.seed).max(1))
    }

    /// Version 0, sampled.
    pub(super) fn traceparent(self, unit: &Unit, attempt: AttemptNumber) -> String {
        format!("00-{}-{}-01", self.trace(unit), self.span(unit, attempt))
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::{RunId, SampleId};

    use super::*;

    fn ids(micros: i64) -> TraceIds {
        TraceIds::of_store(Timestamp::from_microsecond(micros).unwrap())
    }

    #[test]
    fn ids_stay_the_same_from_release_to_release() {
        let unit = Unit::Run(RunId(7));
        let made = ids(1_767_225_600_000_000);
        let parent = made.traceparent(&unit, AttemptNumber(2));
        assert_eq!(parent, "00-01e307f1bf7a57363de7369dcac70990-b1869c302a99a690-01");
    }

    #[test]
    fn every_unit_store_and_attempt_has_names_of_its_own() {
        let (seven, eight) = (Unit::Run(RunId(7)), Unit::Run(RunId(8)));
        let (first, second) = (AttemptNumber(1), AttemptNumber(2));
        assert_ne!(ids(1).trace(&seven), ids(1).trace(&eight));
        assert_ne!(ids(1).trace(&seven), ids(2).trace(&seven));
        assert_ne!(ids(1).span(&seven, first), ids(1).span(&seven, second));
        assert_ne!(ids(1).span(&seven, first), ids(1).span(&eight, first));
        assert_ne!(ids(1).span(&seven, first), ids(2).span(&seven, first));
    }

    #[test]
    fn a_sample_keeps_its_trace_from_stage_to_stage() {
        let at = |stage: &str| Unit::Sample { id: SampleId(7), stage: stage.to_owned() };
        let attempt = AttemptNumber(1);
        assert_eq!(ids(1).trace(&at("ask")), ids(1).trace(&at("judge")));
        assert_ne!(ids(1).span(&at("ask"), attempt), ids(1).span(&at("judge"), attempt));
        assert_ne!(ids(1).trace(&at("ask")), ids(1).trace(&Unit::Run(RunId(7))));
    }
}
