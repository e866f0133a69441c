//! Partitions: a calendar for each series.

use std::collections::BTreeMap;

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use jiff::civil::Date;
use maud::{Markup, html};
use redrive_core::{PartitionKey, PartitionStatus};
use redrive_ops::{Resource, views::PartitionView};
use redrive_store::{PageLimit, PageOrder, Selection};

use super::{
    PageResult,
    filter_bar::{filter_bar, search},
    layout::{DashboardPage, NavSection, may_act},
    list::{query_of, show_list},
    months::{LENGTHS, Months},
    parts::{
        address, excerpt, filter_choice, filter_field, more, partition_address, pill, style_of,
    },
    resource::{Listed, SELECTED_FORM, bulk_links, selected_actions},
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

/// The default month: the current one if it has partitions, else the month of the newest partition.
async fn newest_month(app: &App, selection: &Selection) -> Result<Months, ProblemDetails> {
    let now = app.ops.now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let any = Selection { state: None, ..selection.clone() };
    let this = Months::of(now);
    let recent = Selection { until: any.until, ..this.part_of(&any) };
    if !app.ops.store().partitions_page(&recent, None, 1.into()).await?.is_empty() {
        return Ok(this);
    }
    let any = app.ops.store().partitions_page(&any, None, ROWS.into()).await?;
    let newest = any.iter().map(|partition| partition.key.logical_date().date()).max();
    Ok(newest.map_or(this, Months::of))
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
    let length = take(&mut pairs, "months").unwrap_or_else(|| "1".to_owned());
    let is_list = take(&mut pairs, "view").as_deref() == Some("list");
    let mut params = Params::<PartitionView>::read(&pairs, OF_PAGES)?;
    let asked = month.map(|text| Months::parse(&text)).transpose()?;
    let count = length.parse().ok().filter(|_| LENGTHS.contains(&length.as_str()));
    let count = count.ok_or_else(|| {
        let what = format!("months: invalid value {length:?}");
        ProblemDetails::bad_request(what).allowed(LENGTHS.join(", "))
    })?;
    let asked = asked.map(|month| month.up_to_here(count));
    // Failures of one cause may lie years apart: a list has them all, a calendar some months.
    if is_list || params.selection.is_about_failures() {
        if let Some(months) = asked {
            params.selection = months.part_of(&params.selection);
        }
        let view = is_list.then(|| ("view", "list".to_owned()));
        return show_list(&app, &caller, &params, view.as_slice()).await;
    }
    let is_asked = asked.is_some();
    let months = match asked {
        Some(months) => months,
        None => newest_month(&app, &params.selection).await?.up_to_here(count),
    };
    show_calendar(&app, &caller, &params, &months, is_asked).await
}

async fn show_calendar(
    app: &App,
    caller: &Caller,
    params: &Params<PartitionView>,
    months: &Months,
    is_asked: bool,
) -> PageResult<Response> {
    let selection = months.part_of(&params.selection);
    let limit = PageLimit::without_data(ROWS);
    let page = PartitionView::page(&app.ops, &selection, params.after.as_ref(), limit).await?;
    let (series, next) = group_by_series(page.rows);
    // Explicit days are what the actions are about, whatever months are shown.
    let has_days = params.selection.since.is_some() || params.selection.until.is_some();
    let (bulk, days) = match has_days {
        true => (&params.selection, range_in_words(&params.selection)),
        false => (&selection, format!("of {months}")),
    };
    let fields = selection_fields::<PartitionView>(&params.selection);
    let with = |others: Vec<(&'static str, String)>| {
        address("/partitions", fields.iter().cloned().chain(others))
    };
    let next = next
        .map(|key| with(months.fields().into_iter().chain([("after", key.to_string())]).collect()));
    let here = with(months.fields());
    let can_act = may_act(caller) && !series.is_empty();
    let failed =
        Selection { state: Some(PartitionStatus::Failed.into()), ..params.selection.clone() };
    let failed = selection_fields::<PartitionView>(&failed).into_iter();
    let failed = address("/partitions", failed.chain([("view", "list".to_owned())]));
    let body = html! {
        h1 { (PartitionView::TITLE) }
        p.lead { (PartitionView::LEAD) }
        (filter_bar::<PartitionView>(&params.selection, &[], month_fields(months, is_asked)))
        section id="rows" {
            h2 { (months) }
            p.pages {
                @if let Some(before) = months.before() { a href=(with(before.fields())) { "← " (before) } }
                @if let Some(after) = months.after() { a href=(with(after.fields())) { (after) " →" } }
                a href=(with(months.fields().into_iter().chain([("view", "list".to_owned())]).collect())) { "As a list" }
                a href=(failed) { "Failed, all months" }
            }
            (calendar(months, &series, fields.is_empty(), can_act))
            (more(next))
            div.legend {
                @for state in ["success", "failed", "terminal", "pending", "reprocessing"] { (pill(state)) }
                span { "· no entry" }
            }
            @if can_act { (selected_actions::<PartitionView>(query_of(&here))) }
        }
        @if may_act(caller) && (has_days || !series.is_empty()) {
            section {
                h2 { "All matching partitions " (days) }
                div.actions { (bulk_links::<PartitionView>(bulk, "")) }
            }
        }
    };
    Ok(DashboardPage::new(NavSection::Partitions, "Partitions", body)
        .with_rows()
        .render(app, caller))
}

/// A month that was not asked for stays open: failures of one cause are searched in all.
fn month_fields(months: &Months, is_asked: bool) -> Markup {
    let mut fields = months.fields();
    fields.retain(|(name, _)| is_asked || *name != "month");
    let value =
        |name| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str());
    html! {
        (filter_field("month", "Month", value("month")))
        (filter_choice("months", "Months up to this one", value("months"), &LENGTHS))
    }
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
fn calendar(months: &Months, series: &Series, is_all: bool, can_select: bool) -> Markup {
    if series.is_empty() {
        let (text, command) = PartitionView::BEGIN;
        return html! { p.empty {
            "No partitions match in this month." @if is_all { " " (text) ": " code { (command) } }
        } };
    }
    html! {
        div.scroll { table.calendar {
            thead {
                @if months.each().count() > 1 { tr {
                    td {}
                    @for (month, days) in months.each() { th.month scope="colgroup" colspan=(days.len()) { (month) } }
                } }
                tr { th.series { "Series" } @for day in months.days() { th scope="col" { (day.day()) } } }
            }
            tbody { @for ((source, customer, query), days) in series { tr {
                th.series scope="row" { (source) " / " (customer) " / " (query) }
                @for day in months.days() { @match days.get(&day) {
                    Some(partition) => td { (cell(partition, can_select)) },
                    None => td { span { "·" } },
                } }
            } } }
        } }
    }
}

/// A day. Its box is reached by keys and by dragging; lists have boxes for everybody.
fn cell(partition: &PartitionView, can_select: bool) -> Markup {
    let state = partition.state();
    let (class, sign) = style_of(state);
    let day = partition.logical_date;
    let attempts = partition.attempt_count.unwrap_or(0);
    let title = format!("{day}: {state}, {attempts} attempts. {}", partition.why);
    html! {
        a class=(class) href=(partition_address(&partition.key)) title=(title)
            aria-label=(format!("{day} {state}")) { (sign) }
        @if can_select {
            input.unseen type="checkbox" name="ids" value=(partition.key) form=(SELECTED_FORM) tabindex="-1"
                aria-label=(format!("Select {day}"));
        }
    }
}
