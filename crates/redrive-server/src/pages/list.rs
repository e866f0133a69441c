//! The list of a resource: its rows page by page in either order, and actions on rows that are selected.

use std::time::Duration;

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use redrive_ops::{Column, ColumnKind, Page, views::OverviewView};
use redrive_store::{PageLimit, PageOrder, Selection};

use super::{
    PageResult,
    causes::cause_address,
    filter_bar::{filter_bar, search},
    layout::{DashboardPage, may_act},
    parts::{address, counted, excerpt, number, pill, when_text},
    resource::{Listed, SELECTED_FORM, title_case},
};
use crate::{
    app::{App, AppState},
    extract::QueryParams,
    guard::Caller,
    params::{OF_PAGES, Pairs, Params, of_form, order_name, selection_fields},
};

const ROWS: u32 = 100;

/// How long a list waits for the overview, whose counts a busy store takes a while for.
const PATIENCE: Duration = Duration::from_millis(20);

pub(super) async fn list<R: Listed>(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(pairs): QueryParams<Pairs>,
) -> PageResult<Response> {
    let mut pairs = of_form(pairs);
    if let Some(found) = search::<R>(&mut pairs)? {
        return Ok(Redirect::to(&found).into_response());
    }
    let params = Params::<R>::read(&pairs, OF_PAGES)?;
    show_list(&app, &caller, &params, &[]).await
}

/// The rows of a page, and whether there are rows before and after them.
struct Rows<R> {
    rows: Vec<R>,
    has_previous: bool,
    has_next: bool,
}

impl<R: Listed> Rows<R> {
    async fn read(app: &App, params: &Params<R>, order: PageOrder) -> PageResult<Self> {
        // One more, which says whether the page is the last.
        let limit = PageLimit::without_data(ROWS + 1);
        let selection = &params.selection;
        let cut = |page: Page<R>| page.rows.into_iter().take(ROWS as usize);
        if params.last || params.before.is_some() {
            let limit = limit.ordered(order.reversed());
            let page = R::page(&app.ops, selection, params.before.as_ref(), limit).await?;
            // Otherwise this is the first page, which goes on to the full number of rows.
            if page.has_more {
                let rows = cut(page).rev().collect();
                return Ok(Self { rows, has_previous: true, has_next: !params.last });
            }
        }
        let goes_back = params.last || params.before.is_some();
        let after = params.after.as_ref().filter(|_| !goes_back);
        let page = R::page(&app.ops, selection, after, limit.ordered(order)).await?;
        let has_next = page.has_more;
        Ok(Self { rows: cut(page).collect(), has_previous: after.is_some(), has_next })
    }

    /// `1 234 runs`, or `more than 100 runs` if counting them all would take long.
    fn total(&self, overview: Option<&OverviewView>, selection: &Selection) -> String {
        let shown = self.rows.len() as u64;
        if !self.has_previous && !self.has_next {
            return counted(shown, R::NOUN);
        }
        match overview.and_then(|overview| R::counted(overview, selection)) {
            Some(total) => counted(total.max(shown), R::NOUN),
            None => format!("more than {} {}s", number(shown), R::NOUN),
        }
    }
}

/// `kept` are parameters of every address of the list.
pub(super) async fn show_list<R: Listed>(
    app: &App,
    caller: &Caller,
    params: &Params<R>,
    kept: &[(&'static str, String)],
) -> PageResult<Response> {
    let selection = &params.selection;
    let watch = app.watch.clone();
    let overview = tokio::spawn(async move { watch.overview().await });
    let order = params.order.unwrap_or(R::PAGE_ORDER);
    let page = Rows::<R>::read(app, params, order).await?;
    let overview = tokio::time::timeout(PATIENCE, overview).await;
    let overview = overview.ok().and_then(|joined| joined.ok()?.ok());
    let list = ListAddress::of::<R>(selection, kept, order);
    let is_filtered = !list.fields.is_empty();
    let can_act = may_act(caller) && !page.rows.is_empty();
    let select = R::SELECTED.filter(|_| can_act);
    let body = html! {
        h1 { (R::TITLE) }
        p.lead { (R::LEAD) }
        (filter_bar::<R>(selection, &list.kept(order), html! {}))
        (R::above(app, caller, selection).await?)
        section id="rows" {
            p.total { (page.total(overview.as_deref(), selection)) }
            // Instead of a column that says the same in every row.
            @if let Some(cause) = &selection.cause { p { "Cause " a href=(cause_address(cause)) { code { (cause) } } } }
            // Without a filter, only a list of one state offers actions.
            @if can_act && (is_filtered || R::STATE.is_some()) {
                div.actions { ((R::BULK)(selection, " all that match")) }
            }
            @if page.rows.is_empty() { (empty::<R>(is_filtered)) }
            @else { (table(app, &list, selection, &page.rows, select.is_some())) }
            (pager(&list, &page))
            @if let Some(actions) = select { (actions(&list.query())) }
        }
    };
    Ok(DashboardPage::new(R::SECTION, R::TITLE, body).with_rows().render(app, caller))
}

/// The address of a list with its filters, in an order.
struct ListAddress {
    path: &'static str,
    fields: Vec<(&'static str, String)>,
    kept: Vec<(&'static str, String)>,
    default_order: PageOrder,
    order: PageOrder,
}

impl ListAddress {
    fn of<R: Listed>(
        selection: &Selection,
        kept: &[(&'static str, String)],
        order: PageOrder,
    ) -> Self {
        let (fields, default_order) = (selection_fields::<R>(selection), R::PAGE_ORDER);
        Self { path: R::PATH, fields, kept: kept.to_vec(), default_order, order }
    }

    /// What stays when filters change.
    fn kept(&self, order: PageOrder) -> Vec<(&'static str, String)> {
        let is_other = order != self.default_order;
        let order = is_other.then(|| ("order", order_name(order).to_owned()));
        self.kept.iter().cloned().chain(order).collect()
    }

    fn with(&self, order: PageOrder, place: Option<(&'static str, String)>) -> String {
        let fields = self.fields.iter().cloned().chain(self.kept(order)).chain(place);
        address(self.path, fields)
    }

    /// What follows the path, for forms that lead back to the list.
    fn query(&self) -> String {
        query_of(&self.with(self.order, None)).to_owned()
    }
}

/// The query of an address.
pub(super) fn query_of(address: &str) -> &str {
    address.split_once('?').map_or("", |(_, query)| query)
}

fn pager<R: Listed>(list: &ListAddress, page: &Rows<R>) -> Markup {
    let ends = (page.rows.first().map(R::id), page.rows.last().map(R::id));
    let to = |name: &'static str, value: String| list.with(list.order, Some((name, value)));
    html! { @if page.has_previous || page.has_next {
        nav.pages aria-label="Pages" {
            @if page.has_previous {
                a href=(list.with(list.order, None)) { "« First" }
                @if let Some(first) = ends.0 { a href=(to("before", first.to_string())) rel="prev" { "← Previous page" } }
            }
            @if page.has_next {
                @if let Some(last) = ends.1 { a href=(to("after", last.to_string())) rel="next" { "Next page →" } }
                a href=(to("last", "true".to_owned())) { "Last »" }
            }
        }
    } }
}

/// What to do when there is nothing to see.
fn empty<R: Listed>(is_filtered: bool) -> Markup {
    html! {
        p.empty {
            @if is_filtered { "No " (R::NOUN) "s match. " a href=(R::PATH) { "Remove the filters" } }
            @else { (R::BEGIN.0) @if !R::BEGIN.1.is_empty() { ": " code { (R::BEGIN.1) } } }
        }
    }
}

fn table<R: Listed>(
    app: &App,
    list: &ListAddress,
    selection: &Selection,
    rows: &[R],
    can_select: bool,
) -> Markup {
    let is_shown =
        |column: &&Column<R>| column.kind != ColumnKind::Cause || selection.cause.is_none();
    let columns: Vec<&Column<R>> = R::COLUMNS.iter().filter(is_shown).collect();
    // Only the order of ids has an index in every store.
    let is_sorted = |index: usize| index == 0;
    html! {
        div.scroll { table.cards.rows {
            thead { tr {
                @if can_select { th.box { span.unseen { "Select" } } }
                @for (index, column) in columns.iter().enumerate() {
                    @if is_sorted(index) { (sorted_heading(list, column.heading)) }
                    @else { th.number[column.kind == ColumnKind::Number] { (title_case(column.heading)) } }
                }
            } }
            tbody { @for row in rows { (table_row(app, &columns, row, can_select)) } }
        } }
    }
}

fn sorted_heading(list: &ListAddress, heading: &str) -> Markup {
    let (state, sign) = match list.order {
        PageOrder::Ascending => ("ascending", "▲"),
        PageOrder::Descending => ("descending", "▼"),
    };
    let other = list.with(list.order.reversed(), None);
    html! {
        th aria-sort=(state) {
            a href=(other) title="Reverse the order" { (title_case(heading)) " " span aria-hidden="true" { (sign) } }
        }
    }
}

/// A row. Its key is that of its unit, so that a row stays in its place while others come and go.
fn table_row<R: Listed>(app: &App, columns: &[&Column<R>], row: &R, can_select: bool) -> Markup {
    let id = row.id().to_string();
    html! { tr data-key=(id) {
        @if can_select { td.box {
            input type="checkbox" name="ids" value=(id) form=(SELECTED_FORM) aria-label=(format!("Select {} {id}", R::NOUN));
        } }
        @for column in columns { @match row.own_cell(column.heading) {
            Some(cell) => td.text data-label=(title_case(column.heading)) { (cell) },
            None => (cell(app, column, &column.cell(row), || R::address(&row.id()))),
        } }
    } }
}

fn cell<R>(app: &App, column: &Column<R>, text: &str, address: impl Fn() -> String) -> Markup {
    // On a narrow screen a cell without text takes no room, and others say what they are.
    let label = (!text.is_empty()).then(|| title_case(column.heading));
    match column.kind {
        ColumnKind::Id => html! { td.name { a href=(address()) { (text) } } },
        ColumnKind::Text => html! { td.text data-label=[label] { (text) } },
        ColumnKind::Cause => html! { td data-label=[label] {
            @if !text.is_empty() { a href=(cause_address(text)) { code { (text) } } }
        } },
        ColumnKind::Number => {
            let grouped = text.parse().map_or_else(|_| text.to_owned(), number);
            html! { td.number data-label=[label] { (grouped) } }
        }
        ColumnKind::State => html! { td.state { (pill(text)) } },
        ColumnKind::Time => html! { td data-label=[label] { (when_text(text, app.ops.now())) } },
        ColumnKind::Message => {
            html! { td.text.message { @if !text.is_empty() { (excerpt(text)) } } }
        }
    }
}
