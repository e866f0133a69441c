//! Claims of runs: promote what is due, look for older runs, and take the oldest that the gates let through.

use redrive_core::RunId;
use redrive_store::{
    Categories, ClaimGates, ClaimRequest, ClaimedRun, FromRow, LetThrough, ReadColumn, Result,
    UnitKind,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{bind, columns},
    claim_cursor::ClaimPosition,
    columns::{Micros, PostgresRow, read_rows},
    gates::{self, GateRequest},
    queries,
    session::Session,
};

const CLAIMING: &str = "claiming runs";

/// Due runs that one query promotes. If there are more, further queries follow; each commits by itself.
const MAX_PROMOTED: i64 = 10_000;

pub(crate) async fn claim_runs(
    store: &PostgresStore,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedRun>> {
    let nothing = matches!(&request.categories, Categories::Only(named) if named.is_empty());
    if nothing || request.limit == 0 {
        return Ok(Vec::new());
    }
    let mut session = store.session(CLAIMING).await?;
    if !ClaimGates::limits_open_keys(&request.gates)
        && let Some(claimed) = store.claim_as_open(&mut session, request).await?
    {
        return Ok(claimed);
    }
    let claimed = claim_behind_gates(store, &mut session, request).await?;
    redrive_store::failpoint!("postgres.claim.gated");
    Ok(claimed)
}

impl PostgresStore {
    /// Claims without a look at the keys of the gates, if all of them are open.
    async fn claim_as_open(
        &self,
        session: &mut Session,
        request: &ClaimRequest,
    ) -> Result<Option<Vec<ClaimedRun>>> {
        let mut active = self.claim_cursors.start_claim(request);
        let look = active.look_from_page;
        let Some(result) = claim(session, request, active.from, look, ClaimDepth::Shares).await?
        else {
            return Ok(None);
        };
        result.pages.inspect(|pages| active.saw_pages(*pages));
        let ClaimResult { mut promoted, runs: mut claimed, mut oldest, .. } = result;
        redrive_store::failpoint!("postgres.claim.committed");
        while promoted >= MAX_PROMOTED {
            promoted = promote(session, request).await?;
            self.claim_cursors.runs_became_ready_anywhere();
            if promoted < MAX_PROMOTED && claimed.len() < request.limit as usize {
                claimed.extend(claim_rest(session, request, claimed.len()).await?);
            }
        }
        if claimed.is_empty() {
            // Older runs may be ready, and other claims may have locked the oldest of every category while more
            // are behind them.
            active.restart();
            let look = active.look_from_page;
            let Some(further) =
                claim(session, request, active.from, look, ClaimDepth::Limit).await?
            else {
                return Ok(None);
            };
            further.pages.inspect(|pages| active.saw_pages(*pages));
            (claimed, oldest) = (further.runs, further.oldest);
        }
        active.finish(&claimed, oldest, request.limit);
        Ok(Some(claimed))
    }
}

/// Claims what the gates of the runs let through. Reads the index of ready runs from the start: a cursor knows nothing of
/// runs that were kept back.
async fn claim_behind_gates(
    store: &PostgresStore,
    session: &mut Session,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedRun>> {
    let promote = bind!(
        queries::PROMOTE_DUE_RUNS,
        queue => &request.queue,
        now => &Micros(request.now),
        limit => &MAX_PROMOTED,
    );
    let present = bind!(queries::READY_CATEGORIES, queue => &request.queue);
    let ClaimRequest { gates, owner, limit, now, .. } = request;
    let asked = GateRequest { gates, kind: UnitKind::Run, owner, limit: *limit, now: *now };
    let is_wanted = |category: &String| request.categories.among(category);
    let rows = asked.begin(store, session, &[promote]).await?.unwrap_or_default();
    let present = session.query(present).await?;
    let present = read_rows(&present, CLAIMING, |row| row.get())?;
    let claim = asked.look(store, session, rows, present, is_wanted).await?;
    let request = ClaimRequest { limit: claim.limit, ..request.clone() };
    let values = ClaimValues::of(&request, ClaimPosition::START, ClaimDepth::Shares);
    let query = bind!(
        queries::CLAIM_RUNS_OF,
        categories => &each(&claim.most, |(category, _)| category),
        most => &each(&claim.most, |(_, most)| i64::from(*most)),
        ..ClaimValues(values)
    );
    let mut runs = claimed_runs(&session.query(query).await?)?.0;
    let units =
        each(&runs, |run| LetThrough { id: run.id.0, epoch: run.epoch.0, key: &run.category });
    let passes = asked.commit(store, session, claim, &units).await?;
    for (run, pass) in runs.iter_mut().zip(passes) {
        run.pass = pass;
    }
    Ok(runs)
}

/// How many runs a claim locks in each of several categories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimDepth {
    /// The category's share of the oldest runs.
    Shares,
    /// The limit of the claim.
    Limit,
}

/// Promotes further due runs and returns their number.
async fn promote(session: &mut Session, request: &ClaimRequest) -> Result<i64> {
    let promote = bind!(
        queries::PROMOTE_DUE_RUNS,
        queue => &request.queue,
        now => &Micros(request.now),
        limit => &MAX_PROMOTED,
    );
    count(&session.query(promote).await?)
}

/// Claims as many runs as a request has left.
async fn claim_rest(
    session: &mut Session,
    request: &ClaimRequest,
    taken: usize,
) -> Result<Vec<ClaimedRun>> {
    let taken = u32::try_from(taken).unwrap_or(u32::MAX);
    let rest = ClaimRequest { limit: request.limit.saturating_sub(taken), ..request.clone() };
    let claimed = claim(session, &rest, ClaimPosition::START, None, ClaimDepth::Shares).await?;
    Ok(claimed.map(|claimed| claimed.runs).unwrap_or_default())
}

fn count(rows: &[Row]) -> Result<i64> {
    let counts: Vec<i64> = read_rows(rows, CLAIMING, |row| row.get())?;
    Ok(counts.into_iter().sum())
}

struct ClaimResult {
    promoted: i64,
    runs: Vec<ClaimedRun>,
    /// The oldest ready run, whether this claim took it or another one has locked it.
    oldest: Option<RunId>,
    /// Of the table of ready runs, if the claim has looked.
    pages: Option<i64>,
}

columns! {
    struct ClaimValues<'a> {
        queue: &'a str,
        limit: i64,
        owner: &'a str,
        lease_until: Micros,
        claimed_at: Micros,
        to_the_limit: bool,
        from_submitted_at: Micros,
        from_id: i64,
    }
}

impl<'a> ClaimValues<'a> {
    fn of(request: &'a ClaimRequest, from: ClaimPosition, depth: ClaimDepth) -> Self {
        Self {
            queue: &request.queue,
            limit: i64::from(request.limit),
            owner: &request.owner.0,
            lease_until: Micros(request.lease_until),
            claimed_at: Micros(request.now),
            to_the_limit: depth == ClaimDepth::Limit,
            from_submitted_at: Micros(from.submitted_at),
            from_id: from.id.0,
        }
    }
}

/// Promotes, looks for older runs and claims in one round trip, or in two if there are gates. `None` if one of these is not
/// open.
async fn claim(
    session: &mut Session,
    request: &ClaimRequest,
    from: ClaimPosition,
    look_from_page: Option<i64>,
    depth: ClaimDepth,
) -> Result<Option<ClaimResult>> {
    let promote = bind!(
        queries::PROMOTE_DUE_RUNS,
        queue => &request.queue,
        now => &Micros(request.now),
        limit => &MAX_PROMOTED,
    );
    let values = ClaimValues::of(request, from, depth);
    let most = vec![i64::from(request.limit); request.categories.named().len()];
    let claim = match &request.categories {
        Categories::All => bind!(queries::CLAIM_RUNS_ANY, ..ClaimValues(values)),
        Categories::Only(categories) => {
            bind!(queries::CLAIM_RUNS_OF, categories => categories, most => &most, ..ClaimValues(values))
        }
    };
    let named = match &request.categories {
        Categories::All => None,
        Categories::Only(categories) => Some(categories),
    };
    let look = bind!(
        queries::LOOK_FOR_OLDER_RUNS,
        from_page => &look_from_page,
        queue => &request.queue,
        categories => &named,
        from_submitted_at => &Micros(from.submitted_at),
        from_id => &from.id.0,
    );
    let mut queries = vec![promote];
    queries.extend(look_from_page.map(|_| look));
    let (begun, claimed) = if request.gates.is_empty() {
        queries.push(claim);
        let mut answers = session.transaction(&queries).await?;
        let claimed = answers.pop();
        (answers, claimed)
    } else {
        let names = gates::names(&request.gates);
        let share = bind!(queries::SHARE_GATES, name => &names);
        let shut = bind!(queries::SHUT_GATE_KEYS, name => &names);
        queries.extend([share, shut]);
        let mut begun = session.begin_all(&queries).await?;
        if begun.pop().is_some_and(|shut| !shut.is_empty()) {
            session.commit().await?;
            return Ok(None);
        }
        (begun, session.commit_all(&[claim]).await?.pop())
    };
    let (runs, oldest) = claimed_runs(&claimed.unwrap_or_default())?;
    let mut begun = begun.into_iter();
    let promoted = count(&begun.next().unwrap_or_default())?;
    let looked = begun.next().filter(|_| look_from_page.is_some()).unwrap_or_default();
    let pages: Vec<i64> = read_rows(&looked, CLAIMING, |row| row.get())?;
    Ok(Some(ClaimResult { promoted, runs, oldest, pages: pages.into_iter().next() }))
}

/// Also returns the oldest ready run.
fn claimed_runs(rows: &[Row]) -> Result<(Vec<ClaimedRun>, Option<RunId>)> {
    let mut oldest = None;
    let mut runs = Vec::with_capacity(rows.len());
    for row in rows {
        let row = &mut PostgresRow::new(row, CLAIMING);
        runs.push(ClaimedRun::from_row(row)?);
        let first: Option<i64> = row.get()?;
        oldest = first.map(RunId);
    }
    // RETURNING has no order.
    runs.sort_unstable_by_key(|run| (run.submitted_at, run.id));
    Ok((runs, oldest))
}
