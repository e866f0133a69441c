//! Dead letters: the samples of pipelines that operators list and change.

use redrive_core::{SampleId, SampleStatus, Unit};
use redrive_store::{
    PageLimit, PlanAction, Result, SampleChange, SampleRecord, Selection, SelectionTerm as Term,
    StateFilter,
};

use super::{
    ActionDeclaration as Action, ActionOptions, Button, ChangeRequest, ChangeResult, Changeable,
    Column, ColumnKind as Kind, Page, Resource, UnitChange, column::text, state,
};
use crate::{Ops, views::SampleView};

impl Resource for SampleView {
    type Id = SampleId;

    const NOUN: &'static str = "sample";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("id", Kind::Id, |view| view.sample.id.to_string()),
        Column::new("run", Kind::Text, |view| view.sample.run.to_string()),
        Column::new("pipeline", Kind::Text, |view| view.sample.pipeline.clone()),
        Column::new("line", Kind::Number, |view| view.sample.line.to_string()),
        Column::new("stage", Kind::Text, |view| view.sample.stage_name.clone()),
        Column::new("code", Kind::Text, |view| text(&view.sample.error_code)),
        Column::new("attempts", Kind::Number, |view| view.sample.attempts.to_string()),
        Column::on_pages("last failure", Kind::Time, |view| text(&view.sample.last_failure_at)),
        Column::new("cause", Kind::Cause, |view| text(&view.sample.fingerprint)),
        Column::new("error", Kind::Message, |view| text(&view.sample.error_message)),
    ];
    const TERMS: &'static [Term] = &[
        Term::Pipeline,
        Term::Run,
        Term::Stage,
        Term::Class,
        Term::Code,
        Term::Cause,
        Term::Error,
        Term::FailedSince,
        Term::FailedUntil,
    ];
    const STATES: &'static [(&'static str, StateFilter)] =
        &[("dlq", state("dlq")), ("given_up", state("dlq"))];
    const STATE: Option<StateFilter> = Some(state("dlq"));

    fn id(&self) -> SampleId {
        self.sample.id
    }

    async fn page(
        ops: &Ops,
        selection: &Selection,
        after: Option<&SampleId>,
        limit: PageLimit,
    ) -> Result<Page<Self>> {
        let after = after.copied().unwrap_or(SampleId(limit.order.start()));
        let rows = ops.store().samples_page(selection, after, limit).await?;
        let has_more = limit.is_reached(&rows);
        Ok(Page { rows: rows.into_iter().map(Self::from).collect(), has_more })
    }

    async fn by_id(ops: &Ops, ids: &[SampleId]) -> Result<Vec<Self>> {
        let samples = ops.store().samples_by_id(ids).await?;
        Ok(samples.into_iter().map(Self::from).collect())
    }
}

/// What operators do to dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleAction {
    /// Tries them again at the stage that failed.
    Reprocess,
}

impl Changeable for SampleView {
    type Action = SampleAction;

    const COMMAND: &'static str = "dlq";
    const EXAMPLE: &'static str = "sample:17";
    const ACTIONS: &'static [Action<Self>] = &[
        // `dlq reprocess` has arguments of its own.
        Action::new("reprocess", "Return dead letters to the stage that failed", |_| {
            SampleAction::Reprocess
        })
        .for_all(|_| true)
        .buttons(&[Button::new("Reprocess", |view| {
            view.sample.status == SampleStatus::Dlq && view.sample.data.is_some()
        })]),
    ];

    fn plan_action(_: SampleAction, _: &ActionOptions) -> Option<PlanAction> {
        Some(PlanAction::ReprocessSample)
    }

    fn unit(id: &SampleId) -> Unit {
        Unit::Sample { id: *id, stage: String::new() }
    }

    fn unit_of(&self) -> Unit {
        Unit::Sample { id: self.sample.id, stage: self.sample.stage_name.clone() }
    }

    async fn change(
        ops: &Ops,
        SampleAction::Reprocess: SampleAction,
        request: &ChangeRequest<'_>,
        ids: &[SampleId],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<()> {
        let dry_run = request.dry_run;
        let by = (!dry_run).then_some(request.by);
        let on_change = |id, sample: Option<&SampleRecord>, change| {
            report(vec![sample_change(id, sample, change, dry_run)]);
        };
        ops.pipelines().reprocess_by_id(ids, by, on_change).await.map(drop)
    }
}

fn sample_change(
    id: SampleId,
    sample: Option<&SampleRecord>,
    change: SampleChange,
    dry_run: bool,
) -> UnitChange {
    let stage = sample.map(|sample| sample.stage_name.clone()).unwrap_or_default();
    let unit = Unit::Sample { id, stage };
    match change {
        SampleChange::Done => UnitChange::new(unit, ChangeResult::done(dry_run)).was("dlq"),
        SampleChange::Refused(state) => {
            UnitChange::refused(unit, format!("the sample is {}", state.name()))
        }
        SampleChange::NoData => {
            let error = sample.and_then(|sample| sample.error_message.as_deref());
            let error = error.unwrap_or_default();
            let why = format!(
                "the sample has no data to reprocess: {error}; `dlq edit` or `dlq reprocess --patch` gives it data"
            );
            UnitChange::refused(unit, why)
        }
        SampleChange::Unknown => UnitChange::unknown(unit, SampleView::NOUN),
    }
}
