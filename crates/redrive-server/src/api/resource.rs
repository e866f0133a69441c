//! Lists, units and actions of every resource.

use std::sync::Arc;

use axum::{
    Extension, Json as Answer, Router,
    http::{HeaderName, header},
    response::AppendHeaders,
    routing::{get, post},
};
use redrive_core::PlanSettings;
use redrive_ops::{BulkAction, ChangeRequest, Changeable, Resource, UnitAction};
use redrive_store::PageLimit;
use serde_json::Value;

use super::{
    bulk::{BulkMode, BulkOutcome, act_on_all, nothing_matches},
    page::{ListPage, PageBuilder},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    params::{OF_LISTS, OF_LISTS_WITH_DATA, Pairs, Params, of_action, of_json},
    problem::ProblemDetails,
    problem_kind::ProblemKind,
};

/// The routes of a resource that is listed and shown by id.
pub(super) fn listed_and_shown<R: Resource>(path: &str) -> Router<Arc<App>> {
    Router::new().route(path, get(list::<R>)).route(&format!("{path}/{{id}}"), get(show::<R>))
}

/// The routes of the actions of a resource.
pub(super) fn changeable<R: Changeable>(path: &'static str) -> Router<Arc<App>> {
    let act = |name: &'static str| {
        post(move |app: AppState, caller: Extension<Caller>, Json(body): Json<Value>| async move {
            let params = Params::<R>::read(&of_json(body)?, &of_action::<R>(name))?;
            let outcome = change(&app, &caller, path, name, params).await?;
            Ok::<_, ProblemDetails>((outcome.status(), plan_address(&outcome), Answer(outcome)))
        })
    };
    let names = R::actions().map(|action| action.name);
    names.fold(Router::new(), |router, name| router.route(&format!("{path}/{name}"), act(name)))
}

pub(super) async fn list<R: Resource>(
    app: AppState,
    QueryParams(pairs): QueryParams<Pairs>,
) -> Result<Answer<ListPage<R>>, ProblemDetails> {
    let others = if R::HAS_DATA { OF_LISTS_WITH_DATA } else { OF_LISTS };
    let params = Params::<R>::read(&pairs, others)?;
    list_page(&app, &params).await.map(Answer)
}

/// A page of rows, bounded in rows and bytes.
pub(super) async fn list_page<R: Resource>(
    app: &App,
    params: &Params<R>,
) -> Result<ListPage<R>, ProblemDetails> {
    let mut page = PageBuilder::new(params.limit, params.after.clone())?;
    while let Some((after, rows)) = page.next_read() {
        let limit = PageLimit { rows, with_data: params.with_data, order: R::ORDER };
        let found = R::page(&app.ops, &params.selection, after.as_ref(), limit).await?;
        page.add(found.rows, found.has_more, R::id, |row| row);
    }
    Ok(page.page())
}

async fn show<R: Resource>(
    app: AppState,
    PathParams(id): PathParams<String>,
) -> Result<Answer<R>, ProblemDetails> {
    let missing = || ProblemDetails::not_found(format!("there is no {} {id}", R::NOUN));
    let id = id.parse().map_err(|_| missing())?;
    R::by_id(&app.ops, &[id]).await?.pop().map(Answer).ok_or_else(missing)
}

/// Does what is asked, or says what would be done.
pub(crate) async fn change<R: Changeable>(
    app: &App,
    caller: &Caller,
    path: &str,
    name: &str,
    params: Params<R>,
) -> Result<BulkOutcome, ProblemDetails> {
    let declared = R::action(name).ok_or_else(|| {
        let what = format!("unknown {} action {name:?}", R::NOUN);
        let names: Vec<&str> = R::actions().map(|action| action.name).collect();
        ProblemDetails::not_found(what).allowed(names.join(", "))
    })?;
    let action = declared.with(&params.options).map_err(ProblemDetails::bad_request)?;
    let by_id = !params.ids.is_empty();
    let selection = &params.selection;
    let is_filtered = !selection.is_empty() || params.names_state || params.all;
    if by_id && is_filtered {
        let what = "`ids` excludes filters; nothing was changed";
        return Err(ProblemDetails::bad_request(what).allowed("either `ids`, or filters, or `all`"));
    }
    if !by_id && !is_filtered {
        let what = format!("no {}s are selected; nothing was changed", R::NOUN);
        return Err(ProblemDetails::bad_request(what).allowed("either `ids`, or filters, or `all`"));
    }
    let flags = params.fields().into_iter().filter(|(_, value)| value == "true");
    let request = ChangeRequest {
        by: &app.operator(caller, params.reason.as_deref()),
        dry_run: params.dry_run,
        command: format!("api {} {name}", path.trim_start_matches("/v1/").trim_start_matches('/')),
        flags: flags.map(|(name, _)| name.to_owned()).collect(),
        selection: params.selection.clone(),
        options: params.options.clone(),
    };
    let mut ids = params.ids.clone();
    ids.extend(R::named(&request.selection));
    let plan_action = match &action {
        UnitAction::Own(own) if ids.is_empty() => R::plan_action(*own, &request.options),
        _ => None,
    };
    let settings = params.apply.settings()?;
    let mode = match (params.dry_run, params.keep) {
        (true, false) => BulkMode::DryRun,
        (false, true) => BulkMode::Keep,
        (false, false) => BulkMode::Apply,
        (true, true) => {
            let what = "`dry_run` and `keep` exclude each other; nothing was changed";
            return Err(ProblemDetails::bad_request(what));
        }
    };
    let outcome = if let Some(action) = plan_action {
        let bulk = BulkAction { action, selection: &request.selection, settings, by: request.by };
        act_on_all(app, &bulk, mode).await
    } else if params.keep || settings != PlanSettings::default() {
        let what = "a plan is made for filters, and not for this action";
        Err(ProblemDetails::bad_request(what))
    } else {
        if ids.is_empty() {
            ids = app.ops.in_states::<R>(declared.states, &request.selection, usize::MAX).await?;
        }
        ids.sort_unstable();
        ids.dedup();
        apply::<R>(app, &action, &request, &ids).await
    };
    match outcome {
        Err(none) if none.has_kind(ProblemKind::NotPossible) => {
            let waiting = app.ops.waiting_matches(declared, &request.selection).await?;
            Err(match waiting {
                Some(waiting) => none.with_detail(waiting).allowed("the state `waiting`"),
                None => none,
            })
        }
        outcome => outcome,
    }
}

/// Changes units one after the other, or says what would be done.
pub(super) async fn apply<R: Changeable>(
    app: &App,
    action: &UnitAction<R::Action>,
    request: &ChangeRequest<'_>,
    ids: &[R::Id],
) -> Result<BulkOutcome, ProblemDetails> {
    if ids.is_empty() {
        return Err(nothing_matches());
    }
    let (changes, written) = app.ops.outcomes::<R>(action, request, ids).await;
    if let Err(error) = written {
        let done = format!("{} of {} {}s were processed before", changes.len(), ids.len(), R::NOUN);
        return Err(ProblemDetails::from(error).with_detail(done));
    }
    Ok(BulkOutcome::new(request.dry_run, changes))
}

pub(super) type PlanAddress = AppendHeaders<Option<(HeaderName, String)>>;

/// Where a plan that is not done is found.
pub(super) fn plan_address(outcome: &BulkOutcome) -> PlanAddress {
    let plan = outcome.plan.filter(|_| outcome.is_open);
    AppendHeaders(plan.map(|id| (header::LOCATION, format!("/v1/plans/{id}"))))
}
