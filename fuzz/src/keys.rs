//! Units, keys of partitions, days, durations, ids of runs, and the names of stores and sinks.

use std::{
    fmt::{Debug, Display},
    path::{Component, Path},
    str::FromStr,
};

use redrive::{
    HumanDuration, Jitter, LogicalDate, MAX_KEY_BYTES, PartitionKey, PartitionRunId, RawSink,
    StoreUrl, Unit, config::RawUrl,
};

/// What is refused is shown in part.
const REFUSAL_CHARS: usize = 800;

/// Reads, and if it can be read, writes and reads again.
fn there_and_back<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            let written = value.to_string();
            let again = written.parse::<T>();
            let again = again.unwrap_or_else(|error| panic!("{text:?} as {written:?}: {error}"));
            assert_eq!(again, value, "{text:?} as {written:?}");
            assert_eq!(again.to_string(), written, "written once, it stays so");
        }
        Err(refusal) => super::clear(&refusal.to_string(), REFUSAL_CHARS),
    }
}

/// Whatever can be read is written so that it can be read again, and no key leaves its root.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    there_and_back::<Unit>(&text);
    there_and_back::<PartitionKey>(&text);
    there_and_back::<LogicalDate>(&text);
    there_and_back::<HumanDuration>(&text);
    if let Ok(url) = text.parse::<StoreUrl>() {
        assert!(!url.to_string().chars().any(char::is_control), "{url}");
    }
    _ = text.parse::<RawUrl>();
    _ = text.parse::<Jitter>();
    if let Ok(unit) = text.parse::<Unit>() {
        assert!(unit.to_string().bytes().all(|byte| byte.is_ascii_graphic()), "{unit}");
    }
    parts(&text);
}

/// The same bytes as the parts of a key, which are data.
fn parts(text: &str) {
    let mut parts = text.splitn(4, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let [source, customer, query, run] = [part(), part(), part(), part()];
    let day = LogicalDate::MIN;
    let allowed = |part: &str| (1..=MAX_KEY_BYTES).contains(&part.len()) && !part.contains('\0');
    let key = match PartitionKey::new(source, customer, query, day) {
        Ok(key) => key,
        Err(refusal) => {
            assert!(![source, customer, query].into_iter().all(allowed), "{refusal}");
            return super::clear(&refusal.to_string(), REFUSAL_CHARS);
        }
    };
    assert!([source, customer, query].into_iter().all(allowed), "{key}");
    assert_eq!((key.source(), key.customer_id(), key.query_name()), (source, customer, query));
    there_and_back::<PartitionKey>(&key.to_string());
    let Ok(run) = run.parse::<PartitionRunId>() else { return };
    let place = RawSink::folder("/raw").location(&key, &run).payload;
    let path = place.strip_prefix("file:").unwrap_or(&place);
    let inside = Path::new(path).strip_prefix("/raw").unwrap_or_else(|_| panic!("{place}"));
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    assert_eq!(inside.components().filter(|part| plain(*part)).count(), 6, "{place}");
    assert!(inside.components().all(plain), "{place}");
}
