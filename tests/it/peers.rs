//! The comparison with other systems: that its page says what was measured. The systems themselves are not run here.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use snapbox::{assert_data_eq, file};

use crate::source_tree::root;

fn report(arguments: &[&Path]) -> Output {
    let mut python = Command::new("python3");
    python.arg("-B").arg(root().join("bench/peers/report.py")).args(arguments);
    python.output().expect("python3")
}

fn no_python() -> bool {
    Command::new("python3").arg("--version").output().is_err()
}

/// Writes the page and its plots about recorded results into a new folder.
fn written(results: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let ended = report(&[results, folder.path()]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let page = folder.path().join("benchmarks.md");
    (folder, page)
}

fn invented() -> PathBuf {
    root().join("tests/it/peers/results.json")
}

#[test]
fn medians_spreads_ratios_and_failures_are_in_one_table() {
    if no_python() {
        return eprintln!("skipped: there is no python3 here");
    }
    let ended = report(&[&invented()]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_data_eq!(String::from_utf8(ended.stdout).unwrap(), file!["peers/table.txt"].raw());
}

#[test]
fn the_page_has_machine_settings_losses_and_who_could_not_be_run() {
    if no_python() {
        return eprintln!("skipped: there is no python3 here");
    }
    let (folder, page) = written(&invented());
    assert_data_eq!(fs::read_to_string(page).unwrap(), file!["peers/benchmarks.md"].raw());
    let plot = fs::read_to_string(folder.path().join("benchmarks/postgres.svg")).unwrap();
    assert_eq!(plot.matches("<rect").count(), 3, "a bar for each that was measured: {plot}");
    assert!(plot.contains(">failed</text>"), "{plot}");
    // The longest figure, 50 000 jobs/s, ends where the room for bars ends; the bar is the median's.
    assert!(plot.contains(r#"width="320.0""#) && plot.contains("H670.0"), "{plot}");
}

#[test]
fn the_published_page_and_plots_are_those_of_the_published_results() {
    if no_python() {
        return eprintln!("skipped: there is no python3 here");
    }
    let docs = root().join("docs");
    let (folder, page) = written(&docs.join("benchmarks/results.json"));
    let same = |made: &Path, published: &Path| {
        let [made, published] = [made, published].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(
            made, published,
            "write it anew: python3 bench/peers/report.py docs/benchmarks/results.json docs"
        );
    };
    same(&page, &docs.join("benchmarks.md"));
    let plots: Vec<_> = fs::read_dir(folder.path().join("benchmarks")).unwrap().collect();
    assert!(!plots.is_empty());
    for plot in plots {
        let plot = plot.unwrap();
        same(&plot.path(), &docs.join("benchmarks").join(plot.file_name()));
    }
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_installed() {
    for arguments in [&["--rounds", "0"][..], &["--jobs"], &["--only", "../x"], &["everything"]] {
        let mut script = Command::new(root().join("scripts/peers"));
        let ended = script.args(arguments).output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("usage: scripts/peers"));
    }
}
