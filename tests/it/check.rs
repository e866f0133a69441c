//! `redrive check`.

use snapbox::{assert_data_eq, file};

use crate::folder::{Ended, Folder};

const BAD: &str = include_str!("check/bad.toml");
const BROKEN: &str = include_str!("check/broken.toml");
const MAXIMAL: &str = include_str!("check/maximal.toml");

/// A run that found problems.
#[track_caller]
fn findings(ended: Ended) -> String {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    ended.stderr
}

// OPS-4
#[test]
fn all_problems_of_a_file_are_reported_at_once_each_at_its_line() {
    let folder = Folder::with_config(BAD);
    assert_data_eq!(findings(folder.run(&["check"])), file!["check/bad.txt"].raw());
}

// OPS-4
#[test]
fn problems_are_reported_in_json_as_well() {
    let ended = Folder::with_config(BAD).run(&["check", "-o", "json"]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr, "error: redrive.toml has 44 problems\n");
    assert_data_eq!(ended.stdout, file!["check/bad.json.txt"].raw());
}

// OPS-4
#[test]
fn a_broken_statement_hides_no_other_problem_and_makes_none_up() {
    let folder = Folder::with_config(BROKEN);
    assert_data_eq!(findings(folder.run(&["check"])), file!["check/broken.txt"].raw());
}

#[test]
fn a_good_file_is_shown_with_all_it_declares() {
    let folder = Folder::with_config(MAXIMAL);
    folder.programs(&["verify.sh", "classify", "extract.sh", "judge.sh", "on-ground.sh"]);
    folder.programs(&["call-llm", "generate", "check"]).write("row.schema.json", "{}");
    assert_data_eq!(folder.run(&["check"]).ok(), file!["check/maximal.txt"].raw());
    assert_data_eq!(
        folder.run(&["check", "-o", "json"]).ok(),
        file!["check/maximal.json.txt"].raw()
    );
    let lines = folder.run(&["check", "-o", "jsonl"]).ok();
    assert_eq!(lines.lines().count(), 1);
}

#[test]
fn the_example_with_one_of_everything_is_good() {
    let example = include_str!("../../examples/redrive.toml");
    let folder = Folder::with_config(example);
    folder.programs(&["verify.sh", "extract.sh", "judge.sh", "on-ground.sh", "call-llm"]);
    folder.write("row.schema.json", "{}");
    let shown = folder.run(&["check"]).ok();
    for declared in ["verify", "notify", "ads", "tiles", "score", "llm_call"] {
        assert!(shown.contains(declared), "{declared} is missing:\n{shown}");
    }
}

#[test]
fn the_example_as_it_is_shipped_lacks_only_its_programs_and_its_schema() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/redrive.toml");
    let shown = Folder::new().run(&["check", "--config", example]);
    assert_eq!(shown.code, Some(1), "{}", shown.stderr);
    assert!(shown.stderr.contains("names 6 files that cannot be used"), "{}", shown.stderr);
    let missing = shown.stdout.lines().filter(|line| line.starts_with("program  "));
    assert_eq!(missing.count(), 5, "{}", shown.stdout);
    assert!(std::fs::read_to_string(example).unwrap().contains("ends with exit code 1"));
}

// OPS-4
#[test]
fn a_program_a_script_or_a_schema_that_is_missing_is_a_problem() {
    let folder = Folder::with_config(
        r#"
        [[queue]]
        name = "gone"
        handler = { exec = ["./gone.sh"] }
        [[queue]]
        name = "text"
        handler = { exec = ["./text.sh"] }
        [[queue]]
        name = "script"
        handler = { stream = ["/bin/sh", "-e", "script.sh"] }
        [[queue]]
        name = "code"
        handler = { exec = ["/bin/sh", "-c", "cat x.sh"] }
        [[queue]]
        name = "path"
        handler = { exec = ["no-such-program-anywhere"] }
        [[source]]
        name = "ads"
        customers = ["1"]
        queries = ["q"]
        extract = { exec = ["/bin/true"] }
        validate = { schema = "row.json" }
        "#,
    );
    folder.write("text.sh", "");
    let path = [("PATH", "/usr/bin:/bin")];
    let ended = folder.run_with(&path, &["check", "-o", "json"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("redrive.toml names 5 files that cannot be used"), "{ended:#?}");
    let checked: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(checked["valid"], false);
    let expected = [
        ("queue gone", "./gone.sh does not exist"),
        ("queue text", "./text.sh is not executable"),
        ("queue script", "script.sh, which /bin/sh reads, does not exist"),
        ("queue path", "no-such-program-anywhere is not in PATH"),
        ("source ads", "cannot read the schema [FOLDER]/row.json: No such file"),
    ];
    let doctor = folder.run_with(&path, &["doctor"]).stdout;
    for (file, (place, problem)) in
        checked["file_problems"].as_array().unwrap().iter().zip(expected)
    {
        assert_eq!(file["place"], place);
        assert!(file["problem"].as_str().unwrap().starts_with(problem), "{file}");
        assert!(doctor.contains(&format!("{place}: {problem}")), "{doctor}");
    }
    folder.programs(&["gone.sh", "text.sh"]).write("script.sh", "").write("row.json", "{}");
    let fixed = folder.read("redrive.toml").replace("no-such-program-anywhere", "true");
    folder.write("redrive.toml", fixed);
    assert!(folder.run_with(&path, &["check"]).ok().ends_with("redrive.toml is valid\n"));
}

#[test]
fn a_variable_that_is_not_set_is_a_warning_that_says_who_needs_it() {
    let folder = Folder::with_config(
        r#"
        [server]
        viewer-token = { env = "VIEWER" }
        [[server.tokens]]
        name = "ann"
        role = "operator"
        sha256 = { env = "ANN" }
        [[queue]]
        name = "post"
        [queue.handler.http]
        url = "http://127.0.0.1:9/post"
        headers = { authorization = { env = "POST_TOKEN", prefix = "Bearer " }, accept = "text/plain" }
        [[upload]]
        name = "tiles"
        url = "http://127.0.0.1:9/tiles"
        headers = { x-api-key = { env = "TILES_KEY" } }
        [[notify]]
        name = "oncall"
        url = "http://127.0.0.1:9/alerts"
        headers = { authorization = { env = "POST_TOKEN" } }
        "#,
    );
    let rows = [
        ("POST_TOKEN", "queue post", "header authorization"),
        ("POST_TOKEN", "notifier oncall", "header authorization"),
        ("TILES_KEY", "upload tiles", "header x-api-key"),
        ("VIEWER", "server", "viewer-token"),
        ("ANN", "server", "token ann"),
    ];
    let checked = folder.run(&["check", "-o", "json"]).json();
    assert_eq!(checked["valid"], true);
    let expected = rows.map(|(variable, place, used_for)| {
        serde_json::json!({ "variable": variable, "place": place, "used_for": used_for })
    });
    assert_eq!(checked["missing_variables"], serde_json::json!(expected));
    let table = folder.run(&["check"]).ok();
    assert!(table.contains("warning: environment variables that are not set here\n"), "{table}");
    assert!(table.ends_with("redrive.toml is valid\n"), "{table}");
    let worker = folder.run(&["worker", "--drain", "--queues", "post"]).failed(1);
    assert!(worker.contains("POST_TOKEN"), "{worker}");
    folder.run(&["db", "migrate"]).ok();
    let doctor = folder.run(&["doctor"]).ok();
    for (variable, place, used_for) in rows {
        let warning = format!("{place}: {used_for} needs {variable}, which is not set here");
        assert!(doctor.contains(&warning), "{warning}: {doctor}");
    }

    // An empty variable is not set.
    let set = [("POST_TOKEN", "a"), ("TILES_KEY", ""), ("VIEWER", "b"), ("ANN", "c")];
    let checked = folder.run_with(&set, &["check", "-o", "json"]).json();
    assert_eq!(checked["missing_variables"], serde_json::json!([expected[2]]));
    assert!(!folder.run_with(&set, &["doctor"]).ok().contains("POST_TOKEN"));
}

#[test]
fn an_empty_file_is_good() {
    let checked = Folder::with_config("").run(&["check", "-o", "json"]).json();
    assert_eq!(checked["valid"], true);
}

#[test]
fn the_file_is_found_in_a_folder_above() {
    let folder = Folder::with_config("nonsense = 1");
    folder.write("a/b/note.txt", "");
    let mut command = folder.command(&["check"]);
    let output = command.current_dir(folder.path().join("a/b")).output().unwrap();
    let report = findings(folder.ended(output));
    assert!(report.contains("[FOLDER]/redrive.toml:1:1"), "{report}");
}

#[test]
fn the_nearest_file_counts_and_a_named_one_goes_before() {
    let folder = Folder::with_config("jitter-seed = 1");
    folder.write("a/redrive.toml", "jitter-seed = 2").write("b.toml", "jitter-seed = 3");
    let seed = |arguments: &[&str]| {
        let mut command = folder.command(&[&["check", "-o", "json"], arguments].concat());
        let output = command.current_dir(folder.path().join("a")).output().unwrap();
        folder.ended(output).json()["jitter_seed"].as_u64().unwrap()
    };
    assert_eq!(seed(&[]), 2);
    assert_eq!(seed(&["--config", "../b.toml"]), 3);
}

#[test]
fn without_a_file_it_says_how_to_get_one() {
    let complaint = Folder::new().run(&["check"]).failed(1);
    assert_eq!(
        complaint,
        "error: there is no redrive.toml in this folder or in a folder above\n  \
         help: `redrive init` writes one; --config FILE selects another file\n"
    );
}

// OPS-4
#[test]
fn a_file_that_is_no_text_is_a_clear_error() {
    #[track_caller]
    fn check(content: &[u8], complaint: &str) {
        let folder = Folder::new();
        folder.write("redrive.toml", content);
        for arguments in [&["check"][..], &["policy", "list"]] {
            assert_eq!(folder.run(arguments).failed(1), format!("error: {complaint}\n"));
        }
    }
    check(b"a = 1\nb = \"\xff\"\n", "redrive.toml is not UTF-8: line 2 has invalid bytes");
    check(
        b"\xff\xfea\0",
        "redrive.toml is not UTF-8: the file looks like UTF-16; save it as UTF-8",
    );
    check(
        &vec![b'#'; 1_048_577],
        "redrive.toml is larger than 1 MiB, the limit for a configuration file",
    );
}

// OPS-4
#[test]
fn a_file_that_cannot_be_read_is_a_clear_error() {
    let folder = Folder::new();
    let complaint = folder.run(&["check", "--config", "nowhere.toml"]).failed(1);
    assert_eq!(
        complaint,
        "error: cannot read nowhere.toml\n  because: No such file or directory (os error 2)\n"
    );
    std::fs::create_dir(folder.path().join("redrive.toml")).unwrap();
    let complaint = folder.run(&["check"]).failed(1);
    assert_eq!(complaint, "error: redrive.toml is a folder, not a file\n");
}

// OPS-4
#[test]
#[cfg(unix)]
fn a_file_without_permission_is_a_clear_error() {
    use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::symlink};

    let folder = Folder::with_config("");
    let path = folder.path().join("redrive.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Permissions do not stop the superuser.
    if fs::File::open(&path).is_err() {
        let complaint = folder.run(&["check"]).failed(1);
        assert!(complaint.contains("because: Permission denied"), "{complaint}");
    }
    fs::remove_file(&path).unwrap();
    symlink("redrive.toml", &path).unwrap();
    let complaint = folder.run(&["check"]).failed(1);
    assert!(complaint.starts_with("error: cannot read redrive.toml\n  because: "), "{complaint}");
}

#[test]
fn a_byte_order_mark_and_foreign_line_ends_are_no_problem() {
    let folder = Folder::with_config("\u{feff}[server]\r\nlisten = \"127.0.0.1:1\"\r\n");
    assert_eq!(folder.run(&["check", "-o", "json"]).json()["listen"], "127.0.0.1:1");
    let report = findings(Folder::with_config("\u{feff}nonsense = 1\r\n").run(&["check"]));
    assert!(report.contains("redrive.toml:1:1"), "{report}");
    assert!(!report.contains('\r'), "{report:?}");
}

#[test]
fn a_long_line_is_shown_in_part() {
    let long =
        format!("{} = \"{}é\"\nserver = [\n1,\n2]\n", "x".repeat(10_000), "y".repeat(10_000));
    let report = findings(Folder::with_config(&long).run(&["check"]));
    let longest = report.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest < 500, "{report}");
}

#[test]
fn a_name_used_twice_is_shown_at_both_places() {
    let queue =
        |name: &str| format!("[[queue]]\nname = \"{name}\"\nhandler = {{ exec = [\"x\"] }}\n");
    let others: String = (0..100).map(|i| queue(&format!("q{i}"))).collect();
    let folder = Folder::with_config(&(queue("verify") + &others + &queue("verify")));
    assert_data_eq!(findings(folder.run(&["check"])), file!["check/twice.txt"].raw());
}

#[test]
fn a_long_list_of_problems_is_cut() {
    let many: String = (0..1_000).map(|i| format!("nonsense{i} = 1\n")).collect();
    let report = findings(Folder::with_config(&many).run(&["check"]));
    assert!(report.contains("nonsense49") && !report.contains("nonsense50"));
    let end = "… and 950 more\n\nerror: redrive.toml has 1000 problems\n";
    assert!(report.ends_with(end), "{report}");
}

#[test]
fn mistakes_on_every_line_of_a_large_file_are_reported() {
    for line in ["x = [\n", "[[queue]]\n", "x == y\n", "a.b.c.d = \"\n", "[x\n", "x = { a = 1,\n"] {
        let folder = Folder::with_config(&line.repeat(100_000 / line.len()));
        let report = findings(folder.run(&["check"]));
        assert!(report.lines().last().unwrap().starts_with("error: redrive.toml has "));
    }
    let deep = Folder::with_config(&format!("x = {}", "[".repeat(100_000)));
    findings(deep.run(&["check"]));
}

#[test]
fn a_file_with_problems_stops_every_command_that_needs_it() {
    let folder = Folder::with_config("nonsense = 1");
    let report = findings(folder.run(&["policy", "list"]));
    assert!(report.ends_with("error: redrive.toml has 1 problem\n"), "{report}");
}
