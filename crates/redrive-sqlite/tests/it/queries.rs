//! The statements, one file each.

use std::{collections::BTreeSet, fs, path::Path};

use redrive_sqlite::QUERIES;

use crate::scratch::Scratch;

fn without_comments(sql: &str) -> String {
    let lines = sql.lines().filter(|line| !line.trim().starts_with("--"));
    lines.collect::<Vec<_>>().join("\n").to_lowercase()
}

#[test]
fn every_query_can_be_prepared_on_the_migrated_schema() {
    let scratch = Scratch::migrated();
    let connection = scratch.raw();
    for (name, sql) in QUERIES {
        let sql = sql.replace("{selection}", "true");
        let sql = sql.replace("{beyond}", "<").replace("{order}", "DESC");
        if let Err(error) = connection.prepare(&sql) {
            panic!("{name}: {error}");
        }
    }
}

#[test]
fn every_file_is_a_query_and_every_query_a_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
    let files: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let listed: BTreeSet<String> = QUERIES.iter().map(|(name, _)| format!("{name}.sql")).collect();
    assert_eq!(files, listed);
    assert_eq!(listed.len(), QUERIES.len(), "a query is listed twice");
}

/// Otherwise SQLite copies every page that such a statement touches: see `claim_runs_in`.
#[test]
fn a_statement_of_many_rows_or_with_a_rule_of_ours_is_not_undone_by_itself() {
    let many = |sql: &str| sql.contains("update ") && sql.contains("where id in (");
    let mut seen = 0;
    for (name, sql) in QUERIES {
        let sql = without_comments(sql);
        if many(&sql) {
            assert!(sql.contains("update or fail "), "{name}");
            seen += 1;
        }
        if sql.contains("into attempts") {
            assert!(sql.contains("insert or fail into attempts"), "{name}");
        }
    }
    assert!(seen >= 5, "claims and what makes runs claimable: {seen}");
}

#[test]
fn a_file_holds_one_statement() {
    for (name, sql) in QUERIES {
        assert!(!without_comments(sql).contains(';'), "{name}");
    }
}

// OPS-5
#[test]
fn no_query_asks_a_clock_or_for_chance() {
    let forbidden = [
        "'now'",
        "current_time",
        "current_date",
        "date(",
        "time(",
        "unixepoch",
        "julianday",
        "random",
    ];
    for (name, sql) in QUERIES {
        let sql = without_comments(sql);
        for word in forbidden {
            assert!(!sql.contains(word), "{name} uses {word}");
        }
    }
}

// UPL-4
#[test]
fn one_query_alone_changes_the_upload_attempts() {
    let changing = QUERIES.iter().filter(|(_, sql)| {
        let sql = without_comments(sql).replace(' ', "");
        sql.contains("upload_attempts=")
            || sql.contains("insert") && sql.contains("upload_attempts")
    });
    let names: Vec<&str> = changing.map(|(name, _)| *name).collect();
    assert_eq!(names, ["increment_upload_attempts"]);
    let (_, sql) = QUERIES.iter().find(|(name, _)| *name == "increment_upload_attempts").unwrap();
    let sql = without_comments(sql);
    assert!(sql.starts_with("update") && sql.contains("returning"), "{sql}");
}
