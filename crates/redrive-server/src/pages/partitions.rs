//! Partitions: a calendar for each series.

use std::collections::BTreeMap;

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use jiff::{ToSpan, civil::Date};
use maud::{Markup, html};
use redrive_core::{LogicalDate, PartitionKey};
use redrive_ops::{Resource, views::PartitionView};
use redrive_store::{PageLimit, PageOrder, Selection};

use super::{
    PageResult,
    filter_bar::{filter_bar, search},
    layout::{DashboardPage, NavSection, may_act},
    list::show_list,
    parts::{address, excerpt, filter_field, more, partition_address, pill, style_of},
    resource::{Listed, bulk_links, selected_actions},
};
use crate::{
    app::{App, AppState},
    extract::QueryParams,
    guard::Caller,
    params::{OF_PAGES, Pairs, Params, of_form, selection_fields, take},
    problem::ProblemDetails,
};

/// About sixty series of one month.
const ROWS: u32 = 2_000;

impl Listed for PartitionView {
    const PATH: &'static str = "/partitions";
    const SECTION: NavSection = NavSection::Partitions;
    const TITLE: &'static str = "Partitions";
    const LEAD: &'static str = "A partition is one day of one query for one customer of a source. \
        The validator decides whether it is good.";
    const BEGIN: (&'static str, &'static str) = (
        "Request days",
        "redrive state backfill --source NAME --since YYYY-MM-DD --until YYYY-MM-DD",
    );
    /// Keys begin with the source, so no order of keys has the newest days first.
    const PAGE_ORDER: PageOrder = PageOrder::Ascending;
    const BULK: fn(&Selection, &str) -> Markup = bulk_links::<Self>;
    const SELECTED: Option<fn(&str) -> Markup> = Some(selected_actions::<Self>);

    fn address(key: &PartitionKey) -> String {
        partition_address(key)
    }

    fn own_cell(&self, heading: &str) -> Option<Markup> {
        (heading == "next").then(|| excerpt(&self.why))
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

    /// The part of a selection that is in this month.
    fn part_of(&self, selection: &Selection) -> Selection {
        let [first, last] = [self.first, self.last()].map(|day| LogicalDate::try_from(day).ok());
        Selection {
            since: selection.since.max(first),
            until: selection.until.or(last).min(last),
            ..selection.clone()
        }
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
async fn newest_month(app: &App, selection: &Selection) -> Result<Month, ProblemDetails> {
    let now = app.ops.now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let any = Selection { state: None, ..selection.clone() };
    let this = Month::of(now);
    let first = LogicalDate::try_from(this.first).ok();
    let recent = Selection { since: any.since.max(first), ..any.clone() };
    if !app.ops.store().partitions_page(&recent, None, 1.into()).await?.is_empty() {
        return Ok(this);
    }
    let any = app.ops.store().partitions_page(&any, None, ROWS.into()).await?;
    let newest = any.iter().map(|partition| partition.key.logical_date().date()).max();
    Ok(newest.map_or(this, Month::of))
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(pairs): QueryParams<Pairs>,
) -> PageResult<Response> {
    let mut pairs = of_form(pairs);
    if let Some(found) = search::<PartitionView>(&mut pairs)? {
        return Ok(Redirect::to(&found).into_response());
    }
    let month = take(&mut pairs, "month");
    let mut params = Params::<PartitionView>::read(&pairs, OF_PAGES)?;
    let asked = month.map(|text| Month::parse(&text)).transpose()?;
    // Failures of one cause may lie years apart: a list has them all, a calendar one month.
    if params.selection.is_about_failures() {
        if let Some(month) = asked {
            params.selection = month.part_of(&params.selection);
        }
        return show_list(&app, &caller, &params).await;
    }
    let asked_text = asked.as_ref().map(Month::to_string);
    let month = match asked {
        Some(month) => month,
        None => newest_month(&app, &params.selection).await?,
    };
    let selection = month.part_of(&params.selection);
    let limit = PageLimit::without_data(ROWS);
    let page = PartitionView::page(&app.ops, &selection, params.after.as_ref(), limit).await?;
    let (series, next) = group_by_series(page.rows);
    // Explicit days are what the actions are about, whatever month is shown.
    let has_days = params.selection.since.is_some() || params.selection.until.is_some();
    let (bulk, days) = match has_days {
        true => (&params.selection, range_in_words(&params.selection)),
        false => (&selection, format!("of {month}")),
    };
    let fields = selection_fields::<PartitionView>(&params.selection);
    let of_month = |month: &Month| {
        fields.iter().cloned().chain([("month", month.to_string())]).collect::<Vec<_>>()
    };
    let next = next.map(|key| {
        let after = ("after", key.to_string());
        address("/partitions", of_month(&month).into_iter().chain([after]))
    });
    let body = html! {
        h1 { (PartitionView::TITLE) }
        p.lead { (PartitionView::LEAD) }
        (filter_bar::<PartitionView>(&params.selection, &[], filter_field("month", "Month", asked_text.as_deref())))
        section id="rows" {
            h2 { (month) }
            p.pages {
                @if let Some(before) = month.before() { a href=(address("/partitions", of_month(&before))) { "← " (before) } }
                @if let Some(after) = month.after() { a href=(address("/partitions", of_month(&after))) { (after) " →" } }
            }
            (calendar(&month, &series, fields.is_empty()))
            (more(next))
            div.legend {
                @for state in ["success", "failed", "terminal", "pending", "reprocessing"] { (pill(state)) }
                span { "· no entry" }
            }
        }
        @if may_act(&caller) && (has_days || !series.is_empty()) {
            section {
                h2 { "All matching partitions " (days) }
                div.actions { (bulk_links::<PartitionView>(bulk, "")) }
            }
        }
    };
    Ok(DashboardPage::new(NavSection::Partitions, "Partitions", body)
        .with_rows()
        .render(&app, &caller))
}

fn range_in_words(selection: &Selection) -> String {
    let first = selection.since.map(|day| format!("from {day}"));
    let last = selection.until.map(|day| format!("to {day}"));
    first.into_iter().chain(last).collect::<Vec<_>>().join(" ")
}

type Series = BTreeMap<(String, String, String), BTreeMap<Date, PartitionView>>;

/// Groups a page by series. A full page may end within a series; that series is left to the next page.
fn group_by_series(page: Vec<PartitionView>) -> (Series, Option<PartitionKey>) {
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

/// `is_all` tells whether nothing is filtered.
fn calendar(month: &Month, series: &Series, is_all: bool) -> Markup {
    if series.is_empty() {
        let (text, command) = PartitionView::BEGIN;
        return html! { p.empty {
            "No partitions match in this month." @if is_all { " " (text) ": " code { (command) } }
        } };
    }
    html! {
        div.scroll { table.calendar {
            thead { tr { th.series { "Series" } @for day in month.days() { th scope="col" { (day.day()) } } } }
            tbody { @for ((source, customer, query), days) in series { tr {
                th.series scope="row" { (source) " / " (customer) " / " (query) }
                @for day in month.days() { td { @match days.get(&day) {
                    Some(partition) => (cell(partition)),
                    None => span { "·" },
                } } }
            } } }
        } }
    }
}

fn cell(partition: &PartitionView) -> Markup {
    let state = partition.state();
    let (class, sign) = style_of(state);
    let day = partition.logical_date;
    let attempts = partition.attempt_count.unwrap_or(0);
    let title = format!("{day}: {state}, {attempts} attempts. {}", partition.why);
    html! {
        a class=(class) href=(partition_address(&partition.key)) title=(title)
            aria-label=(format!("{day} {state}")) { (sign) }
    }
}
