//! Items of uploads.

use axum::{Extension, response::Response};
use maud::{Markup, html};
use redrive_core::{ItemId, ItemStatus, Unit};
use redrive_ops::{ExplainTarget, Explanation, ItemAction, views::ItemView};
use redrive_store::{ItemFilter, ItemGroup};
use serde::Deserialize;

use super::{
    PageResult,
    changed::{done, preview},
    layout::{DashboardPage, NavSection, may_act},
    parts::{
        act_button, address, attempts, excerpt, filter_choice, filter_field, given, journal, json,
        last_of, more, number, pill, when_some,
    },
};
use crate::{
    api::{ItemActionRequest, change_items, group_view, named, send_group},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

const ROWS: u32 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ItemListQuery {
    upload: Option<String>,
    group: Option<String>,
    status: Option<String>,
    after: Option<i64>,
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<ItemListQuery>,
) -> PageResult<Response> {
    let (upload, group) = (given(query.upload.as_deref()), given(query.group.as_deref()));
    let status = given(query.status.as_deref());
    let names = ItemStatus::ALL.map(ItemStatus::name);
    let filter = ItemFilter {
        upload: upload.map(str::to_owned),
        group: group.map(str::to_owned),
        status: named("status", status, ItemStatus::from_name, &names)?,
    };
    let after = ItemId(query.after.unwrap_or(0));
    let page = app.ops.store().items_page(&filter, after, ROWS).await?;
    let last = last_of(&page, ROWS, |item| item.id.0);
    let rows: Vec<ItemView> = page.into_iter().map(ItemView::from).collect();
    let next = last.map(|last| {
        let params = [("upload", upload), ("group", group), ("status", status)];
        let [one, two, three] = params;
        address("/uploads", &[one, two, three, ("after", Some(&last))])
    });
    let now = app.ops.now();
    let group_section = match upload.zip(group) {
        Some((upload, group)) if !rows.is_empty() => {
            let group = ItemGroup { upload: upload.to_owned(), group: group.to_owned() };
            Some(this_group(&app, &caller, group).await?)
        }
        _ => None,
    };
    let body = html! {
        h1 { "Uploads" }
        p.lead { "Items of uploads. The receiver acknowledges each item." }
        form.filters method="get" action="/uploads" {
            (filter_field("upload", "Upload", upload))
            (filter_field("group", "Group", group))
            (filter_choice("status", "Status", status, &names))
            button type="submit" { "Show" }
        }
        @if let Some(group_section) = group_section { (group_section) }
        section {
            @if rows.is_empty() { p.empty { "No items match." } } @else { div.scroll { table {
                thead { tr { th.number { "Id" } th { "Upload" } th { "Group" } th { "Name" } th { "Status" } th.number { "Bytes" } th.number { "Attempts" } th { "Changed" } th { "Reason" } } }
                tbody { @for item in &rows { tr {
                    td.number { a href=(format!("/uploads/{}", item.id)) { (item.id) } }
                    td.text { (item.upload) }
                    td.text { a href=(group_address(&item.upload, &item.group)) { (item.group) } }
                    td.text { (item.name) }
                    td { (pill(item.status)) }
                    td.number { (number(item.size_bytes)) }
                    td.number { (item.upload_attempts) }
                    td { (when_some(Some(&item.updated_at), now)) }
                    td.text { (excerpt(item.rejection_reason.as_deref().unwrap_or_default())) }
                } } }
            } } }
            (more(next))
        }
    };
    Ok(DashboardPage::new(NavSection::Uploads, "Uploads", body).render(&app, &caller))
}

fn group_address(upload: &str, group: &str) -> String {
    address("/uploads", &[("upload", Some(upload)), ("group", Some(group))])
}

/// Counts and actions of a group.
async fn this_group(app: &App, caller: &Caller, group: ItemGroup) -> PageResult<Markup> {
    let ItemGroup { upload, group: name } = group.clone();
    let view = group_view(app, group).await?;
    let fields = [("upload", Some(upload.as_str())), ("group", Some(name.as_str()))];
    let sendable = view.pending > 0 && view.sending_since.is_none();
    Ok(html! {
        section {
            h2 { "Group" }
            p {
                (number(view.uploaded)) " of " (number(view.total)) " are uploaded, "
                (number(view.pending)) " pending, " (number(view.upload_giveup)) " given up."
                @if let Some(since) = &view.sending_since {
                    " Send started " (when_some(Some(since), app.ops.now())) "."
                }
            }
            @if may_act(caller) {
                div.actions {
                    @if sendable && app.group_sends.is_declared(&upload) {
                        (act_button("/uploads/send", &[("upload", &upload), ("group", &name)], "Send pending items"))
                    }
                    @if view.upload_giveup > 0 {
                        a href=(address("/uploads/preview", &fields)) { "Reset items that were given up …" }
                    }
                }
            }
        }
    })
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
) -> PageResult<Response> {
    let target = ExplainTarget::Unit(Unit::Item(ItemId(id)));
    let Some(Explanation::Item(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("there is no item {id}")));
    };
    let (item, now) = (&explanation.item, app.ops.now());
    let body = html! {
        h1 { "Item " (id) " " (pill(item.status)) }
        p.next { strong { "Next: " } (explanation.next.because) }
        @if may_act(&caller) && item.status == "upload_giveup" {
            section { h2 { "Actions" } (act_button("/uploads/reset", &[("id", &id.to_string())], "Reset")) }
        }
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Name" } dd { (item.name) }
                    dt { "Group" } dd { a href=(group_address(&item.upload, &item.group)) { (item.upload) " / " (item.group) } }
                    dt { "Content" } dd { (item.content_url) ", " (number(item.size_bytes)) " bytes" }
                    dt { "SHA-256" } dd { code { (item.sha256) } }
                    dt { "Rejected" } dd { (item.upload_attempts) " times, " (item.attempts_at_reset) " before the last reset" }
                    dt { "Changed" } dd { (when_some(Some(&item.updated_at), now)) }
                }
            }
            section.half { (json("Last rejection", item.rejection_reason.as_deref())) }
            section { h2 { "Attempts" } (attempts(&explanation.attempts, None, now)) }
            section { h2 { "Journal" } (journal(&explanation.journal, false, now)) }
        }
    };
    Ok(DashboardPage::new(NavSection::Uploads, format!("Item {id}"), body).render(&app, &caller))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ItemActionForm {
    id: Option<i64>,
    upload: Option<String>,
    group: Option<String>,
    token: Option<String>,
    reason: Option<String>,
}

impl ItemActionForm {
    fn action(&self, dry_run: bool) -> ItemActionRequest {
        let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
        ItemActionRequest {
            ids: self.id.into_iter().collect(),
            upload: text(&self.upload),
            group: text(&self.group),
            dry_run,
            token: text(&self.token),
            reason: text(&self.reason),
        }
    }

    fn fields(&self) -> [(&'static str, Option<&str>); 2] {
        [("upload", self.upload.as_deref()), ("group", self.group.as_deref())]
    }

    fn back(&self) -> String {
        match self.id {
            Some(id) => format!("/uploads/{id}"),
            None => address("/uploads", &self.fields()),
        }
    }
}

pub(super) async fn preview_action(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(form): QueryParams<ItemActionForm>,
) -> PageResult<Response> {
    let changes = change_items(&app, &caller, ItemAction::Reset, form.action(true)).await?;
    let title = "Reset items?";
    let body = preview(title, &changes, "/uploads/reset", &form.fields(), &form.back());
    Ok(DashboardPage::new(NavSection::Uploads, title, body).not_live().render(&app, &caller))
}

pub(super) async fn send(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(form): Form<ItemActionForm>,
) -> PageResult<Response> {
    let name = |value: &Option<String>| value.clone().unwrap_or_default();
    let group = ItemGroup { upload: name(&form.upload), group: name(&form.group) };
    let started = send_group(&app, &caller, group, given(form.reason.as_deref())).await?;
    let body = html! {
        h1 { "Sending" }
        section {
            p { "Sending " (number(started.pending)) " items. The list shows the result of each." }
            p { a href=(form.back()) { "Show the items" } }
        }
    };
    Ok(DashboardPage::new(NavSection::Uploads, "Uploads", body).not_live().render(&app, &caller))
}

pub(super) async fn act(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(form): Form<ItemActionForm>,
) -> PageResult<Response> {
    let changes = change_items(&app, &caller, ItemAction::Reset, form.action(false)).await?;
    let body = done("Reset: done", &changes, &form.back());
    Ok(DashboardPage::new(NavSection::Uploads, "Uploads", body).not_live().render(&app, &caller))
}
