//! Decides the completion of calls: by a reply, or by the end of their program.

use std::process::ExitStatus;

use redrive_core::{Cause, Class, Failure, HumanDuration, named};

use super::{
    call_table::{CallCompletion, CallInFlight, CallTicket},
    stderr_lines::StderrLines,
};
use crate::{
    Outcome,
    handlers::{
        program::report::{
            bad_reply_failure, exit_failure, explain, explain_death, outcome, printable,
            timeout_failure,
        },
        reply::{BadReply, Reply},
    },
};

#[derive(Debug)]
pub(super) enum ExitCause {
    /// The program exited without a cause on our side.
    Exited,
    /// The program closed a pipe and did not exit.
    ClosedPipes,
    /// The handler was released.
    Retired,
    /// Its only call was stopped.
    Stopped,
    TimedOut(CallTicket),
    /// The program printed an invalid line, for this call if the line identifies one.
    InvalidOutput(Option<CallTicket>, String),
}

#[derive(Debug)]
pub(super) struct SessionEnd {
    /// `None` if unknown.
    pub(super) status: Option<ExitStatus>,
    pub(super) cause: ExitCause,
    /// How many bytes of its input the program read.
    pub(super) read: u64,
    /// The number of valid replies.
    pub(super) replies: u64,
    pub(super) stderr: StderrLines,
}

/// The outcome of a call with a reply. An error after a stop may be due to the stop.
pub(super) fn answered(call: &CallInFlight, reply: Result<Reply, BadReply>) -> Outcome {
    let reply = reply.and_then(|reply| Reply::allowed_for(call.kind, Some(reply)));
    let stderr = || printable(&call.stderr());
    match reply {
        Ok(Some(Reply::Error(_)) | None) | Err(_) if call.stopped => Outcome::Stopped,
        Ok(Some(reply @ Reply::Error(_))) => outcome(reply, &stderr()),
        Ok(Some(reply)) => outcome(reply, ""),
        // Unreachable: a call has a reply here.
        Ok(None) => Outcome::Stopped,
        Err(bad) => Outcome::Failed(bad_reply_failure(&bad, &stderr())),
    }
}

impl ExitCause {
    /// The call that caused the end, if one did.
    pub(super) fn offender(&self) -> Option<CallTicket> {
        match self {
            Self::TimedOut(ticket) => Some(*ticket),
            Self::InvalidOutput(ticket, _) => *ticket,
            Self::Exited | Self::ClosedPipes | Self::Retired | Self::Stopped => None,
        }
    }
}

impl SessionEnd {
    /// The failure of the program, if it failed. `calls` are the calls without a reply.
    pub(super) fn failure(&self, calls: &[CallInFlight]) -> Option<String> {
        let left_some = calls.iter().any(|call| self.affects(call));
        match &self.cause {
            ExitCause::Retired | ExitCause::Stopped => None,
            ExitCause::Exited if self.succeeded() && self.replies > 0 && !left_some => None,
            ExitCause::Exited | ExitCause::ClosedPipes => Some(self.how()),
            ExitCause::TimedOut(_) => Some("a call took longer than its time limit".to_owned()),
            ExitCause::InvalidOutput(_, problem) => {
                Some(format!("the program printed an invalid line: {problem}"))
            }
        }
    }

    /// Completes the calls that have no reply.
    pub(super) fn complete(&self, calls: Vec<CallInFlight>) {
        let affected = calls.iter().filter(|call| self.affects(call)).count();
        let offender = calls.iter().find(|call| self.cause.offender() == Some(call.ticket));
        let limit = offender.map(|call| HumanDuration::from(call.time_limit));
        for call in calls {
            if call.stopped {
                call.complete(CallCompletion::Done(Outcome::Stopped));
            } else if self.cause.offender() == Some(call.ticket) {
                let failure = self.offender_failure(&call);
                call.complete(CallCompletion::Done(Outcome::Failed(failure)));
            } else if self.affects(&call) {
                let completion = self.bystander_completion(&call, affected, limit);
                call.complete(completion);
            } else {
                call.return_unread();
            }
        }
    }

    /// Whether a call fails with the program. A call that the program never read can go to another program,
    /// but only if this one made progress: otherwise a program that never reads would be tried forever.
    fn affects(&self, call: &CallInFlight) -> bool {
        let progressed = self.replies > 0 || self.cause.offender().is_some();
        call.begins < self.read || !progressed
    }

    fn offender_failure(&self, call: &CallInFlight) -> Failure {
        match &self.cause {
            ExitCause::InvalidOutput(_, problem) => {
                bad_reply_failure(&BadReply(problem.clone()), &self.stderr_of(call))
            }
            ExitCause::TimedOut(_)
            | ExitCause::Exited
            | ExitCause::ClosedPipes
            | ExitCause::Retired
            | ExitCause::Stopped => timeout_failure(call.time_limit, &self.stderr_of(call)),
        }
    }

    /// The completion of a call that did not cause the end. `affected` is how many calls fail.
    fn bystander_completion(
        &self,
        call: &CallInFlight,
        affected: usize,
        limit: Option<HumanDuration>,
    ) -> CallCompletion {
        let what = match (&self.cause, limit) {
            (ExitCause::Retired | ExitCause::Stopped, _) => {
                return CallCompletion::Done(Outcome::Stopped);
            }
            (ExitCause::Exited | ExitCause::ClosedPipes, _) => {
                return CallCompletion::Done(Outcome::Failed(
                    self.exit_failure_for(call, affected),
                ));
            }
            (ExitCause::TimedOut(_), Some(limit)) => {
                format!("another call took longer than its time limit of {limit}")
            }
            (ExitCause::TimedOut(_), None) => {
                "another call took longer than its time limit".to_owned()
            }
            // The line may have data of its call.
            (ExitCause::InvalidOutput(Some(_), _), _) => {
                "the program printed an invalid line for another call".to_owned()
            }
            (ExitCause::InvalidOutput(None, problem), _) => {
                format!("the program printed an invalid line: {problem}")
            }
        };
        let what = format!("the program was terminated: {what}");
        CallCompletion::Reset(reset(&explain(&what, &self.stderr_of(call))))
    }

    /// The failure of calls whose program exited. With several calls it is unknown which of them the exit
    /// code is about, so a final exit code must not fail all of them for good.
    fn exit_failure_for(&self, call: &CallInFlight, affected: usize) -> Failure {
        let stderr = self.stderr_of(call);
        let what = match affected > 1 && stderr.is_empty() && !self.stderr.process.is_empty() {
            true => format!("{}; the lines of its stderr are in the worker's log", self.how()),
            false => self.how(),
        };
        let message = explain_death(&what, &stderr);
        match self.status {
            Some(status) if matches!(self.cause, ExitCause::Exited) && !status.success() => {
                let failure = exit_failure(status, &message);
                match failure.class() {
                    Class::Final if affected > 1 => reset(&message),
                    _ => failure,
                }
            }
            _ => Failure::named(named::STREAM_ENDED, Cause::Handler, &message),
        }
    }

    /// What the program wrote for a call. Before its first reply, this includes what it wrote when it started.
    fn stderr_of(&self, call: &CallInFlight) -> String {
        let startup = (self.replies == 0).then(|| self.stderr.startup.to_bytes());
        printable(&[startup.unwrap_or_default(), call.stderr()].concat())
    }

    fn how(&self) -> String {
        match self.status {
            _ if matches!(self.cause, ExitCause::ClosedPipes) => {
                "the program closed its pipes and did not exit".to_owned()
            }
            Some(status) if self.succeeded() => {
                format!("the program ended with {status} and without a reply")
            }
            Some(status) => format!("the program ended with {status}"),
            None => "the program ended and its exit status is unknown".to_owned(),
        }
    }

    fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

fn reset(message: &str) -> Failure {
    Failure::named(named::STREAM_RESET, Cause::Handler, message)
}
