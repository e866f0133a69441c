//! From what a program said, or how it went, to what becomes of its calls.

use std::process::ExitStatus;

use redrive_core::{Cause, Class, Failure, HumanDuration, named};

use super::call_table::{CallCompletion, CallInFlight, CallTicket};
use crate::{
    Outcome,
    handlers::{
        program::report::{bad_reply_failure, exit_failure, explain, outcome, timeout_failure},
        reply::{BadReply, Reply},
    },
};

/// Why a program is gone.
#[derive(Debug)]
pub(super) enum ExitCause {
    /// By its own doing.
    Exited,
    /// It closed a pipe and did not exit.
    ClosedPipes,
    /// It is not needed for now.
    Retired,
    /// Its one call is no longer wanted.
    Stopped,
    /// A call took too long.
    TimedOut(CallTicket),
    /// It printed a line that is no reply, to that call if one can be made out.
    InvalidOutput(Option<CallTicket>, String),
}

/// How a program went.
#[derive(Debug)]
pub(super) struct SessionEnd {
    /// How it exited, if that is known.
    pub(super) status: Option<ExitStatus>,
    pub(super) why: ExitCause,
    /// How much it read of what it was sent, in bytes.
    pub(super) read: u64,
    /// How many replies it gave.
    pub(super) replies: u64,
    /// What it last said on stderr.
    pub(super) stderr: String,
}

/// What a reply makes of a call. Told to stop, a program that reports an error may do so because of
/// that.
pub(super) fn answered(kind: &str, reply: Result<Reply, BadReply>, stopped: bool) -> Outcome {
    let reply = reply.and_then(|reply| Reply::allowed_for(kind, Some(reply)));
    match reply {
        Ok(Some(Reply::Error(_)) | None) | Err(_) if stopped => Outcome::Stopped,
        Ok(Some(reply)) => outcome(reply, ""),
        // A call always has a reply here; were there none, that would be no answer.
        Ok(None) => Outcome::Stopped,
        Err(bad) => Outcome::Failed(bad_reply_failure(&bad, "")),
    }
}

impl ExitCause {
    /// The call at fault, if there is one.
    pub(super) fn offender(&self) -> Option<CallTicket> {
        match self {
            Self::TimedOut(ticket) => Some(*ticket),
            Self::InvalidOutput(ticket, _) => *ticket,
            Self::Exited | Self::ClosedPipes | Self::Retired | Self::Stopped => None,
        }
    }
}

impl SessionEnd {
    /// What the program did wrong, if anything; `calls` are those it left without a reply.
    pub(super) fn failure(&self, calls: &[CallInFlight]) -> Option<String> {
        let left_some = calls.iter().any(|call| self.concerns(call));
        match &self.why {
            ExitCause::Retired | ExitCause::Stopped => None,
            ExitCause::Exited if self.succeeded() && self.replies > 0 && !left_some => None,
            ExitCause::Exited | ExitCause::ClosedPipes => Some(self.how()),
            ExitCause::TimedOut(_) => Some("a call took longer than its time limit".to_owned()),
            ExitCause::InvalidOutput(_, problem) => Some(format!("it printed no reply: {problem}")),
        }
    }

    /// Tells everybody who still waits.
    pub(super) fn tell(&self, calls: Vec<CallInFlight>) {
        let concerned = calls.iter().filter(|call| self.concerns(call)).count();
        let overdue = calls.iter().find(|call| self.why.offender() == Some(call.ticket));
        let limit = overdue.map(|call| HumanDuration::from(call.time_limit));
        for call in calls {
            if call.stopped {
                call.end(CallCompletion::Done(Outcome::Stopped));
            } else if self.why.offender() == Some(call.ticket) {
                let failure = self.offender_failure(&call);
                call.end(CallCompletion::Done(Outcome::Failed(failure)));
            } else if self.concerns(&call) {
                call.end(self.bystander_completion(concerned, limit));
            } else {
                call.return_unread();
            }
        }
    }

    /// Whether a call ends with the program. What it never read can go to another, as long as
    /// something was achieved: otherwise a program that never reads would be tried for ever.
    fn concerns(&self, call: &CallInFlight) -> bool {
        let achieved = self.replies > 0 || self.why.offender().is_some();
        call.begins < self.read || !achieved
    }

    /// The failure of the call at fault.
    fn offender_failure(&self, call: &CallInFlight) -> Failure {
        match &self.why {
            ExitCause::InvalidOutput(_, problem) => {
                bad_reply_failure(&BadReply(problem.clone()), &self.stderr)
            }
            ExitCause::TimedOut(_)
            | ExitCause::Exited
            | ExitCause::ClosedPipes
            | ExitCause::Retired
            | ExitCause::Stopped => timeout_failure(call.time_limit, &self.stderr),
        }
    }

    /// What becomes of a call that is not at fault, beside so many.
    fn bystander_completion(
        &self,
        concerned: usize,
        limit: Option<HumanDuration>,
    ) -> CallCompletion {
        let what = match (&self.why, limit) {
            (ExitCause::Retired | ExitCause::Stopped, _) => {
                return CallCompletion::Done(Outcome::Stopped);
            }
            (ExitCause::Exited | ExitCause::ClosedPipes, _) => {
                return CallCompletion::Done(Outcome::Failed(self.exit_failure_for(concerned)));
            }
            (ExitCause::TimedOut(_), Some(limit)) => {
                format!("another call took longer than its time limit of {limit}")
            }
            (ExitCause::TimedOut(_), None) => {
                "another call took longer than its time limit".to_owned()
            }
            (ExitCause::InvalidOutput(_, problem), _) => {
                format!("it printed a line that is no reply: {problem}")
            }
        };
        CallCompletion::Reset(self.reset(&format!("the program was ended: {what}")))
    }

    /// The failure of calls whose program ended by itself. With several calls nobody can tell which
    /// of them an exit code speaks of, and so it cannot be the end of all.
    fn exit_failure_for(&self, concerned: usize) -> Failure {
        let message = explain(&self.how(), &self.stderr);
        match self.status {
            Some(status) if matches!(self.why, ExitCause::Exited) && !status.success() => {
                let failure = exit_failure(status, &message);
                match failure.class() {
                    Class::Final if concerned > 1 => self.reset(&self.how()),
                    _ => failure,
                }
            }
            _ => Failure::named(named::STREAM_ENDED, Cause::Handler, &message),
        }
    }

    fn reset(&self, what: &str) -> Failure {
        Failure::named(named::STREAM_RESET, Cause::Handler, &explain(what, &self.stderr))
    }

    fn how(&self) -> String {
        match self.status {
            _ if matches!(self.why, ExitCause::ClosedPipes) => {
                "the program closed its pipes and did not exit".to_owned()
            }
            Some(status) if self.succeeded() => {
                format!("the program ended with {status} and without a reply")
            }
            Some(status) => format!("the program ended with {status}"),
            None => "the program ended and nothing tells how".to_owned(),
        }
    }

    fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}
