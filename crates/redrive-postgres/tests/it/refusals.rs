//! Whatever stands between us and the database gets a clear message, changes nothing, and never shows a
//! password.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{ItemId, RunId};
use redrive_postgres::{PostgresMigrator, PostgresOptions, PostgresStore};
use redrive_store::{
    Error, ItemGroup, Items, Journal, JournalFilter, Migrator, NewItem, NewRun, Operator, Runs,
    Store,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket},
};

use crate::{
    noise::noise,
    server::{Database, connect, server_url, url_as, url_of},
};

/// The error of a connect, and the text that a user sees, causes included.
async fn refusal(url: &str, options: PostgresOptions) -> (Error, String) {
    let error = PostgresStore::connect(url, options).await.map(drop).expect_err("refused");
    let mut text = format!("{error} / {error:?}");
    let mut cause = std::error::Error::source(&error);
    while let Some(current) = cause {
        text += &format!(" / {current} / {current:?}");
        cause = current.source();
    }
    (error, text)
}

fn quick() -> PostgresOptions {
    PostgresOptions {
        connect_timeout: Duration::from_millis(200),
        statement_timeout: Duration::from_millis(200),
        ..PostgresOptions::default()
    }
}

#[track_caller]
fn check_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

// OPS-1
#[tokio::test]
async fn a_wrong_password_is_told_without_showing_it() {
    let database = Database::migrated().await;
    let url = database.url.replace("redrive_test:", "redrive_test:hunter2");
    let (error, text) = refusal(&url, PostgresOptions::default()).await;
    assert!(matches!(error, Error::Refused { .. }), "{text}");
    check_contains(&text, &["check user and password", "password authentication failed"]);
    check_contains(&text, &["127.0.0.1", &database.name]);
    assert!(!text.contains("hunter2"), "{text}");
}

// OPS-1
#[tokio::test]
async fn a_missing_password_and_an_unknown_user_are_told() {
    let database = Database::migrated().await;
    for url in [url_as("nobody", "x", &database.name), server_url().replace("redrive_test:", "x:")]
    {
        let (error, text) = refusal(&url, PostgresOptions::default()).await;
        assert!(matches!(error, Error::Refused { .. }), "{text}");
        check_contains(&text, &["check user and password"]);
    }
    let (_, host) = database.url.split_once('@').unwrap();
    let url = format!("postgres://redrive_test@{host}");
    let (error, text) = refusal(&url, PostgresOptions::default()).await;
    assert!(matches!(error, Error::Refused { .. }), "{text}");
    check_contains(&text, &["password missing", "check user and password"]);
}

// OPS-1
#[tokio::test]
async fn an_unknown_database_is_told_with_what_to_do() {
    let (error, text) = refusal(&url_of("no_such_thing"), PostgresOptions::default()).await;
    assert!(matches!(error, Error::Refused { .. }), "{text}");
    check_contains(&text, &["the database does not exist", "createdb", "no_such_thing"]);
}

// OPS-1
#[tokio::test]
async fn a_user_without_permission_is_told() {
    let database = Database::migrated().await;
    let role = format!("{}_stranger", database.name);
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD 'hunter2'");
    connect(&server_url()).await.batch_execute(&create).await.unwrap();
    let url = url_as(&role, "hunter2", &database.name);
    let (error, text) = refusal(&url, PostgresOptions::default()).await;
    assert!(matches!(error, Error::Refused { .. }), "{text}");
    check_contains(&text, &["permission", "permission denied for schema redrive"]);
    assert!(!text.contains("hunter2"), "{text}");
}

// OPS-1
#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    // It has its port, so that nobody else gets it, and does not listen.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let url = format!("postgres://user:hunter2@127.0.0.1:{port}/db");
    let (error, text) = refusal(&url, quick()).await;
    assert!(error.is_transient(), "{text}");
    check_contains(&text, &["not available", "refused", &format!("127.0.0.1:{port}/db")]);
    assert!(!text.contains("hunter2"), "{text}");
}

// OPS-1
#[tokio::test]
async fn a_host_that_has_no_address_is_unavailable() {
    let (error, text) = refusal("postgres://user@no-such-host.invalid/db", quick()).await;
    assert!(error.is_transient(), "{text}");
    check_contains(&text, &["no-such-host.invalid:5432/db"]);
}

// OPS-1
#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for parameters in ["", "?sslmode=disable", "?sslmode=require"] {
        let url = format!("postgres://user:hunter2@127.0.0.1:{port}/db{parameters}");
        let (error, text) = refusal(&url, quick()).await;
        assert!(error.is_transient(), "{text}");
        check_contains(&text, &["connecting to PostgreSQL", "no answer within 0.2 s"]);
        let migrator = PostgresMigrator::new(&url, &quick()).unwrap();
        assert!(migrator.status().await.unwrap_err().is_transient());
    }
}

// OPS-1
#[tokio::test]
async fn a_server_that_stops_in_the_middle_of_the_handshake_is_given_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 8];
        stream.read_exact(&mut request).await.unwrap();
        // Yes to encryption, and not another word.
        stream.write_all(b"S").await.unwrap();
        stream
    });
    let (error, text) = refusal(&format!("postgres://user@127.0.0.1:{port}/db"), quick()).await;
    assert!(error.is_transient(), "{text}");
    drop(server);
}

// OPS-1
#[tokio::test]
async fn someone_who_is_not_postgresql_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    });
    let url = format!("postgres://user@127.0.0.1:{port}/db?sslmode=disable");
    refusal(&url, quick()).await;
}

// OPS-1
#[tokio::test]
async fn a_schema_of_the_same_name_that_is_not_ours_is_left_alone() {
    for made in [
        "CREATE SCHEMA redrive; CREATE TABLE redrive.songs (name text)",
        "CREATE SCHEMA redrive; CREATE VIEW redrive.songs AS SELECT 1",
        "CREATE SCHEMA redrive; CREATE TABLE redrive.schema_migrations (inserted_at timestamp)",
    ] {
        let database = Database::empty().await;
        let raw = database.raw().await;
        raw.batch_execute(made).await.unwrap();
        let (error, text) = refusal(&database.url, PostgresOptions::default()).await;
        assert!(matches!(error, Error::NotOurs { .. }), "{text}");
        check_contains(&text, &["redrive", "another database"]);
        let moved = database.migrator().migrate_to(1, Timestamp::UNIX_EPOCH).await;
        assert!(matches!(moved, Err(Error::NotOurs { .. })), "{moved:?}");
        let sql = "SELECT count(*) FROM pg_class WHERE relnamespace = 'redrive'::regnamespace";
        let count: i64 = raw.query_one(sql, &[]).await.unwrap().get(0);
        assert_eq!(count, 1, "nothing was changed");
    }
}

// OPS-1
#[tokio::test]
async fn a_database_that_cannot_keep_every_text_is_refused() {
    let database = Database::create("TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'").await;
    let error = database.migrator().migrate_to(1, Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    check_contains(&error.to_string(), &["LATIN1", "--encoding=UTF8"]);
    assert_eq!(database.migrator().status().await.unwrap().current(), 0);
}

// OPS-1, OPS-4
#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_by_name_and_never_repeated() {
    for (url, problem) in [
        ("mysql://u:hunter2@h/db", "postgres://"),
        ("", "postgres://"),
        ("postgres://", "USER:PASSWORD@HOST"),
        ("postgres:///db", "USER:PASSWORD@HOST"),
        ("postgres://u:hunter2@h:port/db", "USER:PASSWORD@HOST"),
        ("postgres://u:hunter2@h:99999/db", "USER:PASSWORD@HOST"),
        ("postgres://u:hun@ter2@h/db", "%40"),
        ("postgres://u:hunter2@h/db?sslmode=always", "\"always\"; it can be disable"),
        ("postgres://u:hunter2@h/db?sslmode=verify_full", "verify-full"),
        ("postgres://u:hunter2@h/db?sslmode", "needs a value"),
        ("postgres://u:hunter2@h/db?sslrootcert=ca.pem", "sslmode=verify-full"),
        ("postgres://u:hunter2@h/db?sslmode=disable&sslrootcert=ca.pem", "sslmode=verify-full"),
        ("postgres://u:hunter2@h/db?sslkey=a.key", "\"sslkey\" is unknown"),
        ("postgres://u:hunter2@h/db?connect_timeout=soon", "USER:PASSWORD@HOST"),
    ] {
        let (error, text) = refusal(url, quick()).await;
        assert!(matches!(error, Error::Refused { .. }), "{url}: {text}");
        check_contains(&text, &["reading the URL", problem]);
        assert!(!text.contains("hunter2") && !text.contains("ter2"), "{text}");
        PostgresMigrator::new(url, &quick()).map(drop).unwrap_err();
    }
}

// OPS-1
#[tokio::test]
async fn a_store_says_what_it_is_without_its_password() {
    let database = Database::migrated().await;
    let (_, password) = database.url.split_once(':').unwrap().1.split_once(':').unwrap();
    let (password, host) = password.split_once('@').unwrap();
    let description = database.store().await.describe();
    assert!(description.starts_with("PostgreSQL "), "{description}");
    assert!(description.ends_with(&format!(" at {host}")), "{description}");
    let shown = format!("{description} {:?}", database.migrator());
    assert!(!shown.contains(password), "{shown}");
}

/// One fault in the database, and what a submission makes of it.
async fn submitting_with(fault: &str) -> Error {
    let database = Database::migrated().await;
    let store = database.store().await;
    database.raw().await.batch_execute(fault).await.unwrap();
    let run = NewRun::new("q", &json!(1), Timestamp::UNIX_EPOCH).unwrap();
    store.submit_runs(&[run], Timestamp::UNIX_EPOCH).await.unwrap_err()
}

fn raising(code: &str) -> String {
    format!(
        "CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'a fault' USING ERRCODE = '{code}'; END $$;
        CREATE TRIGGER fail BEFORE INSERT ON redrive.runs EXECUTE FUNCTION public.fail()"
    )
}

#[tokio::test]
async fn faults_of_the_server_are_sorted_by_what_one_can_do() {
    for code in ["53100"] {
        let error = submitting_with(&raising(code)).await;
        assert!(matches!(error, Error::Full { .. }), "{code}: {error:?}");
    }
    for code in ["53200", "53300", "57014", "57P03", "40P01", "40001", "55P03", "58030", "08006"] {
        let error = submitting_with(&raising(code)).await;
        assert!(matches!(error, Error::Unavailable { .. }), "{code}: {error:?}");
    }
    for code in ["XX001", "XX002"] {
        let error = submitting_with(&raising(code)).await;
        assert!(matches!(error, Error::NotOurs { .. }), "{code}: {error:?}");
    }
    let error = submitting_with(&raising("42501")).await;
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let error = submitting_with(&raising("25006")).await;
    assert!(matches!(error, Error::ReadOnly { .. }) && error.is_transient(), "{error:?}");
    let error = submitting_with(&raising("P0001")).await;
    assert!(matches!(error, Error::Database { .. }), "{error:?}");
    let error = submitting_with("DROP TABLE redrive.runs CASCADE").await;
    assert!(matches!(error, Error::NotOurs { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_only_reads_is_refused() {
    let database = Database::migrated().await;
    let sql = format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name);
    database.raw().await.batch_execute(&sql).await.unwrap();
    let store = database.store().await;
    assert_eq!(store.runs_by_id(&[RunId(1)]).await.unwrap(), [], "reading still works");
    let run = NewRun::new("q", &json!(1), Timestamp::UNIX_EPOCH).unwrap();
    let error = store.submit_runs(&[run], Timestamp::UNIX_EPOCH).await.unwrap_err();
    check_contains(&error.to_string(), &["submitting runs", "read-only"]);
}

#[tokio::test]
async fn text_that_postgresql_cannot_keep_is_refused_by_name() {
    let store = Database::migrated().await.store().await;
    let by = Operator { actor: "ada".to_owned(), at: Timestamp::UNIX_EPOCH, reason: None };
    for (name, problem) in [("a\0b".to_owned(), "NUL"), (noise(9_000), "512 are allowed")] {
        let item = NewItem {
            group: ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() },
            name,
            content_url: "file:a".to_owned(),
            size_bytes: 1,
            sha256: "ab".to_owned(),
        };
        let error = store.add_items(&[item], &by).await.unwrap_err();
        assert!(matches!(error, Error::Misuse { .. }), "{error:?}");
        check_contains(&error.to_string(), &["adding items", problem]);
    }
    let filter = JournalFilter { unit: Some("\0".to_owned()), action: None };
    let error = store.journal_page(&filter, 0, 1).await.unwrap_err();
    assert!(matches!(error, Error::Misuse { .. }), "{error:?}");
    assert_eq!(store.items_by_id(&[ItemId(1)]).await.unwrap(), []);
}
