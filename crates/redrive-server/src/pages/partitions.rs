//! Partitions: a calendar for each series.

use std::collections::BTreeMap;

use axum::{Extension, response::Response};
use jiff::{ToSpan, civil::Date};
use maud::{Markup, html};
use redrive_core::{LogicalDate, PartitionKey, PartitionStatus};
use redrive_ops::{PartitionQuery, views::PartitionView};
use redrive_store::{PartitionFilter, PartitionRecord};
use serde::Deserialize;

use super::{
    PageResult,
    layout::{DashboardPage, NavSection, may_act},
    parts::{address, filter_choice, filter_field, given, more, partition_address, pill, style_of},
};
use crate::{
    app::{App, AppState},
    extract::QueryParams,
    guard::Caller,
    problem::ProblemDetails,
};

/// About sixty series of one month.
const ROWS: u32 = 2_000;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PartitionListQuery {
    source: Option<String>,
    customer_id: Option<String>,
    query_name: Option<String>,
    status: Option<String>,
    month: Option<String>,
    after: Option<String>,
}

impl PartitionListQuery {
    fn fields(&self) -> [(&'static str, Option<&str>); 4] {
        [
            ("source", self.source.as_deref()),
            ("customer_id", self.customer_id.as_deref()),
            ("query_name", self.query_name.as_deref()),
            ("status", self.status.as_deref()),
        ]
    }

    fn address(&self, month: &Month, after: Option<&str>) -> String {
        let [one, two, three, four] = self.fields();
        let month = month.to_string();
        address("/partitions", &[one, two, three, four, ("month", Some(&month)), ("after", after)])
    }

    fn filter(&self, month: &Month) -> Result<PartitionFilter, ProblemDetails> {
        let status = given(self.status.as_deref()).map(|name| {
            PartitionStatus::from_name(name).ok_or_else(|| {
                ProblemDetails::bad_request(format!("status: unknown value {name:?}"))
            })
        });
        let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
        Ok(PartitionFilter {
            source: text(&self.source),
            customer_id: text(&self.customer_id),
            query_name: text(&self.query_name),
            since: LogicalDate::try_from(month.first).ok(),
            until: LogicalDate::try_from(month.last()).ok(),
            status: status.transpose()?,
        })
    }
}

struct Month {
    first: Date,
}

impl Month {
    fn parse(text: &str) -> Result<Self, ProblemDetails> {
        let day = format!("{text}-01").parse::<LogicalDate>();
        day.map(|day| Self::of(day.date())).map_err(|_| {
            ProblemDetails::bad_request(format!("month: {text:?} is not a month"))
                .allowed("YYYY-MM")
        })
    }

    fn of(day: Date) -> Self {
        Self { first: day.first_of_month() }
    }

    fn last(&self) -> Date {
        self.first.last_of_month()
    }

    fn days(&self) -> impl Iterator<Item = Date> + use<> {
        let first = self.first;
        (0..self.first.days_in_month()).filter_map(move |day| first.checked_add(day.days()).ok())
    }

    fn before(&self) -> Option<Self> {
        self.first.checked_sub(1.month()).ok().map(|first| Self { first })
    }

    fn after(&self) -> Option<Self> {
        self.first.checked_add(1.month()).ok().map(|first| Self { first })
    }
}

impl std::fmt::Display for Month {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.first.strftime("%Y-%m"))
    }
}

/// The default month: the current one if it has partitions, else the month of the newest partition.
async fn newest_month(app: &App, query: &PartitionListQuery) -> Result<Month, ProblemDetails> {
    let now = app.ops.now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
    let filter = PartitionFilter {
        source: text(&query.source),
        customer_id: text(&query.customer_id),
        query_name: text(&query.query_name),
        ..PartitionFilter::default()
    };
    let this = Month::of(now);
    let since = LogicalDate::try_from(this.first).ok();
    let recent = PartitionFilter { since, ..filter.clone() };
    if !app.ops.store().partitions_page(&recent, None, 1).await?.is_empty() {
        return Ok(this);
    }
    let any = app.ops.store().partitions_page(&filter, None, ROWS).await?;
    let newest = any.iter().map(|partition| partition.key.logical_date().date()).max();
    Ok(newest.map_or(this, Month::of))
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<PartitionListQuery>,
) -> PageResult<Response> {
    let month = match given(query.month.as_deref()) {
        Some(text) => Month::parse(text)?,
        None => newest_month(&app, &query).await?,
    };
    let after = given(query.after.as_deref()).map(|text| {
        text.parse::<PartitionKey>().map_err(|error| ProblemDetails::bad_request(error.to_string()))
    });
    let page_query = PartitionQuery {
        filter: query.filter(&month)?,
        terminal: false,
        after: after.transpose()?,
        limit: ROWS,
    };
    let page = app.ops.partitions_page(&page_query).await?;
    let (series, next) = group_by_series(page);
    let next = next.map(|key| query.address(&month, Some(&key.to_string())));
    let names = PartitionStatus::ALL.map(PartitionStatus::name);
    let body = html! {
        h1 { "Partitions" }
        p.lead { "A partition is one day of one query for one customer of a source. The validator decides whether it is good." }
        form.filters method="get" action="/partitions" {
            (filter_field("source", "Source", query.source.as_deref()))
            (filter_field("customer_id", "Customer", query.customer_id.as_deref()))
            (filter_field("query_name", "Query", query.query_name.as_deref()))
            (filter_choice("status", "Status", query.status.as_deref(), &names))
            (filter_field("month", "Month", Some(&month.to_string())))
            button type="submit" { "Show" }
        }
        section {
            h2 { (month) }
            p.pages {
                @if let Some(before) = month.before() { a href=(query.address(&before, None)) { "← " (before) } }
                @if let Some(after) = month.after() { a href=(query.address(&after, None)) { (after) " →" } }
            }
            (calendar(&app, &month, &series))
            (more(next))
            div.legend {
                @for state in ["success", "failed", "terminal", "pending", "reprocessing"] { (pill(state)) }
                span { "· no entry" }
            }
        }
        @if may_act(&caller) { (bulk(&query, &month)) }
    };
    Ok(DashboardPage::new(NavSection::Partitions, "Partitions", body).render(&app, &caller))
}

type Series = BTreeMap<(String, String, String), BTreeMap<Date, PartitionRecord>>;

/// Groups a page by series. A full page may end within a series; that series is left to the next page.
fn group_by_series(page: Vec<PartitionRecord>) -> (Series, Option<PartitionKey>) {
    let is_full = page.len() >= ROWS as usize;
    let mut series = Series::new();
    for partition in page {
        let key = &partition.key;
        let name =
            (key.source().to_owned(), key.customer_id().to_owned(), key.query_name().to_owned());
        let day = key.logical_date().date();
        series.entry(name).or_default().insert(day, partition);
    }
    if is_full && series.len() > 1 {
        series.pop_last();
    }
    let last = series.last_key_value().and_then(|(_, days)| days.last_key_value());
    let last = last.map(|(_, partition)| partition.key.clone()).filter(|_| is_full);
    (series, last)
}

fn calendar(app: &App, month: &Month, series: &Series) -> Markup {
    if series.is_empty() {
        return html! { p.empty { "No partitions match in this month." } };
    }
    html! {
        div.scroll { table.calendar {
            thead { tr { th.series { "Series" } @for day in month.days() { th scope="col" { (day.day()) } } } }
            tbody { @for ((source, customer, query), days) in series { tr {
                th.series scope="row" { (source) " / " (customer) " / " (query) }
                @for day in month.days() { td { @match days.get(&day) {
                    Some(partition) => (cell(app, partition)),
                    None => span { "·" },
                } } }
            } } }
        } }
    }
}

fn cell(app: &App, partition: &PartitionRecord) -> Markup {
    let view = app.ops.show_partition(partition.clone());
    let state = state(&view);
    let (class, sign) = style_of(state);
    let title = format!(
        "{}: {state}, {} attempts. {}",
        view.logical_date, partition.attempt_count, view.why
    );
    html! {
        a class=(class) href=(partition_address(&partition.key)) title=(title)
            aria-label=(format!("{} {state}", view.logical_date)) { (sign) }
    }
}

pub(super) fn state(view: &PartitionView) -> &'static str {
    match (view.status, view.terminal) {
        (Some("failed"), true) => "terminal",
        (Some(status), _) => status,
        (None, _) => "no_entry",
    }
}

fn bulk(query: &PartitionListQuery, month: &Month) -> Markup {
    let [one, two, three, _] = query.fields();
    let (since, until) = (month.first.to_string(), month.last().to_string());
    let preview = |action| {
        let days = [("since", Some(since.as_str())), ("until", Some(until.as_str()))];
        address(
            "/partitions/preview",
            &[("action", Some(action)), one, two, three, days[0], days[1]],
        )
    };
    html! {
        section {
            h2 { "All matching partitions of this month" }
            div.actions {
                a href=(preview("retry")) { "Retry failed …" }
                a href=(preview("reprocess")) { "Reprocess good …" }
                a href=(preview("pause")) { "Pause …" }
                a href=(preview("resume")) { "Resume …" }
            }
        }
    }
}
