//! "Did you mean …?" for names people mistype.

/// The known name nearest to what was written, if one is near enough to be what was meant.
///
/// Case and `_` for `-` are no difference, so `max_attempts` finds `max-attempts`.
pub(crate) fn nearest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = plain(written);
    let longest_slip = (plain.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&plain, &self::plain(name)), name))
        .filter(|(slips, _)| *slips <= longest_slip)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// Names longer than this are not worth comparing letter by letter.
const MAX_COMPARED_CHARS: usize = 64;

fn plain(name: &str) -> String {
    name.chars()
        .take(MAX_COMPARED_CHARS)
        .map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() })
        .collect()
}

/// A help text for an unknown name: the nearest known one, or all of them.
pub(crate) fn suggestion<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    match nearest(written, known.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => {
            let known: Vec<&str> = known.into_iter().collect();
            format!("known are {}", known.join(", "))
        }
    }
}
