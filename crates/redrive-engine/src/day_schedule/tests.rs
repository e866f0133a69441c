use super::*;

fn schedule(at: &str, lag_days: u32) -> DaySchedule {
    DaySchedule {
        customers: vec!["1".to_owned()],
        queries: vec!["q".to_owned()],
        at: at.parse().unwrap(),
        lag_days,
        start: "2024-02-28".parse().unwrap(),
    }
}

#[track_caller]
fn check(at: &str, lag_days: u32, now: &str, due: Option<&str>, wait: Duration) {
    let (schedule, now) = (schedule(at, lag_days), now.parse().unwrap());
    assert_eq!(schedule.last_due(now).map(|day| day.to_string()).as_deref(), due);
    assert_eq!(schedule.until_next(now), wait);
}

#[test]
fn a_day_is_due_when_its_lag_has_passed_and_its_time_has_come() {
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    check("04:00", 1, "2024-03-01T03:00:00Z", Some("2024-02-28"), hours(1));
    check("04:00", 1, "2024-03-01T04:00:00Z", Some("2024-02-29"), hours(24));
    check("00:00", 0, "2024-02-29T00:00:00Z", Some("2024-02-29"), hours(24));
    check("00:00", 0, "2024-02-27T23:00:00Z", None, hours(1));
    check("23:00", 3_650, "2034-12-31T23:30:00Z", Some("2025-01-02"), Duration::from_secs(84_600));
}

#[test]
fn the_beginning_and_the_end_of_time_are_no_trouble() {
    let schedule = schedule("12:00", 3_650);
    assert_eq!(schedule.last_due(Timestamp::MIN), None);
    assert!(schedule.last_due(Timestamp::MAX).is_some());
    let _ = schedule.until_next(Timestamp::MAX);
}
