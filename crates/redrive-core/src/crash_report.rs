//! Finds what a crash report says: the error, with its place in the user's code.
//!
//! A crash report is long, and the error is in its middle or at its end, where a list of failures does not
//! show it.

/// `ValueError: bad day (work.py:12 in fetch)`, if the text has a report of Python, Rust, Go, Node.js or Java.
pub fn headline(report: &str) -> Option<String> {
    let lines: Vec<&str> = report.lines().map(str::trim_end).collect();
    [python_group, python, rust, go, stack].iter().find_map(|read| read(&lines))
}

/// The last exception of an `ExceptionGroup`, which Python draws as a tree with a section for each exception. An
/// exception that was never raised by itself has no frames; then the place is that of its group.
fn python_group(lines: &[&str]) -> Option<String> {
    let tree = lines.iter().map(|line| line.trim_start());
    let tree: Vec<&str> = tree.skip_while(|line| !line.starts_with("+ Exception Group ")).collect();
    let mut sections = tree
        .split(|line| line.starts_with("+-"))
        .map(|section| section.iter().copied().filter_map(tree_text).collect::<Vec<&str>>());
    let group = sections.next()?;
    sections.rev().find_map(|lines| {
        let raised_by_group =
            || Some(format!("{} ({})", python_error(&lines)?, python_place(&group)?));
        python(&lines).or_else(raised_by_group)
    })
}

/// `| ValueError: bad day` without the line of the tree.
fn tree_text(line: &str) -> Option<&str> {
    line.strip_prefix('|').map(|text| text.strip_prefix(' ').unwrap_or(text))
}

/// The frames, the innermost one last; then the error. Frames of the standard library and of packages say
/// less than those of the user's code.
fn python(lines: &[&str]) -> Option<String> {
    let last = lines.iter().rposition(|line| python_frame(line).is_some())?;
    let (frames, rest) = lines.split_at_checked(last + 1)?;
    let error = python_error(rest)?;
    let begin = frames.iter().rposition(|line| line.starts_with("Traceback ("));
    let place = python_place(frames.get(begin.unwrap_or_default()..).unwrap_or_default())?;
    Some(format!("{error} ({place})"))
}

/// `ValueError: bad day`: the first line that is not indented.
fn python_error<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let error = lines.iter().find(|line| !line.is_empty() && !line.starts_with([' ', '\t']))?;
    let name = error.split(':').next().unwrap_or_default();
    (!name.contains(char::is_whitespace)).then_some(error)
}

/// The innermost frame of the user's code, or of all.
fn python_place(lines: &[&str]) -> Option<String> {
    let frames = || lines.iter().rev().filter_map(|line| python_frame(line));
    let own = |(file, _): &(&str, String)| !file.starts_with('<') && !file.contains("/lib/python");
    frames().find(own).or_else(|| frames().next()).map(|(_, place)| place)
}

/// `  File "/app/work.py", line 12, in fetch`, as the file and `work.py:12 in fetch`.
fn python_frame(line: &str) -> Option<(&str, String)> {
    let frame = line.strip_prefix("  ")?.trim_start().strip_prefix("File \"")?;
    let (file, place) = frame.split_once("\", line ")?;
    let place = place.replace(", in ", " in ");
    Some((file, format!("{}:{place}", base_name(file))))
}

/// `thread 'main' panicked at src/main.rs:4:5:`, then the message.
fn rust(lines: &[&str]) -> Option<String> {
    let panicked = |line: &&str| line.starts_with("thread '") && line.contains(" panicked at ");
    let at = lines.iter().rposition(panicked)?;
    let (_, place) = lines.get(at)?.split_once(" panicked at ")?;
    let message = lines.get(at + 1)?;
    Some(format!("panic: {message} ({})", line_of(place.trim_end_matches(':'))))
}

/// `panic: bad day`, then `goroutine 1 [running]:`, the function and its place.
fn go(lines: &[&str]) -> Option<String> {
    let goroutine = lines.iter().position(|line| line.starts_with("goroutine "))?;
    let (before, frames) = lines.split_at_checked(goroutine)?;
    let error = before.iter().rfind(|line| line.starts_with("panic: "))?;
    let mut frames = frames.iter().skip(1).skip_while(|line| line.starts_with("panic("));
    let frame = frames.next().zip(frames.next()).and_then(|(function, place)| {
        let (function, _) = function.rsplit_once('(')?;
        let place = place.trim_start().split(" +").next()?;
        Some(format!(" ({} in {function})", base_name(place)))
    });
    Some(format!("{error}{}", frame.unwrap_or_default()))
}

/// `Error: bad day`, then `    at fetch (/app/work.js:3:11)`, the innermost frame first. The last report of
/// a chain is its cause.
fn stack(lines: &[&str]) -> Option<String> {
    let first = lines.windows(2).rposition(|pair| {
        let [before, line] = pair else { return false };
        stack_frame(before).is_none() && stack_frame(line).is_some()
    })?;
    let error = lines.get(first).filter(|line| line.contains(": "))?;
    let frame = stack_frame(lines.get(first + 1)?)?;
    let place = match frame.strip_suffix(')').and_then(|frame| frame.rsplit_once('(')) {
        Some((function, place)) => {
            format!("{} in {}", line_of(base_name(place)), function.trim_end())
        }
        None => line_of(base_name(frame)).to_owned(),
    };
    Some(format!("{error} ({place})"))
}

fn stack_frame(line: &str) -> Option<&str> {
    let frame = line.trim_start().strip_prefix("at ")?;
    (line.starts_with([' ', '\t']) && frame.contains(':')).then_some(frame)
}

/// `work.js:3:11` without its column.
fn line_of(place: &str) -> &str {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match place.rsplit_once(':') {
        Some((line, column)) if number(column) && line.rsplit(':').next().is_some_and(number) => {
            line
        }
        _ => place,
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}
