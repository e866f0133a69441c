//! The calls of one program: their ids, deadlines and waiting callers.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::Instant,
};

use redrive_core::Failure;

use crate::{CallLog, Outcome, handlers::program::output::Tail};

/// Takes the rows of a call, as lines. Its capacity is small, so that a program blocks while the sink does.
pub(super) type RowSender = mpsc::Sender<Vec<u8>>;

/// Unique among the calls of a handler; the id of a call is not, because a call can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallTicket(pub(super) u64);

#[derive(Debug)]
pub(super) struct CallRequest {
    pub(super) ticket: CallTicket,
    pub(super) id: String,
    pub(super) kind: &'static str,
    /// The call as JSON, with a newline.
    pub(super) line: String,
    pub(super) time_limit: Duration,
    pub(super) reply_to: oneshot::Sender<CallCompletion>,
    /// For extractors only.
    pub(super) rows: Option<RowSender>,
    pub(super) log: CallLog,
    /// Held until the program is done with the call, even if the caller has gone.
    pub(super) permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(super) enum CallCompletion {
    Done(Outcome),
    /// The call failed because of another call or of the program.
    Reset(Failure),
    /// The program never read the call, so another program can take it.
    Unread(OwnedSemaphorePermit),
}

#[derive(Debug)]
pub(super) struct CallInFlight {
    pub(super) ticket: CallTicket,
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) time_limit: Duration,
    /// The offset of its line in all bytes written to the program.
    pub(super) begins: u64,
    pub(super) stopped: bool,
    /// The end of what the program wrote to stderr for this call, if anything.
    stderr: Option<Box<Tail>>,
    rows: Option<RowSender>,
    log: CallLog,
    deadline: Option<Instant>,
    reply_to: Option<oneshot::Sender<CallCompletion>>,
    permit: OwnedSemaphorePermit,
}

impl CallInFlight {
    pub(super) fn stderr(&self) -> Vec<u8> {
        self.stderr.as_ref().map(|tail| tail.to_bytes()).unwrap_or_default()
    }

    pub(super) fn complete(self, completion: CallCompletion) {
        if let Some(reply_to) = self.reply_to {
            // The send fails only if the caller was dropped.
            _ = reply_to.send(completion);
        }
    }

    /// Returns the call to its caller, which passes it to another program.
    pub(super) fn return_unread(self) {
        if let Some(reply_to) = self.reply_to {
            _ = reply_to.send(CallCompletion::Unread(self.permit));
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct CallTable {
    by_ticket: HashMap<CallTicket, CallInFlight>,
    by_id: HashMap<String, CallTicket>,
    deadlines: BTreeSet<(Instant, CallTicket)>,
}

impl CallTable {
    /// Adds a call whose line begins at this offset, and returns the line.
    pub(super) fn add(&mut self, request: CallRequest, begins: u64, now: Instant) -> String {
        let CallRequest { ticket, id, kind, line, time_limit, reply_to, rows, log, permit } =
            request;
        // A deadline beyond the range of the clock is no deadline.
        let deadline = now.checked_add(time_limit);
        self.deadlines.extend(deadline.map(|deadline| (deadline, ticket)));
        self.by_id.insert(id.clone(), ticket);
        let reply_to = Some(reply_to);
        let call = CallInFlight {
            ticket,
            id,
            kind,
            time_limit,
            begins,
            stopped: false,
            stderr: None,
            rows,
            log,
            deadline,
            reply_to,
            permit,
        };
        self.by_ticket.insert(ticket, call);
        line
    }

    /// The call that a reply is for. `written` is how many bytes were written to the program: a call that was
    /// not written yet cannot have a reply.
    pub(super) fn addressed(
        &self,
        id: Option<&str>,
        in_flight: usize,
        written: u64,
    ) -> Option<CallTicket> {
        let ticket = match id {
            Some(id) => self.with_id(id),
            None if in_flight == 1 => self.by_ticket.keys().next().copied(),
            None => None,
        };
        ticket.filter(|ticket| self.by_ticket.get(ticket).is_some_and(|call| call.begins < written))
    }

    pub(super) fn with_id(&self, id: &str) -> Option<CallTicket> {
        self.by_id.get(id).copied()
    }

    /// The end of what the program wrote to stderr for a call, and the log of the call.
    pub(super) fn stderr_of(&mut self, ticket: CallTicket) -> Option<(&mut Tail, &CallLog)> {
        let CallInFlight { stderr, log, .. } = self.by_ticket.get_mut(&ticket)?;
        Some((&mut **stderr.get_or_insert_default(), log))
    }

    pub(super) fn have_rows(&self) -> bool {
        self.by_ticket.values().any(|call| call.rows.is_some())
    }

    pub(super) fn rows_of(&self, ticket: CallTicket) -> Option<RowSender> {
        self.by_ticket.get(&ticket)?.rows.clone()
    }

    /// The call that was written, if it is the only one.
    pub(super) fn only_written(&self, written: u64) -> Option<CallTicket> {
        let mut written = self.by_ticket.values().filter(|call| call.begins < written);
        written.next().filter(|_| written.next().is_none()).map(|call| call.ticket)
    }

    pub(super) fn remove(&mut self, ticket: CallTicket) -> Option<CallInFlight> {
        let call = self.by_ticket.remove(&ticket)?;
        self.by_id.remove(&call.id);
        if let Some(deadline) = call.deadline {
            self.deadlines.remove(&(deadline, ticket));
        }
        Some(call)
    }

    pub(super) fn has(&self, ticket: CallTicket) -> bool {
        self.by_ticket.contains_key(&ticket)
    }

    /// Marks a call as stopped; returns whether it exists.
    pub(super) fn stop(&mut self, ticket: CallTicket) -> bool {
        let call = self.by_ticket.get_mut(&ticket);
        call.map(|call| call.stopped = true).is_some()
    }

    /// Completes a stopped call for its caller. The call stays until its reply or its time limit.
    pub(super) fn abandon(&mut self, ticket: CallTicket) {
        if let Some(call) = self.by_ticket.get_mut(&ticket)
            && let Some(reply_to) = call.reply_to.take()
        {
            _ = reply_to.send(CallCompletion::Done(Outcome::Stopped));
        }
    }

    /// The earliest deadline, and its call.
    pub(super) fn next_deadline(&self) -> Option<(Instant, CallTicket)> {
        self.deadlines.first().copied()
    }

    /// Takes all calls, in the order in which they were written.
    pub(super) fn take_all(&mut self) -> Vec<CallInFlight> {
        self.by_id.clear();
        self.deadlines.clear();
        let mut calls: Vec<CallInFlight> = self.by_ticket.drain().map(|(_, call)| call).collect();
        calls.sort_unstable_by_key(|call| call.begins);
        calls
    }
}

#[cfg(test)]
pub(super) mod tests;
