//! Items of uploads.

use axum::{Extension, response::Response};
use maud::html;
use redrive_core::{ItemId, ItemStatus, Unit};
use redrive_desk::{Asked, Story, shown::ItemShown};
use redrive_store::ItemFilter;
use serde::Deserialize;

use super::{
    Shown,
    changed::{done, preview},
    layout::{Page, Place, may_act},
    parts::{
        act_button, address, attempts, excerpt, filter_choice, filter_field, given, journal, json,
        last_of, more, number, pill, when_some,
    },
};
use crate::{
    api::{ItemAction, named, reset_items},
    app::Shared,
    extract::{Form, Path, Query},
    guard::Visitor,
    problem::Problem,
};

const ROWS: u32 = 100;

/// Which items.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Asking {
    upload: Option<String>,
    group: Option<String>,
    status: Option<String>,
    after: Option<i64>,
}

/// The list.
pub(super) async fn list(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Query(asking): Query<Asking>,
) -> Shown<Response> {
    let (upload, group) = (given(asking.upload.as_deref()), given(asking.group.as_deref()));
    let status = given(asking.status.as_deref());
    let names = ItemStatus::ALL.map(ItemStatus::name);
    let filter = ItemFilter {
        upload: upload.map(str::to_owned),
        group: group.map(str::to_owned),
        status: named("status", status, ItemStatus::from_name, &names)?,
    };
    let after = ItemId(asking.after.unwrap_or(0));
    let page = app.desk.store().items_page(&filter, after, ROWS).await?;
    let last = last_of(&page, ROWS, |item| item.id.0);
    let rows: Vec<ItemShown> = page.into_iter().map(ItemShown::from).collect();
    let next = last.map(|last| {
        let asked = [("upload", upload), ("group", group), ("status", status)];
        let [one, two, three] = asked;
        address("/uploads", &[one, two, three, ("after", Some(&last))])
    });
    let now = app.desk.now();
    let look = upload.zip(group).map(|(upload, group)| {
        address("/uploads/preview", &[("upload", Some(upload)), ("group", Some(group))])
    });
    let body = html! {
        h1 { "Uploads" }
        p.lead { "Items of batches that half succeed, each acknowledged by itself." }
        form.filters method="get" action="/uploads" {
            (filter_field("upload", "Upload", upload))
            (filter_field("group", "Group", group))
            (filter_choice("status", "Status", status, &names))
            button type="submit" { "Show" }
        }
        @if let (Some(look), true) = (look, may_act(&visitor)) {
            section { h2 { "This group" } div.actions { a href=(look) { "Reset what was given up …" } } }
        }
        section {
            @if rows.is_empty() { p.empty { "No item matches." } } @else { div.scroll { table {
                thead { tr { th.number { "Id" } th { "Upload" } th { "Group" } th { "Name" } th { "Status" } th.number { "Bytes" } th.number { "Attempts" } th { "Changed" } th { "Reason" } } }
                tbody { @for item in &rows { tr {
                    td.number { a href=(format!("/uploads/{}", item.id)) { (item.id) } }
                    td.text { (item.upload) } td.text { (item.group) } td.text { (item.name) }
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
    Ok(Page::new(Place::Uploads, "Uploads", body).render(&app, &visitor))
}

/// One item.
pub(super) async fn show(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<i64>,
) -> Shown<Response> {
    let asked = Asked::Unit(Unit::Item(ItemId(id)));
    let Some(Story::Item(story)) = app.desk.story(&asked).await? else {
        return Err(Problem::not_found(format!("there is no item {id}")));
    };
    let (item, now) = (&story.item, app.desk.now());
    let body = html! {
        h1 { "Item " (id) " " (pill(item.status)) }
        p.next { strong { "Next: " } (story.next.because) }
        @if may_act(&visitor) && item.status == "upload_giveup" {
            section { h2 { "Actions" } (act_button("/uploads/reset", &[("id", &id.to_string())], "Reset: send it again")) }
        }
        div.grid {
            section.half {
                h2 { "What it is" }
                dl {
                    dt { "Name" } dd { (item.name) }
                    dt { "Group" } dd { a href=(address("/uploads", &[("upload", Some(&item.upload)), ("group", Some(&item.group))])) { (item.upload) " / " (item.group) } }
                    dt { "Content" } dd { (item.content_url) ", " (number(item.size_bytes)) " bytes" }
                    dt { "SHA-256" } dd { code { (item.sha256) } }
                    dt { "Rejected" } dd { (item.upload_attempts) " times, " (item.attempts_at_reset) " before the last reset" }
                    dt { "Changed" } dd { (when_some(Some(&item.updated_at), now)) }
                }
            }
            section.half { (json("Last rejection", item.rejection_reason.as_deref())) }
            section { h2 { "Attempts" } (attempts(&story.attempts, None, now)) }
            section { h2 { "Journal" } (journal(&story.journal, false, now)) }
        }
    };
    Ok(Page::new(Place::Uploads, format!("Item {id}"), body).render(&app, &visitor))
}

/// What is asked for by a button.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pressed {
    id: Option<i64>,
    upload: Option<String>,
    group: Option<String>,
    token: Option<String>,
    reason: Option<String>,
}

impl Pressed {
    fn action(&self, dry_run: bool) -> ItemAction {
        let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
        ItemAction {
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

/// What a reset of many would do.
pub(super) async fn look(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Query(pressed): Query<Pressed>,
) -> Shown<Response> {
    let changes = reset_items(&app, &visitor, pressed.action(true)).await?;
    let title = "Reset items?";
    let body = preview(title, &changes, "/uploads/reset", &pressed.fields(), &pressed.back());
    Ok(Page::new(Place::Uploads, title, body).still().render(&app, &visitor))
}

/// Does it.
pub(super) async fn act(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Form(pressed): Form<Pressed>,
) -> Shown<Response> {
    let changes = reset_items(&app, &visitor, pressed.action(false)).await?;
    let body = done("Reset: done", &changes, &pressed.back());
    Ok(Page::new(Place::Uploads, "Uploads", body).still().render(&app, &visitor))
}
