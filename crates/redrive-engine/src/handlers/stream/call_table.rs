//! The calls that one program has: who waits for which, and until when.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::Instant,
};

use redrive_core::Failure;

use crate::Outcome;

/// Where the rows of a call go, as lines. It holds few, so that a program waits while the sink does.
pub(super) type RowSender = mpsc::Sender<Vec<u8>>;

/// What tells a call from every other of this handler, also from one with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallTicket(pub(super) u64);

/// A call on its way to a program.
#[derive(Debug)]
pub(super) struct CallRequest {
    pub(super) ticket: CallTicket,
    pub(super) id: String,
    pub(super) kind: &'static str,
    /// The call as JSON, with its newline.
    pub(super) line: String,
    pub(super) time_limit: Duration,
    /// Who waits.
    pub(super) reply_to: oneshot::Sender<CallCompletion>,
    /// Where its rows go, if it has some.
    pub(super) rows: Option<RowSender>,
    /// Its place among the calls of the handler, kept until it is over, also if nobody waits any more.
    pub(super) permit: OwnedSemaphorePermit,
}

/// What became of a call.
#[derive(Debug)]
pub(super) enum CallCompletion {
    /// It has an outcome.
    Done(Outcome),
    /// It failed for no fault of its own.
    Reset(Failure),
    /// The program never read it: another may.
    Unread(OwnedSemaphorePermit),
}

/// A call that was handed to the program.
#[derive(Debug)]
pub(super) struct CallInFlight {
    pub(super) ticket: CallTicket,
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) time_limit: Duration,
    /// Where its line begins in all that the program is sent.
    pub(super) begins: u64,
    /// Whether it was told to stop.
    pub(super) stopped: bool,
    rows: Option<RowSender>,
    deadline: Option<Instant>,
    reply_to: Option<oneshot::Sender<CallCompletion>>,
    permit: OwnedSemaphorePermit,
}

impl CallInFlight {
    /// Tells who waits, if anybody does.
    pub(super) fn end(self, ended: CallCompletion) {
        if let Some(reply_to) = self.reply_to {
            // Whoever went away does not want to know.
            _ = reply_to.send(ended);
        }
    }

    /// Gives the call back, to be handed to another program.
    pub(super) fn return_unread(self) {
        if let Some(reply_to) = self.reply_to {
            _ = reply_to.send(CallCompletion::Unread(self.permit));
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct CallTable {
    by_ticket: HashMap<CallTicket, CallInFlight>,
    by_id: HashMap<String, CallTicket>,
    deadlines: BTreeSet<(Instant, CallTicket)>,
}

impl CallTable {
    /// Adds a call whose line begins there; says what to write.
    pub(super) fn add(&mut self, request: CallRequest, begins: u64, now: Instant) -> String {
        let CallRequest { ticket, id, kind, line, time_limit, reply_to, rows, permit } = request;
        // What no clock can tell is no limit.
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
            rows,
            deadline,
            reply_to,
            permit,
        };
        self.by_ticket.insert(ticket, call);
        line
    }

    /// The call that a reply is for, of which so much was written. A reply to what was never written
    /// is none.
    pub(super) fn addressed(
        &self,
        id: Option<&str>,
        in_flight: usize,
        written: u64,
    ) -> Option<CallTicket> {
        let ticket = match id {
            Some(id) => self.by_id.get(id).copied(),
            None if in_flight == 1 => self.by_ticket.keys().next().copied(),
            None => None,
        };
        ticket.filter(|ticket| self.by_ticket.get(ticket).is_some_and(|call| call.begins < written))
    }

    /// Whether any of them has rows.
    pub(super) fn have_rows(&self) -> bool {
        self.by_ticket.values().any(|call| call.rows.is_some())
    }

    /// Where the rows of a call go.
    pub(super) fn rows_of(&self, ticket: CallTicket) -> Option<RowSender> {
        self.by_ticket.get(&ticket)?.rows.clone()
    }

    /// The only call that was written, if there is just one.
    pub(super) fn only_written(&self, written: u64) -> Option<CallTicket> {
        let mut begun = self.by_ticket.values().filter(|call| call.begins < written);
        begun.next().filter(|_| begun.next().is_none()).map(|call| call.ticket)
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

    /// Notes that nobody wants the answer any more; says whether there is such a call.
    pub(super) fn stop(&mut self, ticket: CallTicket) -> bool {
        let call = self.by_ticket.get_mut(&ticket);
        call.map(|call| call.stopped = true).is_some()
    }

    /// Lets the asker of a stopped call go. The call stays until its reply, or its time limit.
    pub(super) fn abandon(&mut self, ticket: CallTicket) {
        if let Some(call) = self.by_ticket.get_mut(&ticket)
            && let Some(reply_to) = call.reply_to.take()
        {
            _ = reply_to.send(CallCompletion::Done(Outcome::Stopped));
        }
    }

    /// Which call's time is over first, and when.
    pub(super) fn next_deadline(&self) -> Option<(Instant, CallTicket)> {
        self.deadlines.first().copied()
    }

    /// Takes all, in the order in which they were sent.
    pub(super) fn take_all(&mut self) -> Vec<CallInFlight> {
        self.by_id.clear();
        self.deadlines.clear();
        let mut calls: Vec<CallInFlight> = self.by_ticket.drain().map(|(_, call)| call).collect();
        calls.sort_unstable_by_key(|call| call.begins);
        calls
    }
}

#[cfg(test)]
mod tests;
