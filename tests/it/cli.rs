//! What every command has in common.

use std::process::Stdio;

use crate::folder::Folder;

/// Every command, found by reading the help as a user would.
fn commands() -> Vec<Vec<String>> {
    let folder = Folder::new();
    let mut found = Vec::new();
    let mut unread = vec![Vec::new()];
    while let Some(command) = unread.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = folder.run(&arguments).ok();
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in listed.take_while(|line| !line.is_empty()) {
            let name = line.split_whitespace().next().unwrap().to_owned();
            unread.push([&command[..], &[name]].concat());
        }
        found.push(command);
    }
    found
}

// OPS-4
#[test]
fn every_command_has_help_with_examples() {
    let commands = commands();
    assert!(commands.len() > 8, "{commands:?}");
    for command in commands {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = Folder::new().run(&arguments).ok();
        assert!(help.contains("Examples:\n  redrive "), "{command:?} has no examples:\n{help}");
        assert!(help.contains("--output <FORMAT>"), "{command:?} has no -o");
        assert!(!help.contains('\\'), "{command:?} has a backslash:\n{help}");
    }
}

// OPS-4
#[test]
fn wrong_usage_ends_with_2_and_says_what_is_wrong() {
    #[track_caller]
    fn check(arguments: &[&str], part: &str) {
        let complaint = Folder::new().run(arguments).failed(2);
        assert!(complaint.contains(part), "{part:?} is not in {complaint}");
    }
    check(&["polcy"], "'policy'");
    check(&["policy", "schedule", "--preset"], "<NAME>");
    check(&["policy", "list", "--nonsense"], "'--nonsense'");
    check(&["check", "-o", "xml"], "table, json, jsonl");
    check(&["check", "--color", "blue"], "auto, always, never");
    check(&["check", "-v", "-q"], "cannot be used with");
    check(&["check", "--config"], "--config <FILE>");
    check(&["completions", "csh"], "bash, elvish, fish, powershell, zsh");
    check(&["completions"], "<SHELL>");
}

#[test]
fn without_a_command_the_help_is_shown() {
    for arguments in [&[][..], &["policy"]] {
        let ended = Folder::new().run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
        assert!(ended.stderr.contains("Usage: redrive"), "{}", ended.stderr);
    }
}

#[test]
fn the_version_is_printed() {
    let version = Folder::new().run(&["--version"]).ok();
    assert_eq!(version, concat!("redrive ", env!("CARGO_PKG_VERSION"), "\n"));
}

// OPS-4
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let arguments = ["policy", "schedule", "--attempts", "10000", "-o", "jsonl"];
    let mut command = folder.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = folder.ended(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

// OPS-4
#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    for arguments in [&["policy", "list"][..], &["--help"], &["completions", "bash"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(arguments).stdout(full).output().unwrap();
        let complaint = folder.ended(output).failed(1);
        assert_eq!(
            complaint,
            "error: cannot write the output\n  because: No space left on device (os error 28)\n"
        );
    }
}

#[test]
fn control_characters_of_others_never_reach_the_terminal() {
    let folder = Folder::with_config(
        "[[source]]\nname = \"a\"\ncustomers = [\"\\u001b[31m\", \"\\u009b31m\", \"\\u202e\"]\n\
         queries = [\"q\"]\nextract = { exec = [\"./x\\u001b[0m\"] }\n",
    );
    folder.programs(&["x\u{1b}[0m"]);
    let foreign = "x\u{1b}[31m\u{9b}31m\u{202e}";
    let runs: [&[&str]; 8] = [
        &["check"],
        &["check", "-o", "json"],
        &["check", "-o", "jsonl"],
        &[foreign],
        &["policy", "show", foreign],
        &["policy", "schedule", "--unit", foreign],
        &["check", "--store", foreign],
        &["check", "--config", foreign],
    ];
    for arguments in runs {
        let ended = folder.run(arguments);
        let printed = ended.stdout + &ended.stderr;
        let obeyed: Vec<char> = printed
            .chars()
            .filter(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}')
            .collect();
        assert!(obeyed.is_empty(), "{arguments:?}: {printed}");
    }
    let checked = folder.run(&["check", "-o", "json"]).json();
    assert_eq!(checked["sources"][0]["customers"][1], "\u{9b}31m", "JSON keeps what was meant");
}

#[test]
fn color_is_used_when_it_is_asked_for() {
    let folder = Folder::with_config("nonsense = 1");
    let colored = |color: &str, environment: &[(&str, &str)]| {
        folder.run_with(environment, &["check", "--color", color]).stderr.contains('\u{1b}')
    };
    assert!(colored("always", &[]));
    assert!(!colored("never", &[]));
    assert!(!colored("auto", &[]), "a pipe is no terminal");
}

#[test]
fn there_are_completions_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = folder.run(&["completions", shell]).ok();
        assert!(script.contains("redrive") && script.contains("schedule"), "{shell}");
    }
}
