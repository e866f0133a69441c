//! Dead letters, grouped by cause.

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use redrive_core::{PipelineRunId, SampleId, SampleStatus};
use redrive_ops::{
    ExplainTarget, Explanation,
    views::{CauseView, SampleView},
};
use redrive_store::SampleFilter;
use serde::Deserialize;

use super::{
    PageResult,
    changed::{done, preview},
    layout::{DashboardPage, NavSection, may_act},
    parts::{
        act_button, address, attempts, edit_form, excerpt, filter_field, given, journal, json,
        last_of, more, number, parse_json, pill, when_some,
    },
};
use crate::{
    api::{DeadLetterActionRequest, edit_sample, reprocess_dead_letters},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

const ROWS: u32 = 50;
const CAUSES: u32 = 50;

/// The filters of the list, and the action on the selection.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeadLetterForm {
    id: Option<i64>,
    pipeline: Option<String>,
    run: Option<String>,
    stage: Option<String>,
    error: Option<String>,
    code: Option<String>,
    cause: Option<String>,
    all: bool,
    after: Option<i64>,
    token: Option<String>,
    reason: Option<String>,
}

impl DeadLetterForm {
    fn run(&self) -> Result<Option<i64>, ProblemDetails> {
        let number = |text: &str| {
            text.parse()
                .map_err(|_| ProblemDetails::bad_request(format!("run: {text:?} is not a number")))
        };
        given(self.run.as_deref()).map(number).transpose()
    }

    fn fields(&self) -> [(&'static str, Option<&str>); 6] {
        [
            ("pipeline", self.pipeline.as_deref()),
            ("run", self.run.as_deref()),
            ("stage", self.stage.as_deref()),
            ("error", self.error.as_deref()),
            ("code", self.code.as_deref()),
            ("cause", self.cause.as_deref()),
        ]
    }

    fn is_empty(&self) -> bool {
        self.fields().iter().all(|(_, value)| given(*value).is_none())
    }

    fn filter(&self) -> Result<SampleFilter, ProblemDetails> {
        let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
        Ok(SampleFilter {
            pipeline: text(&self.pipeline),
            run: self.run()?.map(PipelineRunId),
            status: Some(SampleStatus::Dlq),
            stage: text(&self.stage),
            error: text(&self.error),
            code: text(&self.code),
            cause: text(&self.cause),
            ..SampleFilter::default()
        })
    }

    fn action(&self, dry_run: bool) -> Result<DeadLetterActionRequest, ProblemDetails> {
        let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
        Ok(DeadLetterActionRequest {
            ids: self.id.into_iter().collect(),
            pipeline: text(&self.pipeline),
            run: self.run()?,
            stage: text(&self.stage),
            error: text(&self.error),
            code: text(&self.code),
            cause: text(&self.cause),
            all: self.all,
            dry_run,
            token: text(&self.token),
            reason: text(&self.reason),
        })
    }

    fn preview(&self) -> String {
        let [one, two, three, four, five, six] = self.fields();
        let all = self.is_empty().then_some("true");
        address("/dead-letters/preview", &[one, two, three, four, five, six, ("all", all)])
    }
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(form): QueryParams<DeadLetterForm>,
) -> PageResult<Response> {
    let filter = form.filter()?;
    let causes = app.ops.store().dead_causes(&filter, CAUSES).await?;
    let causes: Vec<CauseView> = causes.into_iter().map(CauseView::from).collect();
    let after = SampleId(form.after.unwrap_or(0));
    let letters = app.ops.samples(filter, after, ROWS).await?;
    let next = last_of(&letters, ROWS, |letter| letter.id).map(|last| {
        let [one, two, three, four, five, six] = form.fields();
        address("/dead-letters", &[one, two, three, four, five, six, ("after", Some(&last))])
    });
    let total: u64 = causes.iter().map(|cause| cause.count).sum();
    let body = html! {
        h1 { "Dead letters" }
        p.lead { "Samples that failed permanently. "
                 "Errors that differ only in numbers, ids, quotations and paths have one cause." }
        form.filters method="get" action="/dead-letters" {
            (filter_field("pipeline", "Pipeline", form.pipeline.as_deref()))
            (filter_field("run", "Run", form.run.as_deref()))
            (filter_field("stage", "Stage", form.stage.as_deref()))
            (filter_field("error", "Error text", form.error.as_deref()))
            (filter_field("code", "Code", form.code.as_deref()))
            (filter_field("cause", "Cause", form.cause.as_deref()))
            button type="submit" { "Show" }
        }
        section {
            h2 { "By cause" }
            (by_cause(&app, &causes, may_act(&caller)))
            @if may_act(&caller) && total > 0 { p { a href=(form.preview()) { "Reprocess all that match …" } } }
        }
        section { h2 { "Samples" } (table(&letters)) (more(next)) }
    };
    Ok(DashboardPage::new(NavSection::DeadLetters, "Dead letters", body).render(&app, &caller))
}

fn by_cause(app: &App, causes: &[CauseView], may_act: bool) -> Markup {
    if causes.is_empty() {
        return html! { p.empty { "No dead letters." } };
    }
    let now = app.ops.now();
    let of = |path: &str, cause: &CauseView| {
        let fingerprint = cause.fingerprint.as_str();
        let params = [
            ("pipeline", cause.pipeline.as_str()),
            ("stage", &cause.stage),
            ("cause", fingerprint),
        ];
        address(path, &params.map(|(name, value)| (name, Some(value))))
    };
    html! {
        div.scroll { table {
            thead { tr { th.number { "Samples" } th { "Pipeline" } th { "Stage" } th { "Code" } th { "Example" } th { "Last" } th { "" } } }
            tbody { @for cause in causes { tr {
                td.number { a href=(of("/dead-letters", cause)) { (number(cause.count)) } }
                td.text { (cause.pipeline) }
                td.text { (cause.stage) }
                td { (cause.code) }
                td.text { (excerpt(&cause.example)) }
                td { (when_some(cause.last_attempt_at.as_deref(), now)) }
                td.nowrap { @if may_act { a href=(of("/dead-letters/preview", cause)) { "Reprocess …" } } }
            } } }
        } }
    }
}

fn table(letters: &[SampleView]) -> Markup {
    if letters.is_empty() {
        return html! { p.empty { "No dead letters match." } };
    }
    html! {
        div.scroll { table {
            thead { tr { th.number { "Sample" } th { "Pipeline" } th.number { "Line" } th { "Stage" } th { "Code" } th.number { "Attempts" } th { "Error" } } }
            tbody { @for letter in letters { tr {
                td.number { a href=(format!("/dead-letters/{}", letter.id)) { (letter.id) } }
                td.text { a href=(format!("/pipelines/{}", letter.run_id)) { (letter.pipeline) " " (letter.run_id) } }
                td.number { (number(letter.line)) }
                td.text { (letter.stage) }
                td { (letter.error_code.as_deref().unwrap_or_default()) }
                td.number { (letter.attempts) }
                td.text { (excerpt(letter.error_message.as_deref().unwrap_or_default())) }
            } } }
        } }
    }
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
) -> PageResult<Response> {
    let Some(Explanation::Sample(explanation)) =
        app.ops.explain(&ExplainTarget::Sample(SampleId(id))).await?
    else {
        return Err(ProblemDetails::not_found(format!("there is no sample {id}")));
    };
    let (sample, now) = (&explanation.sample, app.ops.now());
    let body = html! {
        h1 { "Sample " (id) " " (pill(sample.status)) }
        p.next { strong { "Next: " } (explanation.next.because) }
        @if may_act(&caller) && sample.status == "dlq" && sample.data.is_some() {
            section { h2 { "Actions" } (act_button("/dead-letters/reprocess", &[("id", &id.to_string())], "Reprocess")) }
        }
        @if may_act(&caller) && sample.status == "dlq" {
            section {
                h2 { "Repair" }
                (edit_form(&format!("/dead-letters/{id}/edit"), "Edit the data …", "data", sample.data.as_ref().map_or("{}", |data| data.get())))
            }
        }
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Run" } dd { a href=(format!("/pipelines/{}", sample.run_id)) { (sample.pipeline) " " (sample.run_id) } ", " (explanation.run_status) }
                    dt { "Line" } dd { (number(sample.line)) }
                    dt { "Stage" } dd { (sample.stage) }
                    @if let Some(cause) = &sample.fingerprint { dt { "Cause" } dd { a href=(address("/dead-letters", &[("cause", Some(cause))])) { code { (cause) } } } }
                    @if let Some(reason) = &sample.skip_reason { dt { "Skipped because" } dd { (reason) } }
                }
                (json("Last error", sample.error_message.as_deref()))
            }
            section.half { (json("Data", sample.data.as_ref().map(|data| data.get()))) }
            @for stage in &explanation.stages { section {
                h2 { "Stage " (stage.stage) ": " (stage.outcome) }
                (attempts(&stage.attempts, None, now))
            } }
            section { h2 { "Journal" } (journal(&explanation.journal, false, now)) }
        }
    };
    Ok(DashboardPage::new(NavSection::DeadLetters, format!("Sample {id}"), body)
        .render(&app, &caller))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleEditForm {
    data: String,
    reason: Option<String>,
}

/// Replaces the data of a dead letter, and shows it again.
pub(super) async fn edit(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Form(form): Form<SampleEditForm>,
) -> PageResult<Response> {
    let data = parse_json("data", &form.data)?;
    edit_sample(&app, &caller, id, &data, given(form.reason.as_deref())).await?;
    Ok(Redirect::to(&format!("/dead-letters/{id}")).into_response())
}

pub(super) async fn preview_action(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(form): QueryParams<DeadLetterForm>,
) -> PageResult<Response> {
    let changes = reprocess_dead_letters(&app, &caller, form.action(true)?).await?;
    let [one, two, three, four, five, six] = form.fields();
    let all = form.all.then_some("true");
    let fields = [one, two, three, four, five, six, ("all", all)];
    let back = address("/dead-letters", &form.fields());
    let title = "Reprocess dead letters?";
    let body = preview(title, &changes, "/dead-letters/reprocess", &fields, &back);
    Ok(DashboardPage::new(NavSection::DeadLetters, title, body).not_live().render(&app, &caller))
}

pub(super) async fn act(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(form): Form<DeadLetterForm>,
) -> PageResult<Response> {
    let changes = reprocess_dead_letters(&app, &caller, form.action(false)?).await?;
    let back = match form.id {
        Some(id) => format!("/dead-letters/{id}"),
        None => address("/dead-letters", &form.fields()),
    };
    let body = done("Reprocess: done", &changes, &back);
    Ok(DashboardPage::new(NavSection::DeadLetters, "Dead letters", body)
        .not_live()
        .render(&app, &caller))
}
