//! Items of uploads.

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use redrive_core::{ItemId, ItemStatus, Unit};
use redrive_ops::{ExplainTarget, Explanation, views::OverviewView};
use redrive_store::{ItemGroup, ItemRecord, Selection, UnitKind};
use serde::Deserialize;

use super::{
    PageResult,
    causes::cause_field,
    layout::{DashboardPage, NavSection, may_act},
    notice::Notice,
    parts::{
        act_button, address, attempts, given, json, number, pill, unit_journal, when, when_text,
    },
    place::{self, place_link},
    resource::{Listed, bulk_links, counted_by_state, selected_actions, unit_actions},
};
use crate::{
    api::{ActivityQuery, SendRequest, group_view, item_view, replace_item, send_group},
    app::{App, AppState},
    extract::{FileForm, Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

impl Listed for ItemRecord {
    const PATH: &'static str = "/uploads";
    const SECTION: NavSection = NavSection::Uploads;
    const TITLE: &'static str = "Uploads";
    const LEAD: &'static str = "Items of uploads. The receiver acknowledges each item.";
    const BEGIN: (&'static str, &'static str) =
        ("No items yet. Add files", "redrive uploads add --upload NAME --group NAME FILE...");
    const BULK: fn(&Selection, &str) -> Markup = bulk_links::<Self>;
    const SELECTED: Option<fn(&str) -> Markup> = Some(selected_actions::<Self>);

    fn address(id: &ItemId) -> String {
        format!("/uploads/{id}")
    }

    fn own_cell(&self, heading: &str) -> Option<Markup> {
        let ItemGroup { upload, group } = &self.group;
        match heading {
            "upload" => Some(place_link(UnitKind::Item, upload)),
            "group" => Some(html! { a href=(group_address(upload, group)) { (group) } }),
            _ => None,
        }
    }

    fn counted(overview: &OverviewView, selection: &Selection) -> Option<u64> {
        counted_by_state(overview, "item", selection)
    }

    async fn above(app: &App, caller: &Caller, selection: &Selection) -> PageResult<Markup> {
        match selection.upload.clone().zip(selection.group.clone()) {
            Some((upload, group)) => this_group(app, caller, ItemGroup { upload, group }).await,
            None => Ok(html! {}),
        }
    }
}

fn group_address(upload: &str, group: &str) -> String {
    address("/uploads", [("upload", upload), ("group", group)])
}

/// Counts and actions of a group.
async fn this_group(app: &App, caller: &Caller, group: ItemGroup) -> PageResult<Markup> {
    let ItemGroup { upload, group: name } = group.clone();
    if app.ops.store().item_counts(&group).await?.total() == 0 {
        return Ok(html! {});
    }
    let of = group.clone();
    let view = group_view(app, group).await?;
    let sendable = view.pending > 0
        && view.sending_since.is_none()
        && app.group_sends.is_declared(&upload)
        && may_act(caller);
    let early = match sendable {
        true => app.group_sends.early_items(&of).await?,
        false => None,
    };
    Ok(html! {
        section {
            h2 { "Group" }
            p {
                (number(view.uploaded)) " of " (number(view.total)) " are uploaded, "
                (number(view.pending)) " pending, " (number(view.upload_giveup)) " given up."
                @if let Some(since) = &view.sending_since {
                    " Send started " (when_text(since, app.ops.now())) "."
                }
            }
            @if sendable {
                div.actions {
                    @if let Some(early) = early {
                        p { (early) "; sending now spends an attempt." }
                        (act_button("/uploads/send", &[("upload", &upload), ("group", &name), ("now", "true")], "Send pending items now"))
                    } @else {
                        (act_button("/uploads/send", &[("upload", &upload), ("group", &name)], "Send pending items"))
                    }
                }
            }
        }
    })
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<ActivityQuery>,
) -> PageResult<Response> {
    // The pages of uploads and of items share a path.
    let Ok(id) = id.parse::<i64>() else {
        return place::show(&app, &caller, (UnitKind::Item, NavSection::Uploads), id, &query).await;
    };
    let target = ExplainTarget::Unit(Unit::Item(ItemId(id)));
    let Some(Explanation::Item(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("there is no item {id}")));
    };
    let (item, now) = (&explanation.item, app.ops.now());
    let body = html! {
        h1 { "Item " (id) " " (pill(item.status.name())) }
        p.next { strong { "Next: " } (explanation.next.because) }
        (unit_actions(&caller, item, replace_form(item)))
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Name" } dd { (item.name) }
                    dt { "Group" } dd { (place_link(UnitKind::Item, &item.group.upload)) " / " a href=(group_address(&item.group.upload, &item.group.group)) { (item.group.group) } }
                    dt { "Content" } dd { (item.content_url) ", " (number(item.size_bytes)) " bytes" }
                    dt { "SHA-256" } dd { code { (item.sha256) } }
                    dt { "Rejected" } dd { (item.upload_attempts) " times, " (item.attempts_at_reset) " before the last reset" }
                    (cause_field(item.fingerprint.as_deref()))
                    dt { "Changed" } dd { (when(item.updated_at, now)) }
                }
            }
            section.half { (json("Last rejection", item.rejection_reason.as_deref())) }
            section { h2 { "Attempts" } (attempts(&explanation.attempts, None, None, now)) }
            (unit_journal(&explanation.journal, may_act(&caller).then_some(("/uploads", &id.to_string())), now))
        }
    };
    Ok(DashboardPage::new(NavSection::Uploads, format!("Item {id}"), body).render(&app, &caller))
}

/// A form for a repaired file; an acknowledged item is never replaced.
fn replace_form(item: &ItemRecord) -> Markup {
    let is_open = matches!(item.status, ItemStatus::Pending | ItemStatus::UploadGiveup);
    html! { @if is_open {
        details.edit {
            summary { "Replace the content …" }
            form method="post" enctype="multipart/form-data" action=(format!("/uploads/{}/replace", item.id)) {
                label { span { "Reason" } input type="text" name="reason" maxlength="500"; }
                label { span { "File" } input type="file" name="file" required; }
                button type="submit" { "Replace" }
            }
        }
    } }
}

/// Gives an item the content of a file, and shows the item again.
pub(super) async fn replace(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    FileForm { file, reason }: FileForm,
) -> PageResult<Response> {
    let item = item_view(&app, ItemId(id)).await?;
    let by = app.operator(&caller, given(reason.as_deref()));
    replace_item(&app, &item, file, &by).await?;
    Ok(Redirect::to(&format!("/uploads/{id}")).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendForm {
    upload: String,
    group: String,
    #[serde(default)]
    now: bool,
    reason: Option<String>,
}

pub(super) async fn send(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(form): Form<SendForm>,
) -> PageResult<Response> {
    let back = group_address(&form.upload, &form.group);
    let group = ItemGroup { upload: form.upload, group: form.group };
    let reason = given(form.reason.as_deref()).map(str::to_owned);
    let request = SendRequest { now: form.now, reason };
    let started = send_group(&app, &caller, group, request).await?;
    Ok(Notice::new("send", started.pending, 0).redirect(&back))
}
