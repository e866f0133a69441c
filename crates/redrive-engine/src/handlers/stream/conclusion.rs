//! From what a program said, or how it went, to what becomes of its calls.

use std::process::ExitStatus;

use redrive_core::{Cause, Class, Failure, HumanDuration, named};

use super::calls::{Ended, InFlight, Ticket};
use crate::{
    Outcome,
    handlers::{
        program::report::{by_status, explain, misfit, outcome, took_too_long},
        reply::{BadReply, Reply},
    },
};

/// Why a program is gone.
#[derive(Debug)]
pub(super) enum Why {
    /// By its own doing.
    Itself,
    /// It closed a pipe and did not exit.
    Mute,
    /// It is not needed for now.
    Retired,
    /// Its one call is no longer wanted.
    Stopped,
    /// A call took too long.
    TimedOut(Ticket),
    /// It printed a line that is no reply, to that call if one can be made out.
    Unreadable(Option<Ticket>, String),
}

/// How a program went.
#[derive(Debug)]
pub(super) struct End {
    /// How it exited, if that is known.
    pub(super) status: Option<ExitStatus>,
    pub(super) why: Why,
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
        Err(bad) => Outcome::Failed(misfit(&bad, "")),
    }
}

impl Why {
    /// The call at fault, if there is one.
    pub(super) fn offender(&self) -> Option<Ticket> {
        match self {
            Self::TimedOut(ticket) => Some(*ticket),
            Self::Unreadable(ticket, _) => *ticket,
            Self::Itself | Self::Mute | Self::Retired | Self::Stopped => None,
        }
    }
}

impl End {
    /// What the program did wrong, if anything; `calls` are those it left without a reply.
    pub(super) fn failure(&self, calls: &[InFlight]) -> Option<String> {
        let left_some = calls.iter().any(|call| self.concerns(call));
        match &self.why {
            Why::Retired | Why::Stopped => None,
            Why::Itself if self.succeeded() && self.replies > 0 && !left_some => None,
            Why::Itself | Why::Mute => Some(self.how()),
            Why::TimedOut(_) => Some("a call took longer than its time limit".to_owned()),
            Why::Unreadable(_, problem) => Some(format!("it printed no reply: {problem}")),
        }
    }

    /// Tells everybody who still waits.
    pub(super) fn tell(&self, calls: Vec<InFlight>) {
        let concerned = calls.iter().filter(|call| self.concerns(call)).count();
        let overdue = calls.iter().find(|call| self.why.offender() == Some(call.ticket));
        let limit = overdue.map(|call| HumanDuration::from(call.time_limit));
        for call in calls {
            if call.stopped {
                call.end(Ended::With(Outcome::Stopped));
            } else if self.why.offender() == Some(call.ticket) {
                let failure = self.blame(&call);
                call.end(Ended::With(Outcome::Failed(failure)));
            } else if self.concerns(&call) {
                call.end(self.drag_along(concerned, limit));
            } else {
                call.give_back();
            }
        }
    }

    /// Whether a call ends with the program. What it never read can go to another, as long as
    /// something was achieved: otherwise a program that never reads would be tried for ever.
    fn concerns(&self, call: &InFlight) -> bool {
        let achieved = self.replies > 0 || self.why.offender().is_some();
        call.begins < self.read || !achieved
    }

    /// The failure of the call at fault.
    fn blame(&self, call: &InFlight) -> Failure {
        match &self.why {
            Why::Unreadable(_, problem) => misfit(&BadReply(problem.clone()), &self.stderr),
            Why::TimedOut(_) | Why::Itself | Why::Mute | Why::Retired | Why::Stopped => {
                took_too_long(call.time_limit, &self.stderr)
            }
        }
    }

    /// What becomes of a call that is not at fault, beside so many.
    fn drag_along(&self, concerned: usize, limit: Option<HumanDuration>) -> Ended {
        let what = match (&self.why, limit) {
            (Why::Retired | Why::Stopped, _) => return Ended::With(Outcome::Stopped),
            (Why::Itself | Why::Mute, _) => {
                return Ended::With(Outcome::Failed(self.own_end(concerned)));
            }
            (Why::TimedOut(_), Some(limit)) => {
                format!("another call took longer than its time limit of {limit}")
            }
            (Why::TimedOut(_), None) => "another call took longer than its time limit".to_owned(),
            (Why::Unreadable(_, problem), _) => {
                format!("it printed a line that is no reply: {problem}")
            }
        };
        Ended::Reset(self.reset(&format!("the program was ended: {what}")))
    }

    /// The failure of calls whose program ended by itself. With several calls nobody can tell which
    /// of them an exit code speaks of, and so it cannot be the end of all.
    fn own_end(&self, concerned: usize) -> Failure {
        let message = explain(&self.how(), &self.stderr);
        match self.status {
            Some(status) if matches!(self.why, Why::Itself) && !status.success() => {
                let failure = by_status(status, &message);
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
            _ if matches!(self.why, Why::Mute) => {
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
