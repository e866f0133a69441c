//! Extracts rows from a program that stays running: `{"row": …}` for each row, then the reply.

use std::time::Duration;

use async_trait::async_trait;
use redrive_core::{Failure, HumanDuration};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    StreamHandler,
    call_table::{CallCompletion, RowSender},
};
use crate::{Call, Extractor, Handler, Outcome, RowWriter, Stop};

/// The most batches of rows between a program and the sink. A batch is the rows of one read.
const BATCHES: usize = 4;

#[async_trait]
impl Extractor for StreamHandler {
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        stop: Stop,
    ) -> Outcome {
        self.handle_with(call, Some(rows), time_limit, stop).await
    }

    fn capacity(&self) -> Option<usize> {
        Handler::capacity(self)
    }

    fn restarts(&self) -> u64 {
        Handler::restarts(self)
    }

    async fn release(&self) {
        Handler::release(self).await;
    }
}

pub(super) struct RowIntake<'a> {
    batches: mpsc::Receiver<Vec<u8>>,
    rows: &'a RowWriter,
}

impl<'a> RowIntake<'a> {
    pub(super) fn new(rows: Option<&'a RowWriter>) -> Option<(RowSender, Self)> {
        let rows = rows?;
        let (sender, batches) = mpsc::channel(BATCHES);
        Some((sender, Self { batches, rows }))
    }

    /// Writes rows until the call is complete and all rows are written. A write error or a stop cancels the
    /// call.
    pub(super) async fn take(
        mut self,
        mut answer: oneshot::Receiver<CallCompletion>,
        time_limit: Duration,
        stop: &mut Stop,
        mut cancel: impl FnMut(),
    ) -> CallCompletion {
        let (mut broken, mut stopped) = (None, false);
        let ended = loop {
            tokio::select! {
                biased;
                () = stop.stopped(), if !stopped => {
                    stopped = true;
                    cancel();
                }
                Some(lines) = self.batches.recv() => {
                    if let Err(failure) = self.rows.write(&lines).await {
                        broken = Some(failure);
                        self.batches.close();
                        cancel();
                    }
                }
                answer = &mut answer => break answer,
            }
        };
        // These rows came before the reply. The program may have ended, so the time limit is enforced here.
        let rest = async {
            while broken.is_none()
                && let Some(lines) = self.batches.recv().await
            {
                broken = self.rows.write(&lines).await.err();
            }
        };
        if timeout(time_limit, rest).await.is_err() {
            let limit = HumanDuration::from(time_limit);
            let what = format!("the rows could not be written within {limit}");
            broken = Some(Failure::timeout(&what));
        }
        match (broken, ended) {
            (Some(failure), _) => CallCompletion::Done(Outcome::Failed(failure)),
            (None, Ok(ended)) => ended,
            // The sender is dropped only when the handler is.
            (None, Err(_)) => CallCompletion::Done(Outcome::Stopped),
        }
    }
}
