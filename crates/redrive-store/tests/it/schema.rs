//! Planning migrations.

use redrive_store::{Direction, Error, Migration, plan_steps, require_version};

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "one", up: "up 1", down: "down 1" },
    Migration { version: 2, name: "two", up: "up 2", down: "down 2" },
    Migration { version: 3, name: "three", up: "up 3", down: "down 3" },
];

#[track_caller]
fn check(current: u32, target: u32, expected: &[&str]) {
    let steps = plan_steps(MIGRATIONS, current, target).unwrap();
    let sql: Vec<&str> = steps.iter().map(redrive_store::MigrationStep::sql).collect();
    assert_eq!(sql, expected);
    let up = target >= current;
    assert!(steps.iter().all(|step| (step.direction == Direction::Up) == up));
}

// OPS-2
#[test]
fn steps_go_up_in_order_and_down_in_reverse() {
    check(0, 3, &["up 1", "up 2", "up 3"]);
    check(1, 2, &["up 2"]);
    check(2, 2, &[]);
    check(3, 1, &["down 3", "down 2"]);
    check(3, 0, &["down 3", "down 2", "down 1"]);
}

// OPS-2
#[test]
fn a_newer_database_and_an_unknown_version_are_refused() {
    let newer = plan_steps(MIGRATIONS, 4, 1).unwrap_err();
    assert!(matches!(newer, Error::NewerSchema { found: 4, known: 3 }));
    let unknown = plan_steps(MIGRATIONS, 0, 4).unwrap_err();
    assert!(matches!(unknown, Error::UnknownVersion { asked: 4, known: 3 }));
}

// OPS-1
#[test]
fn a_store_needs_exactly_its_own_version() {
    require_version(3, 3).unwrap();
    assert!(matches!(require_version(2, 3), Err(Error::OlderSchema { found: 2, needed: 3 })));
    assert!(matches!(require_version(4, 3), Err(Error::NewerSchema { found: 4, known: 3 })));
}
