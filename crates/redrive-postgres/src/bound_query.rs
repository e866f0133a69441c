//! Queries with named parameters.
//!
//! A query writes `:name` where a value goes. The compiler replaces the names by `$1`, `$2`, … in the order
//! of their first use and checks every call site: [`bind!`](crate::bound_query::bind) names each value, and
//! a name that is missing, unknown or bound twice does not compile. At run time a call only puts its values
//! into the order of the numbers; no text is read or built.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the compiler runs this code, or has checked its indexes"
)]

use tokio_postgres::types::ToSql;

/// A query whose parameters have names.
#[derive(Debug)]
pub struct SqlQuery {
    name: &'static str,
    sql: &'static str,
    parameters: &'static [&'static str],
}

impl SqlQuery {
    pub(crate) const fn new(
        name: &'static str,
        sql: &'static str,
        parameters: &'static [&'static str],
    ) -> Self {
        Self { name, sql, parameters }
    }

    /// The name of its file, without `.sql`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The text as the server gets it, with numbered parameters.
    pub const fn sql(&self) -> &'static str {
        self.sql
    }

    /// The names of the parameters: `$1` is the first.
    pub const fn parameters(&self) -> &'static [&'static str] {
        self.parameters
    }
}

pub(crate) type SqlValue<'a> = &'a (dyn ToSql + Sync);

/// Where a call site has the value of a parameter: the group of values, and the place in the group.
pub(crate) type Slot = (usize, usize);

/// A query with its values. Made by [`bind!`](crate::bound_query::bind).
#[derive(Clone, Copy)]
pub(crate) struct BoundQuery<'a> {
    pub(crate) query: &'static SqlQuery,
    pub(crate) slots: &'static [Slot],
    pub(crate) values: &'a [&'a [SqlValue<'a>]],
}

impl BoundQuery<'_> {
    /// The values in the order of the query's numbers.
    pub(crate) fn ordered_values(&self) -> Vec<SqlValue<'_>> {
        self.ordered(self.values)
    }

    /// Something about each value, which is grouped as the values are, in the order of the numbers.
    pub(crate) fn ordered<T: Clone>(&self, groups: &[&[T]]) -> Vec<T> {
        self.slots.iter().map(|&(group, place)| groups[group][place].clone()).collect()
    }
}

/// Declares a query: its name, and its text with named parameters.
macro_rules! sql_query {
    ($name:expr, $text:expr) => {{
        use $crate::bound_query::{self, NumberedSql, SqlQuery};

        const TEXT: &str = $text;
        const NUMBERED: NumberedSql<{ bound_query::room(TEXT) }> = NumberedSql::new(TEXT);
        const SQL: [u8; NUMBERED.length] = bound_query::first(&NUMBERED.bytes);
        const PARAMETERS: [&str; NUMBERED.count] = bound_query::first(&NUMBERED.names);
        SqlQuery::new($name, bound_query::text(&SQL), &PARAMETERS)
    }};
}
pub(crate) use sql_query;

/// Binds values to the parameters of a query by name, checked by the compiler:
///
/// ```text
/// bind!(queries::MOVE_SOURCE, id => &id, source_lines => &lines, …)
/// bind!(queries::CANCEL_RUNS, id => &ids, …, ..JournalColumns(&journal))
/// bind!(match kind { Leased::Run => queries::A, Leased::Group => queries::B }, id => &ids)
/// ```
///
/// `..` binds all columns of a struct that [`columns!`](crate::bound_query::columns) declares. Where the
/// values must outlive the expression, `bind!(QUERY, [Columns, …] => &values)` binds groups of them.
macro_rules! bind {
    (
        match $on:ident { $($pattern:pat => $query:path),+ $(,)? }
        $(, $name:ident => $value:expr)* $(, ..$group:ident($columns:expr))* $(,)?
    ) => {{
        const NAMES: &[&[&str]] = &[&[$(stringify!($name)),*], $(&$group::NAMES),*];
        $crate::bound_query::BoundQuery {
            query: match $on { $($pattern => &$query,)+ },
            slots: match $on {
                $($pattern => const {
                    &$crate::bound_query::slots::<{ $query.parameters().len() }>(&$query, NAMES)
                },)+
            },
            values: &[&[$($value),*], $(&$columns.values()),*],
        }
    }};
    ($query:path, [$($group:ident),+] => $values:expr) => {
        $crate::bound_query::BoundQuery {
            query: &$query,
            slots: const {
                &$crate::bound_query::slots::<{ $query.parameters().len() }>(
                    &$query,
                    &[$(&$group::NAMES),+],
                )
            },
            values: $values,
        }
    };
    ($query:path $(, $name:ident => $value:expr)* $(, ..$group:ident($columns:expr))* $(,)?) => {
        $crate::bound_query::BoundQuery {
            query: &$query,
            slots: const {
                &$crate::bound_query::slots::<{ $query.parameters().len() }>(
                    &$query,
                    &[&[$(stringify!($name)),*], $(&$group::NAMES),*],
                )
            },
            values: &[&[$($value),*], $(&$columns.values()),*],
        }
    };
}
pub(crate) use bind;

/// Declares columns of a batch, each an array or a value that is bound under the name of its field.
macro_rules! columns {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident<$lifetime:lifetime> { $($field:ident: $type:ty,)+ }
    ) => {
        $(#[$attribute])*
        $visibility struct $name<$lifetime> { $($field: $type,)+ }

        impl<$lifetime> $name<$lifetime> {
            pub(crate) const NAMES: [&'static str; { [$(stringify!($field)),+].len() }] =
                [$(stringify!($field)),+];

            pub(crate) fn values(
                &self,
            ) -> [$crate::bound_query::SqlValue<'_>; { [$(stringify!($field)),+].len() }] {
                [$(&self.$field),+]
            }
        }
    };
}
pub(crate) use columns;

/// Finds the value of each parameter among named groups of values.
pub(crate) const fn slots<const N: usize>(query: &SqlQuery, groups: &[&[&str]]) -> [Slot; N] {
    let mut slots = [(usize::MAX, 0); N];
    let mut group = 0;
    while group < groups.len() {
        let mut place = 0;
        while place < groups[group].len() {
            let Some(number) = position(query.parameters, groups[group][place]) else {
                panic!("the query has no parameter of this name");
            };
            assert!(slots[number].0 == usize::MAX, "a parameter is bound twice");
            slots[number] = (group, place);
            place += 1;
        }
        group += 1;
    }
    let mut number = 0;
    while number < N {
        assert!(slots[number].0 != usize::MAX, "a parameter of the query is not bound");
        number += 1;
    }
    slots
}

/// The first elements of a longer array.
pub(crate) const fn first<T: Copy, const N: usize>(of: &[T]) -> [T; N] {
    match of.first_chunk() {
        Some(first) => *first,
        None => panic!("the length was measured"),
    }
}

pub(crate) const fn text(numbered: &[u8]) -> &str {
    match str::from_utf8(numbered) {
        Ok(text) => text,
        Err(_) => panic!("names are replaced by ASCII"),
    }
}

const MAX_PARAMETERS: usize = 64;

/// Room for a text with numbers: a number is seldom longer than its name.
pub(crate) const fn room(text: &str) -> usize {
    text.len() + MAX_PARAMETERS
}

/// A text with numbers for names, made in one pass: the compiler is slow at this.
pub(crate) struct NumberedSql<const ROOM: usize> {
    pub(crate) bytes: [u8; ROOM],
    pub(crate) length: usize,
    pub(crate) names: [&'static str; MAX_PARAMETERS],
    pub(crate) count: usize,
}

impl<const ROOM: usize> NumberedSql<ROOM> {
    pub(crate) const fn new(text: &'static str) -> Self {
        let mut numbered =
            Self { bytes: [0; ROOM], length: 0, names: [""; MAX_PARAMETERS], count: 0 };
        let mut from = 0;
        while let Some((start, end)) = next_name(text.as_bytes(), from) {
            // Up to the colon.
            numbered.push(text.as_bytes().split_at(start - 1).0.split_at(from).1);
            let number = numbered.number(text.split_at(end).0.split_at(start).1);
            let digits = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            numbered.push(b"$");
            numbered.push(if number < 10 { digits.split_at(1).1 } else { &digits });
            from = end;
        }
        numbered.push(text.as_bytes().split_at(from).1);
        numbered
    }

    const fn push(&mut self, bytes: &[u8]) {
        let (_, rest) = self.bytes.split_at_mut(self.length);
        rest.split_at_mut(bytes.len()).0.copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The number of a name: a new one at its first use.
    const fn number(&mut self, name: &'static str) -> usize {
        if let Some(place) = position(self.names.split_at(self.count).0, name) {
            return place + 1;
        }
        self.names[self.count] = name;
        self.count += 1;
        self.count
    }
}

/// Where the next `:name` has its name. Comments, quoted text and casts (`::`) have none.
const fn next_name(sql: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    while at < sql.len() {
        let next = if at + 1 < sql.len() { sql[at + 1] } else { 0 };
        match (sql[at], next) {
            (b'-', b'-') => at = after(sql, at, b'\n'),
            (b'\'', _) => at = after(sql, at + 1, b'\''),
            (b':', b':') => at += 2,
            (b':', b'a'..=b'z') => {
                let mut end = at + 1;
                while end < sql.len() && matches!(sql[end], b'a'..=b'z' | b'0'..=b'9' | b'_') {
                    end += 1;
                }
                return Some((at + 1, end));
            }
            _ => at += 1,
        }
    }
    None
}

const fn after(sql: &[u8], from: usize, stop: u8) -> usize {
    let mut at = from;
    while at < sql.len() && sql[at] != stop {
        at += 1;
    }
    at + 1
}

const fn position(names: &[&str], name: &str) -> Option<usize> {
    let mut number = 0;
    while number < names.len() {
        if equal(names[number].as_bytes(), name.as_bytes()) {
            return Some(number);
        }
        number += 1;
    }
    None
}

const fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::SqlQuery;

    const QUERY: SqlQuery = sql_query!(
        "example",
        "-- Not :this. \n SELECT ':nor_this', :b::text[], :a, :b FROM t WHERE x::text = 'é'"
    );

    #[test]
    fn names_become_numbers_in_the_order_of_their_first_use() {
        assert_eq!(QUERY.parameters(), ["b", "a"]);
        let expected =
            "-- Not :this. \n SELECT ':nor_this', $1::text[], $2, $1 FROM t WHERE x::text = 'é'";
        assert_eq!(QUERY.sql(), expected);
    }

    #[test]
    fn more_than_nine_parameters_get_two_digits() {
        const LONG: SqlQuery = sql_query!("long", ":a :b :c :d :e :f :g :h :i :j :k :a :k");
        assert_eq!(LONG.sql(), "$1 $2 $3 $4 $5 $6 $7 $8 $9 $10 $11 $1 $11");
    }

    #[test]
    fn values_are_sent_in_the_order_of_the_query() {
        let bound = bind!(QUERY, a => &1_i64, b => &"two");
        let sent: Vec<String> =
            bound.ordered_values().iter().map(|value| format!("{value:?}")).collect();
        assert_eq!(sent, ["\"two\"", "1"]);
    }
}
