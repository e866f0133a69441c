use super::*;

fn calendar(at: &str, lag_days: u32) -> DailyCalendar {
    DailyCalendar { start: "2024-02-28".parse().unwrap(), at: at.parse().unwrap(), lag_days }
}

#[track_caller]
fn check(at: &str, lag_days: u32, now: &str, due: Option<&str>, wait: Duration) {
    let (calendar, now) = (calendar(at, lag_days), now.parse().unwrap());
    let last = calendar.due(now).map(|days| days.until().to_string());
    assert_eq!(last.as_deref(), due);
    assert_eq!(calendar.until_next(now), wait);
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
    let calendar = calendar("12:00", 3_650);
    assert_eq!(calendar.due(Timestamp::MIN), None);
    assert!(calendar.due(Timestamp::MAX).is_some());
    let _ = calendar.until_next(Timestamp::MAX);
}
