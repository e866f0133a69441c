//! Selections in SQL: which column a term of each kind is about.

use crate::{PageOrder, Selection, SelectionTerm as Term, StateFilter, TermValue};

/// How a kind of unit matches terms: conditions in SQL, with `{}` for the value. Tables and columns have the same names
/// in every database; what a database writes differently is in [`SqlDialect`].
#[derive(Debug, Clone, Copy)]
pub struct SelectionSql {
    terms: &'static [(Term, &'static str)],
    status: &'static str,
    /// Where units are read from, for queries with a `{runs}`: all of them, and those with a status or a failure. And states
    /// that no status tells.
    rows: &'static str,
    stated_rows: &'static str,
    states: &'static [StateSql],
    /// What is true of all units with a status, and names a partial index for a database that does not know.
    implied: &'static [(&'static str, &'static str)],
    /// True while a retry is planned.
    waiting: &'static str,
    failure: Option<FailureSql>,
    /// Of queries with `{beyond}` and `{order}`.
    order: PageOrder,
}

/// A state that is known by other tables than that of the units.
#[derive(Debug)]
pub struct StateSql {
    pub status: &'static str,
    pub condition: &'static str,
    /// Rows that have all units in this state, if the table of the units would have too many others.
    pub rows: Option<&'static str>,
}

/// The columns of the last failure of a unit.
#[derive(Debug, Clone, Copy)]
struct FailureSql {
    class: &'static str,
    code: &'static str,
    fingerprint: &'static str,
    message: &'static str,
    at: &'static str,
    /// True while a unit waits or is stuck: the predicate of the index on causes.
    open: &'static str,
}

impl FailureSql {
    fn condition(&self, term: Term) -> Option<String> {
        Some(match term {
            Term::Class => format!("{} = {{}}", self.class),
            Term::Code => format!("{} = {{}}", self.code),
            Term::Cause => format!("{} = {{}}", self.fingerprint),
            Term::Error => format!("{{position}}({}, {{}}) > 0", self.message),
            Term::FailedSince => format!("{} >= {{}}", self.at),
            Term::FailedUntil => format!("{} < {{}}", self.at),
            _ => return None,
        })
    }
}

/// How a database writes a selection.
#[derive(Debug, Clone, Copy)]
pub struct SqlDialect {
    /// The position of one text in another, 0 if it has none.
    pub position: &'static str,
    /// The name of a sample's stage.
    pub stage_name: &'static str,
    /// What numbers of parameters begin with.
    pub parameter: char,
}

impl SelectionSql {
    pub const RUNS: Self = Self {
        terms: &[(Term::Queue, "queue = {}"), (Term::Category, "category = {}")],
        status: "status",
        rows: "",
        stated_rows: "",
        states: &[],
        implied: &[("processing", "lease_owner IS NOT NULL")],
        waiting: "next_retry_at IS NOT NULL",
        failure: Some(FailureSql {
            class: "error_class",
            code: "error_code",
            fingerprint: "fingerprint",
            message: "error_message",
            at: "last_failure_at",
            open: "status = 'error'",
        }),
        order: PageOrder::Ascending,
    };

    pub const ITEMS: Self = Self {
        terms: &[(Term::Upload, "upload = {}"), (Term::Group, "group_name = {}")],
        status: "status",
        rows: "",
        stated_rows: "",
        states: &[],
        implied: &[],
        waiting: "",
        failure: Some(FailureSql {
            class: "error_class",
            code: "error_code",
            fingerprint: "fingerprint",
            message: "rejection_reason",
            at: "last_failure_at",
            open: "fingerprint IS NOT NULL",
        }),
        order: PageOrder::Ascending,
    };

    pub const PARTITIONS: Self = Self {
        terms: &[
            (Term::Source, "state.source = {}"),
            (Term::CustomerId, "state.customer_id = {}"),
            (Term::QueryName, "state.query_name = {}"),
            (Term::Since, "state.logical_date >= {}"),
            (Term::Until, "state.logical_date <= {}"),
        ],
        status: "state.status",
        rows: "",
        stated_rows: "",
        states: &[],
        implied: &[],
        waiting: "",
        failure: Some(FailureSql {
            class: "failure.class",
            code: "failure.code",
            fingerprint: "failure.fingerprint",
            message: "state.error_message",
            at: "failure.failed_at",
            open: "state.status = 'failed'",
        }),
        order: PageOrder::Ascending,
    };

    pub const PIPELINE_RUNS: Self = Self {
        terms: &[(Term::Pipeline, "pipeline = {}")],
        status: "status",
        rows: "",
        stated_rows: "",
        states: &[],
        implied: &[],
        waiting: "",
        failure: None,
        order: PageOrder::Ascending,
    };

    pub const SAMPLES: Self = Self {
        terms: &[
            (Term::Pipeline, "run.pipeline = {}"),
            (Term::Run, "samples.run_id = {}"),
            (
                Term::Stage,
                "CASE WHEN samples.status = 'dlq' AND samples.attempts = 0 THEN 'source' ELSE {stage_name} END = {}",
            ),
        ],
        status: "samples.status",
        rows: "",
        stated_rows: "",
        states: &[],
        implied: &[],
        waiting: "samples.next_retry_at IS NOT NULL",
        failure: Some(FailureSql {
            class: "samples.error_class",
            code: "samples.error_code",
            fingerprint: "samples.fingerprint",
            message: "samples.error_message",
            at: "samples.last_failure_at",
            open: "samples.fingerprint IS NOT NULL AND (samples.status = 'dlq' OR samples.next_retry_at IS NOT NULL)",
        }),
        order: PageOrder::Ascending,
    };

    pub const fn stored_in(
        self,
        rows: &'static str,
        stated_rows: &'static str,
        states: &'static [StateSql],
    ) -> Self {
        Self { rows, stated_rows, states, ..self }
    }

    pub const fn in_order(self, order: PageOrder) -> Self {
        Self { order, ..self }
    }

    /// Puts the conditions of a selection in the place of `{selection}`, and its values after the parameters that the
    /// query has. Only what is given is compared, so that an index serves it.
    pub fn complete(
        &self,
        query: &str,
        selection: &Selection,
        dialect: SqlDialect,
        parameters: usize,
    ) -> (String, Vec<TermValue>) {
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        let is_stated = selection.state.is_some() || selection.is_about_failures();
        let mut rows = if is_stated { self.stated_rows } else { self.rows };
        if let Some(StateFilter { status, waiting }) = selection.state {
            match self.states.iter().find(|state| state.status == status) {
                Some(state) => {
                    conditions.push(state.condition.to_owned());
                    rows = state.rows.unwrap_or(rows);
                }
                None => {
                    // A literal, because partial indexes are chosen by it.
                    conditions.push(format!("{} = '{status}'", self.status));
                    let implied = self.implied.iter().filter(|(implies, _)| *implies == status);
                    conditions.extend(implied.map(|(_, condition)| (*condition).to_owned()));
                }
            }
            let waiting = waiting.filter(|_| !self.waiting.is_empty());
            conditions.extend(waiting.map(|waits| {
                if waits { self.waiting.to_owned() } else { format!("NOT ({})", self.waiting) }
            }));
        }
        let mut compare = |term: Term, condition: &str| {
            let Some(value) = selection.value(term) else { return };
            values.push(value);
            let parameter = format!("{}{}", dialect.parameter, parameters + values.len());
            conditions.push(condition.replace("{}", &parameter));
        };
        for (term, condition) in self.terms {
            compare(*term, condition);
        }
        if let Some(failure) = self.failure.as_ref().filter(|_| selection.is_about_failures()) {
            for term in Term::FAILURE {
                if let Some(condition) = failure.condition(term) {
                    compare(term, &condition);
                }
            }
            conditions.push(failure.open.to_owned());
        }
        let conditions =
            if conditions.is_empty() { "true".to_owned() } else { conditions.join(" AND ") };
        let (beyond, order) = match self.order {
            PageOrder::Ascending => (">", "ASC"),
            PageOrder::Descending => ("<", "DESC"),
        };
        let sql = query
            .replace("{selection}", &conditions)
            .replace("{beyond}", beyond)
            .replace("{order}", order)
            .replace("{runs}", rows)
            .replace("{stage_name}", dialect.stage_name)
            .replace("{position}", dialect.position);
        (sql, values)
    }
}
