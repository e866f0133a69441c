//! What a crash report says in one line.

use redrive_core::headline;

const PYTHON: &str = r#"fetching
Traceback (most recent call last):
  File "/app/work.py", line 30, in <module>
    main()
    ~~~~^^
  File "/app/work.py", line 12, in fetch
    raise ValueError("bad day")
ValueError: bad day
closing"#;

const PYTHON_IN_LIBRARIES: &str = r#"Traceback (most recent call last):
  File "/app/a.py", line 1, in first
    step()
KeyError: 1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/work.py", line 3, in <module>
    os.environ["API_KEY"]
  File "/usr/lib/python3.12/os.py", line 714, in getenv
  File "<frozen os>", line 714, in __getitem__
KeyError: 'API_KEY'"#;

const PYTHON_SYNTAX: &str = r#"  File "/app/bad.py", line 1
    def f(
         ^
SyntaxError: '(' was never closed"#;

const PYTHON_TASKS: &str = r#"  + Exception Group Traceback (most recent call last):
  |   File "/app/work.py", line 8, in main
  |     async with asyncio.TaskGroup() as group:
  |   File "/usr/lib/python3.12/asyncio/taskgroups.py", line 145, in __aexit__
  |     raise me from None
  | ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/work.py", line 4, in fetch
    |     raise ValueError("bad day")
    | ValueError: bad day
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/app/work.py", line 6, in store
    |     raise OSError("bad disk")
    | OSError: bad disk
    +------------------------------------"#;

const PYTHON_GROUPS: &str = r#"  + Exception Group Traceback (most recent call last):
  |   File "/app/work.py", line 2, in all_days
  |     raise ExceptionGroup("days", errors)
  | ExceptionGroup: days (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: first
    +---------------- 2 ----------------
    | ExceptionGroup: inner (2 sub-exceptions)
    +-+---------------- 1 ----------------
      | KeyError: 'k'
      +---------------- 2 ----------------
      | TypeError: last
of two lines
      +---------------- ... ----------------
      | and 3 more exceptions
      +------------------------------------"#;

const RUST: &str = "thread 'main' (417) panicked at src/main.rs:4:5:
bad day
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";

const GO: &str = "panic: bad day

goroutine 1 [running]:
main.fetch(...)
\t/app/main.go:12
main.main()
\t/app/main.go:20 +0x1d
exit status 2";

const NODE: &str = r#"/app/work.js:3
    throw new Error("bad day");
    ^

TypeError: bad day
    at fetch (/app/work.js:3:11)
    at /app/work.js:6:1

Node.js v22.1.0"#;

const JAVA: &str = r#"Exception in thread "main" java.lang.RuntimeException: outer
	at Work.main(Work.java:5)
Caused by: java.lang.IllegalStateException: bad day
	at com.example.Work.fetch(Work.java:12)
	... 1 more"#;

// CLS-4
#[test]
fn a_crash_report_says_its_error_and_its_place() {
    for (report, expected) in [
        (PYTHON, "ValueError: bad day (work.py:12 in fetch)"),
        (PYTHON_IN_LIBRARIES, "KeyError: 'API_KEY' (work.py:3 in <module>)"),
        (PYTHON_SYNTAX, "SyntaxError: '(' was never closed (bad.py:1)"),
        (PYTHON_TASKS, "OSError: bad disk (work.py:6 in store)"),
        (PYTHON_GROUPS, "TypeError: last (work.py:2 in all_days)"),
        (RUST, "panic: bad day (src/main.rs:4)"),
        (GO, "panic: bad day (main.go:12 in main.fetch)"),
        (NODE, "TypeError: bad day (work.js:3 in fetch)"),
        (
            JAVA,
            "Caused by: java.lang.IllegalStateException: bad day (Work.java:12 in com.example.Work.fetch)",
        ),
    ] {
        assert_eq!(headline(report).as_deref(), Some(expected), "{report}");
    }
}

// CLS-4
#[test]
fn other_text_is_no_crash_report() {
    for text in [
        "",
        "out of memory",
        "error: no such flag\n\nUsage: work [DAY]",
        "look\n    at the moon",
        "  File \"a.py\", line 3",
        "Fatal Python error: Segmentation fault\n  File \"a.py\", line 3 in f\n\nExtension modules: a",
        "  + Exception Group Traceback (most recent call last):\n  | ExceptionGroup: days",
        "panic: at the disco",
        "thread 'main' panicked at",
        "goroutine 1 [running]:",
    ] {
        assert_eq!(headline(text), None, "{text}");
    }
}
