//! `schema.sql` is what the migrations make.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::scratch::Scratch;

const SCHEMA: &str = include_str!("../../schema.sql");

/// Everything a database declares, and what SQLite understood of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeclaredSchema {
    statements: BTreeMap<String, String>,
    columns: BTreeMap<String, Vec<String>>,
}

pub(crate) fn declared(connection: &Connection) -> DeclaredSchema {
    let listed = |sql: &str| -> Vec<Vec<String>> {
        let mut statement = connection.prepare(sql).unwrap();
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            let text = |n| row.get::<_, rusqlite::types::Value>(n);
            (0..width).map(|n| Ok(format!("{:?}", text(n)?))).collect()
        });
        rows.unwrap().map(Result::unwrap).collect()
    };
    let master = "SELECT type || ' ' || name || ' on ' || tbl_name, coalesce(sql, 'automatic')
                  FROM sqlite_master";
    let mut statement = connection.prepare(master).unwrap();
    let statements = statement
        .query_map([], |row| Ok((row.get(0)?, normalised(&row.get::<_, String>(1)?))))
        .unwrap();
    let mut columns = BTreeMap::new();
    for (kind, pragma) in [("table", "table_xinfo"), ("index", "index_xinfo")] {
        let names = format!("SELECT name FROM sqlite_master WHERE type = '{kind}'");
        let mut names = connection.prepare(&names).unwrap();
        for name in names.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap)
        {
            let rows = listed(&format!("SELECT * FROM pragma_{pragma}('{name}')"));
            columns.insert(name, rows.into_iter().map(|row| row.join(" ")).collect());
        }
    }
    DeclaredSchema { statements: statements.map(Result::unwrap).collect(), columns }
}

/// Without comments, and with one way to write spaces.
fn normalised(sql: &str) -> String {
    let bare: Vec<&str> =
        sql.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code)).collect();
    let spaced = bare.join(" ").replace('(', " ( ").replace(')', " ) ").replace(',', " , ");
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

// OPS-2
#[test]
fn the_written_schema_is_the_migrated_schema() {
    let scratch = Scratch::migrated();
    let written = Connection::open_in_memory().unwrap();
    written.execute_batch(SCHEMA).unwrap();
    let (written, migrated) = (declared(&written), declared(&scratch.raw()));
    for (name, sql) in &migrated.statements {
        assert_eq!(written.statements.get(name), Some(sql), "{name}");
    }
    assert_eq!(written, migrated);
}

#[test]
fn a_difference_in_the_schema_is_noticed() {
    let declare = |sql: &str| {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(sql).unwrap();
        declared(&connection)
    };
    let table = declare("CREATE TABLE t (a INTEGER, -- why\n b TEXT CHECK (b IN ('x','y')))");
    let respaced = declare("CREATE TABLE t(a INTEGER,b TEXT CHECK(b IN ('x', 'y')) )");
    assert_eq!(table, respaced);
    for other in [
        "CREATE TABLE t (b TEXT CHECK (b IN ('x','y')), a INTEGER)",
        "CREATE TABLE t (a INTEGER, b TEXT CHECK (b IN ('x','z')))",
        "CREATE TABLE t (a INTEGER NOT NULL, b TEXT CHECK (b IN ('x','y')))",
        "CREATE TABLE t (a INTEGER, b TEXT CHECK (b IN ('x','y'))); CREATE INDEX i ON t (a)",
    ] {
        assert_ne!(table, declare(other), "{other}");
    }
}
