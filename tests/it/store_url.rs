//! Which store is used, and how its URL is written.

use redrive::StoreUrl;

use crate::folder::Folder;

const WITH_STORE: &str = "[store]\nurl = \"sqlite:from-file.db\"\n";

/// The store that `check` would use, and who named it.
fn chosen(folder: &Folder, environment: &[(&str, &str)], arguments: &[&str]) -> [String; 2] {
    let arguments = [&["check", "-o", "json"], arguments].concat();
    let checked = folder.run_with(environment, &arguments).json();
    ["store", "store_from"].map(|key| checked[key].as_str().unwrap().to_owned())
}

// OPS-1
#[test]
fn the_flag_goes_before_the_file_and_the_file_before_the_environment() {
    let in_environment = [("DATABASE_URL", "sqlite:from-env.db")];
    let flag = ["--store", "sqlite:from-flag.db"];
    let with_store = Folder::with_config(WITH_STORE);
    let without = Folder::with_config("");

    let check = |actual: [String; 2], expected: [&str; 2]| assert_eq!(actual, expected);
    check(chosen(&with_store, &in_environment, &flag), ["sqlite:[FOLDER]/from-flag.db", "--store"]);
    check(chosen(&with_store, &in_environment, &[]), ["sqlite:[FOLDER]/from-file.db", "the file"]);
    check(chosen(&without, &in_environment, &[]), ["sqlite:[FOLDER]/from-env.db", "$DATABASE_URL"]);
    check(chosen(&without, &[], &[]), ["sqlite:[FOLDER]/redrive.db", "the default"]);
    let empty = [("DATABASE_URL", "")];
    check(chosen(&without, &empty, &[]), ["sqlite:[FOLDER]/redrive.db", "the default"]);
}

// OPS-1
#[test]
fn a_path_counts_from_where_it_was_written() {
    let folder = Folder::with_config(WITH_STORE);
    folder.write("deep/down/note.txt", "");
    let chosen = |arguments: &[&str]| {
        let mut command = folder.command(&[&["check", "-o", "json"], arguments].concat());
        let output = command.current_dir(folder.path().join("deep/down")).output().unwrap();
        folder.ended(output).json()["store"].as_str().unwrap().to_owned()
    };
    assert_eq!(chosen(&[]), "sqlite:[FOLDER]/from-file.db");
    assert_eq!(chosen(&["--store", "sqlite:x.db"]), "sqlite:[FOLDER]/deep/down/x.db");
    assert_eq!(chosen(&["--store", "sqlite:/abs/x.db"]), "sqlite:/abs/x.db");
    assert_eq!(chosen(&["--store", "sqlite::memory:"]), "sqlite::memory:");
}

// OPS-1
#[test]
fn the_file_can_name_a_variable_that_holds_the_url() {
    let folder = Folder::with_config("[store]\nurl = { env = \"MY_DB\" }\n");
    let set = [("MY_DB", "postgres://ann:secret@db/redrive")];
    assert_eq!(chosen(&folder, &set, &[]), ["postgres://ann:****@db/redrive", "$MY_DB"]);
    assert_eq!(chosen(&folder, &[], &[]), ["$MY_DB", "the file, not set yet"]);
    let complaint = folder.run_with(&[("MY_DB", "mysql://u:secret@h/d")], &["check"]).failed(1);
    assert!(complaint.contains("$MY_DB: \"mysql://u:****@h/d\" is not a store"), "{complaint}");
}

// OPS-4
#[test]
fn a_wrong_url_is_refused_with_what_is_allowed() {
    #[track_caller]
    fn check(url: &str, allowed: &str) {
        let complaint = Folder::with_config("").run(&["check", "--store", url]).failed(2);
        assert!(complaint.contains(allowed), "{allowed:?} is not in {complaint}");
    }
    check("", "write sqlite:PATH, sqlite::memory: or postgres://");
    check("redrive.db", "write sqlite:redrive.db");
    check("./data/redrive.db", "write sqlite:./data/redrive.db");
    check("/var/a:b.db", "write sqlite:/var/a:b.db");
    check("sqlite:", "the path is missing");
    check("sqlite://x.db", "without //");
    check("sqlite:///abs/x.db", "without //");
    check("sqlite::memry:", "did you mean sqlite::memory:?");
    check("sqlite:x.db?mode=ro", "options belong in [store]");
    check("sqlite:~/x.db", "write the complete path");
    check("sqlite:data/", "the path is a folder");
    check("sqllite:x.db", "did you mean sqlite:?");
    check("postgre://h/db", "did you mean postgres:?");
    check("POSTGRES://h/db", "did you mean postgres:?");
    check("mysql://h/db", "write sqlite:PATH");
    check("postgres:h/db", "with //");
    check("postgres://", "the host is missing");
    check("postgres:///db", "the host is missing");
    check("postgres://ann@/db", "the host is missing");
    check("postgres://h:0/db", "the port must be from 1 to 65535");
    check("postgres://h:99999/db", "the port must be from 1 to 65535");
    check("postgres://h:port/db", "the port must be from 1 to 65535");
    check("postgres://a:b@c@h/db", "write %40 for @");
    check("postgres://a:b/c@h/db", "write %40 for @");
    check("sqlite:a\nb", "control characters");
}

#[test]
fn good_urls_are_read() {
    #[track_caller]
    fn check(url: &str, printed: &str) {
        let parsed: StoreUrl = url.parse().unwrap();
        assert_eq!(parsed.to_string(), printed);
    }
    check("sqlite:a b.db", "sqlite:a b.db");
    check("sqlite::memory:", "sqlite::memory:");
    check("postgres://h/db", "postgres://h/db");
    check("postgresql://ann@[::1]:5432/db", "postgresql://ann@[::1]:5432/db");
    check("postgres://a:5432,b:5433/db", "postgres://a:5432,b:5433/db");
    check("postgres:///db?host=/run/postgresql", "postgres:///db?host=/run/postgresql");
    check("postgres://ann:p%40ss@h/db", "postgres://ann:****@h/db");
    check("postgres://h/db?password=x&user=ann", "postgres://h/db?password=****&user=ann");
}

// OPS-4
#[test]
fn a_password_is_never_shown() {
    let folder = Folder::with_config("");
    let urls = [
        "postgres://ann:s3cret@h/db",
        "postgres://ann:s3cret@h:bad/db",
        "postgres://ann:x@s3cret@h/db",
        "postgres://ann:12/s3cret@h/db",
        "postgres://ann:12?s3cret@h/db",
        "postgres://ann:12#s3cret@h/db",
        "postgres://h/db?sslpassword=s3cret",
        "postgres://h/db?pass%77ord=s3cret",
        "postgres://ann:s3cret/db",
        "postgres://ann:s3cret",
        "mysql://ann:s3cret@h/db",
        "sqlite:ann:s3cret@h/",
        "ann:s3cret@h",
        "my.host:s3cret@h",
    ];
    for url in urls {
        for ended in [
            folder.run(&["check", "--store", url]),
            folder.run(&["-vv", "check", "-o", "json", "--store", url]),
            folder.run_with(&[("DATABASE_URL", url)], &["check"]),
        ] {
            let printed = ended.stdout + &ended.stderr;
            assert!(!printed.contains("s3cret"), "{url}: {printed}");
        }
    }
    let files = [
        "[store]\nurl = \"postgres://ann:s3cret@h/db\"",
        "[[queue]]\nname = \"q\"\nhandler = { http = { url = \"http://ann:s3cret@h/\" } }",
        "[[queue]]\nname = \"q\"\n[queue.handler.http]\nurl = \"http://h/\"\n\
         headers = { authorization = \"Bearer s3cret\" }",
    ];
    for file in files {
        for format in ["table", "json"] {
            let ended = Folder::with_config(file).run(&["check", "-o", format]);
            assert_eq!(ended.code, Some(1), "{file}");
            let printed = ended.stdout + &ended.stderr;
            assert!(!printed.contains("s3cret"), "{file}: {printed}");
        }
    }
    let url: StoreUrl = urls[0].parse().unwrap();
    assert!(!format!("{url:?}").contains("s3cret"));
    let StoreUrl::Postgres(url) = url else { panic!("not postgres") };
    assert_eq!(url.with_password(), urls[0]);
}
