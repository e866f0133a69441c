//! `redrive.toml`.

use std::path::Path;

use redrive::config::{Config, ConfigReport, parse};

/// Longer files are only slower.
const MAX_BYTES: usize = 64 * 1024;

fn read(text: &str) -> Result<Config, ConfigReport> {
    parse(text, "redrive.toml", Path::new("/etc/redrive"))
}

/// A file is good, or every problem points into it and can be shown.
pub fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if text.len() > MAX_BYTES {
        return;
    }
    match (read(text), read(text)) {
        (Ok(config), Ok(again)) => {
            assert_eq!(format!("{config:?}"), format!("{again:?}"), "the same twice");
            let commented = read(&format!("{text}\n# nothing\n"));
            let commented = commented.unwrap_or_else(|report| panic!("{}", report.render(false)));
            assert_eq!(format!("{config:?}"), format!("{commented:?}"), "a comment says nothing");
        }
        (Err(report), Err(again)) => {
            assert_eq!(report.problems(), again.problems(), "the same twice");
            refused(text, &report);
        }
        _ => panic!("good once and bad once"),
    }
}

fn refused(text: &str, report: &ConfigReport) {
    assert!(!report.problems().is_empty(), "a file is not refused without a reason");
    let lines = text.matches('\n').count() + 1;
    for problem in report.problems() {
        let span = &problem.span;
        assert!(span.start <= span.end && span.end <= text.len(), "{problem:?} is not in the file");
        assert!(!problem.message.is_empty(), "{problem:?} says nothing");
        let (line, column) = report.position(problem);
        assert!((1..=lines).contains(&line) && column >= 1, "{problem:?} is at line {line}");
    }
    let shown = report.render(false);
    let control = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(control), "a file cannot move a cursor: {shown:?}");
    super::clear(&report.to_string(), 200);
}
