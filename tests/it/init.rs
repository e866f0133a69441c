//! `redrive init`.

use crate::folder::Folder;

#[test]
fn the_file_it_writes_passes_check() {
    let folder = Folder::new();
    let ended = folder.run(&["init"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    assert_eq!(ended.stderr, "wrote redrive.toml; `redrive check` validates it\n");
    let checked = folder.run(&["check", "-o", "json"]).json();
    assert_eq!(checked["valid"], true);
    assert_eq!(checked["queues"][0]["name"], "verify");
}

#[test]
fn the_examples_in_the_file_pass_check_once_uncommented() {
    let folder = Folder::new();
    folder.run(&["-q", "init"]).ok();
    let is_example = |line: &str| line.starts_with(|c: char| c == '[' || c.is_ascii_lowercase());
    let uncommented: String = folder
        .read("redrive.toml")
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(example) if is_example(example) => format!("{example}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    folder.write("redrive.toml", uncommented);
    folder.programs(&["classify", "extract.sh", "ready.sh", "call-llm"]);
    let checked = folder.run(&["check", "-o", "json"]).json();
    let count = |key: &str| checked[key].as_array().unwrap().len();
    let counts = ["queues", "sources", "uploads", "pipelines", "notifiers"].map(count);
    assert_eq!(counts, [3, 1, 1, 1, 1]);
}

// OPS-4
#[test]
fn a_file_that_exists_is_overwritten_only_by_force() {
    let folder = Folder::with_config("jitter-seed = 1\n");
    let complaint = folder.run(&["init"]).failed(4);
    assert_eq!(
        complaint,
        "error: redrive.toml already exists; nothing was written\n  help: --force overwrites the file\n"
    );
    assert_eq!(folder.read("redrive.toml"), "jitter-seed = 1\n");

    assert_eq!(folder.run(&["init", "--force"]).code, Some(0));
    assert!(folder.read("redrive.toml").starts_with("# The configuration of Redrive."));
}

#[test]
fn it_writes_where_it_is_told() {
    let folder = Folder::new();
    folder.write("jobs/note.txt", "");
    folder.run(&["-q", "init", "jobs"]).ok();
    folder.run(&["-q", "init", "--config", "jobs/other.toml"]).ok();
    assert_eq!(folder.read("jobs/redrive.toml"), folder.read("jobs/other.toml"));
}

#[test]
fn a_folder_that_is_not_there_is_a_clear_error() {
    let complaint = Folder::new().run(&["init", "nowhere"]).failed(1);
    assert_eq!(
        complaint,
        "error: cannot write nowhere/redrive.toml\n  because: No such file or directory (os error 2)\n"
    );
}

#[test]
fn the_schema_for_editors_is_printed() {
    let folder = Folder::new();
    let schema = folder.run(&["init", "--schema"]).ok();
    assert_eq!(schema, include_str!("../../docs/redrive.schema.json"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    folder.run(&["init", "--schema", "--force"]).failed(2);
}
