//! Readers of single values: text, numbers, times, names, and lists of them.
//!
//! Each reader is a function from a [`Value`] to an `Option`. A reader notes a problem and returns
//! `None`.

use std::{
    collections::HashSet, fmt::Display, hash::Hash, ops::RangeInclusive, str::FromStr,
    time::Duration,
};

use jiff::civil::{Date, Time};
use redrive_core::{HumanDuration, MAX_KEY_BYTES};
use toml::de::DeValue;

use super::{log::UniqueNames, reader::Value};
use crate::nearest::nearest;

pub(super) fn text(value: Value<'_>) -> Option<String> {
    match value.node {
        DeValue::String(text) => Some(text.to_string()),
        _ => value.refuse_type("text in quotes"),
    }
}

pub(super) fn flag(value: Value<'_>) -> Option<bool> {
    match value.node {
        DeValue::Boolean(flag) => Some(*flag),
        _ => value.refuse_type("true or false"),
    }
}

/// Text that implements [`FromStr`]. The error text has the form `problem: what is allowed`.
pub(super) fn parsed<T>(value: Value<'_>) -> Option<T>
where
    T: FromStr,
    T::Err: Display,
{
    match text(value.clone())?.parse() {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            let written = error.to_string();
            let (message, allowed) = written.split_once(": ").unwrap_or((&written, ""));
            value.refuse(message, allowed)
        }
    }
}

/// The name of a declared queue, source, upload, pipeline, stage, policy or notifier.
pub(super) fn name(value: Value<'_>) -> Option<String> {
    let name = text(value.clone())?;
    match wrong_name(&name) {
        None => Some(name),
        Some(problem) => value.refuse(format!("{:?} is not a name", shorten(&name)), problem),
    }
}

/// Why a text cannot be a name. Names become part of keys, paths and log lines.
pub(super) fn wrong_name(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a name must not be empty")
    } else if name.len() > MAX_KEY_BYTES {
        Some("the name is too long; 512 bytes are allowed")
    } else if name.chars().any(char::is_control) {
        Some("a name must not contain control characters")
    } else if name.trim() != name {
        Some("a name must not begin or end with a space")
    } else {
        None
    }
}

/// A name that is unique among its kind.
pub(super) fn unique_name<'a>(
    kind: &'static str,
    taken: &mut UniqueNames,
) -> impl FnOnce(Value<'a>) -> Option<String> {
    move |value| {
        let name = name(value.clone())?;
        value.take_name(&name, kind, taken);
        Some(name)
    }
}

/// One of a fixed set of words.
pub(super) fn word<T: Clone>(words: &[(&'static str, T)]) -> impl Fn(Value<'_>) -> Option<T> {
    move |value| {
        let written = text(value.clone())?;
        if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == written) {
            return Some(meaning.clone());
        }
        let allowed: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let message = format!("{:?} is not allowed", shorten(&written));
        let allowed = format!("write {}", allowed.join(" or "));
        match nearest(&written, words.iter().map(|(word, _)| *word)) {
            Some(word) => {
                value.refuse_with_help(message, allowed, format!("did you mean {word:?}?"))
            }
            None => value.refuse(message, allowed),
        }
    }
}

/// A whole number within a range.
pub(super) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(Value<'_>) -> Option<T>
where
    T: Copy + Display + PartialOrd + TryFrom<u128>,
{
    move |value| {
        let DeValue::Integer(written) = value.node else {
            return value.refuse_type("a whole number");
        };
        let number = u128::from_str_radix(written.as_str(), written.radix()).ok();
        let number = number.and_then(|number| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).or_else(|| {
            let allowed = format!("from {} to {}", range.start(), range.end());
            value.refuse(format!("{written} is not allowed"), allowed)
        })
    }
}

/// A finite number.
pub(super) fn number(value: Value<'_>) -> Option<f64> {
    let (number, written) = match value.node {
        DeValue::Float(float) => (float.as_str().parse().ok(), float.to_string()),
        DeValue::Integer(integer) => {
            let whole = i64::from_str_radix(integer.as_str(), integer.radix());
            (whole.ok().map(|whole| whole as f64), integer.to_string())
        }
        _ => return value.refuse_type("a number"),
    };
    let finite = number.filter(|number: &f64| number.is_finite());
    finite.or_else(|| value.refuse(format!("{written} is not allowed"), "a finite number"))
}

/// A number within a range.
pub(super) fn number_in(range: RangeInclusive<f64>) -> impl Fn(Value<'_>) -> Option<f64> {
    move |value| {
        let number = number(value.clone())?;
        if range.contains(&number) {
            return Some(number);
        }
        let allowed = format!("from {} to {}", range.start(), range.end());
        value.refuse(format!("{number} is not allowed"), allowed)
    }
}

/// A duration, such as `"5m"`.
pub(super) fn duration(value: Value<'_>) -> Option<Duration> {
    if !matches!(value.node, DeValue::String(_)) {
        return value.refuse_type("a duration in quotes, such as \"30s\" or \"5m\"");
    }
    parsed::<HumanDuration>(value).map(Duration::from)
}

/// A duration within a range.
pub(super) fn duration_in(
    range: RangeInclusive<Duration>,
) -> impl Fn(Value<'_>) -> Option<Duration> {
    move |value| {
        let duration = duration(value.clone())?;
        if range.contains(&duration) {
            return Some(duration);
        }
        let [given, least, most] =
            [duration, *range.start(), *range.end()].map(HumanDuration::from);
        value.refuse(format!("{given} is not allowed"), format!("from {least} to {most}"))
    }
}

/// A calendar day such as `2026-01-31`, with or without quotes.
pub(super) fn date(value: Value<'_>) -> Option<Date> {
    let written = text_or_time(&value, "a day such as \"2026-01-31\"")?;
    let shaped = written.len() == 10 && !written.starts_with("0000");
    let day = written.parse().ok().filter(|_| shaped);
    day.or_else(|| {
        value.refuse(
            format!("{:?} is not a day", shorten(&written)),
            "write a calendar day as YYYY-MM-DD",
        )
    })
}

/// A time of day such as `04:00`.
pub(super) fn time_of_day(value: Value<'_>) -> Option<Time> {
    let written = text_or_time(&value, "a time of day such as \"04:00\"")?;
    let shaped =
        matches!(written.as_bytes(), [_, _, b':', _, _] | [_, _, b':', _, _, b':', b'0', b'0']);
    let time = written.parse().ok().filter(|_| shaped);
    time.or_else(|| {
        value.refuse(
            format!("{:?} is not a time of day", shorten(&written)),
            "write hours and minutes, from 00:00 to 23:59",
        )
    })
}

/// TOML has literals for dates and times; quoted text is accepted too.
fn text_or_time(value: &Value<'_>, wanted: &str) -> Option<String> {
    match value.node {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Datetime(datetime) => Some(datetime.to_string()),
        _ => value.refuse_type(wanted),
    }
}

/// A list with at least one element, all of which must be valid.
pub(super) fn list<'a, T>(
    item: impl Fn(Value<'a>) -> Option<T>,
) -> impl Fn(Value<'a>) -> Option<Vec<T>> {
    move |value| {
        let items = value.items()?;
        if items.is_empty() {
            return value.refuse("must not be empty", "give at least one");
        }
        let count = items.len();
        let read: Vec<T> = items.into_iter().filter_map(&item).collect();
        (read.len() == count).then_some(read)
    }
}

/// A list that may be empty; all elements must be valid and unique.
pub(super) fn set<'a, T: Clone + Eq + Hash>(
    item: impl Fn(Value<'a>) -> Option<T>,
) -> impl Fn(Value<'a>) -> Option<Vec<T>> {
    move |value| {
        let items = value.items()?;
        let count = items.len();
        let (mut set, mut seen) = (Vec::new(), HashSet::new());
        for element in items {
            let Some(read) = item(element.clone()) else {
                continue;
            };
            if !seen.insert(read.clone()) {
                element.refuse::<()>("is in the list twice", "remove one");
                continue;
            }
            set.push(read);
        }
        (set.len() == count).then_some(set)
    }
}

/// Limits how much of a user's text a message repeats.
pub(super) fn shorten(text: &str) -> String {
    const MAX_QUOTED_CHARS: usize = 80;
    text.chars().take(MAX_QUOTED_CHARS).collect()
}
