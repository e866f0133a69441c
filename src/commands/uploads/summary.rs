//! The result of `uploads run`.

use redrive::{ItemGroup, ItemId, ItemOutcome, UploadOutcome, UploadReport};
use redrive_store::ItemCounts;
use serde::Serialize;

use crate::{
    exit::Exit,
    output::{TableColumn, TableRow},
};

/// The most rejected items in the result; further ones are counted.
const MAX_SHOWN: usize = 20;

#[derive(Debug, Serialize)]
pub(super) struct UploadSummary {
    upload: String,
    group: String,
    outcome: &'static str,
    #[serde(skip)]
    pub(super) exit: Exit,
    /// Whether every item that this call sent is uploaded.
    #[serde(skip)]
    had_all: bool,
    /// This count and the next two are those of this call.
    uploaded: usize,
    rejected: usize,
    given_up: usize,
    retry_count: u32,
    next_retry_at: Option<String>,
    refusal: Option<String>,
    interrupted: bool,
    /// This count and the next three are those of the group.
    pending: u64,
    uploaded_in_all: u64,
    given_up_in_all: u64,
    total: u64,
    pub(super) rejections: Vec<RejectedItemRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct RejectedItemRow {
    id: i64,
    status: &'static str,
    code: String,
    reason: String,
}

impl UploadSummary {
    pub(super) fn new(group: &ItemGroup, report: &UploadReport, counts: &ItemCounts) -> Self {
        let is_given_up = |outcome: &ItemOutcome| matches!(outcome, ItemOutcome::GivenUp { .. });
        let is_rejected = |outcome: &ItemOutcome| matches!(outcome, ItemOutcome::Rejected(_));
        let rejections = report.items.iter().filter_map(|report| {
            let status = if is_given_up(&report.outcome) { "upload_giveup" } else { "pending" };
            let (ItemId(id), failure) = (report.item, report.outcome.failure()?);
            let reason = failure.message().as_str().to_owned();
            Some(RejectedItemRow { id, status, code: failure.code().to_string(), reason })
        });
        // Items that earlier calls gave up, or that became pending during this call, count as not uploaded.
        let outcome = match report.outcome {
            UploadOutcome::Success if counts.pending + counts.upload_giveup > 0 => {
                UploadOutcome::Partial
            }
            outcome => outcome,
        };
        Self {
            upload: group.upload.clone(),
            group: group.group.clone(),
            outcome: outcome.name(),
            exit: match outcome {
                UploadOutcome::Success => Exit::Ok,
                UploadOutcome::Partial => Exit::Partial,
                UploadOutcome::Failure => Exit::Error,
            },
            had_all: report.outcome == UploadOutcome::Success,
            uploaded: report.count(|outcome| *outcome == ItemOutcome::Uploaded),
            rejected: report.count(is_rejected),
            given_up: report.count(is_given_up),
            retry_count: report.retry_count,
            next_retry_at: report.next_retry_at.map(|at| at.to_string()),
            refusal: report.refusal.as_ref().map(|failure| failure.message().as_str().to_owned()),
            interrupted: report.interrupted,
            pending: counts.pending,
            uploaded_in_all: counts.uploaded + counts.trusted + counts.rejected,
            given_up_in_all: counts.upload_giveup,
            total: counts.total(),
            rejections: rejections.take(MAX_SHOWN).collect(),
        }
    }

    pub(super) fn hints(&self) -> Option<String> {
        let Self { upload, group, .. } = self;
        let mut hints = Vec::new();
        let items = |count| if count == 1 { "item is" } else { "items are" };
        let (pending, given_up) = (self.pending, self.given_up_in_all);
        match &self.next_retry_at {
            Some(at) => hints.push(format!(
                "{pending} {} pending; run the command again at {at}",
                items(pending)
            )),
            None if pending > 0 && self.had_all => {
                let items = if pending == 1 { "item" } else { "items" };
                hints.push(format!(
                    "{pending} {items} became pending during the call; run the command again"
                ));
            }
            None => {}
        }
        if given_up > 0 {
            let them = if given_up == 1 { "it" } else { "them" };
            hints.push(format!(
                "{given_up} {} given up: `redrive uploads list --upload {upload} --group {group} \
                 --state given-up` shows {them}, `redrive uploads reset` makes {them} pending, \
                 `redrive uploads replace` sends repaired content",
                items(given_up)
            ));
        }
        (!hints.is_empty()).then(|| hints.join("\n"))
    }
}

impl TableRow for UploadSummary {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("upload"),
        TableColumn::text("group"),
        TableColumn::text("outcome"),
        TableColumn::text("uploaded"),
        TableColumn::text("rejected"),
        TableColumn::text("given up"),
        TableColumn::text("retries"),
        TableColumn::text("next retry at"),
        TableColumn::text("in the group"),
    ];

    fn cells(&self) -> Vec<String> {
        let outcome = match (&self.refusal, self.interrupted) {
            (Some(refusal), _) => format!("{}: {refusal}", self.outcome),
            (None, true) => format!("{}, interrupted", self.outcome),
            (None, false) => self.outcome.to_owned(),
        };
        let group = format!(
            "{} of {} uploaded, {} pending, {} given up",
            self.uploaded_in_all, self.total, self.pending, self.given_up_in_all
        );
        vec![
            self.upload.clone(),
            self.group.clone(),
            outcome,
            self.uploaded.to_string(),
            self.rejected.to_string(),
            self.given_up.to_string(),
            self.retry_count.to_string(),
            self.next_retry_at.clone().unwrap_or_default(),
            group,
        ]
    }
}

impl TableRow for RejectedItemRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("item"),
        TableColumn::text("status"),
        TableColumn::text("code"),
        TableColumn::text("reason"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.status.to_owned(), self.code.clone(), self.reason.clone()]
    }
}
