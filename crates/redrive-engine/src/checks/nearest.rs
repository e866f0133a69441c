//! "Did you mean …?" for misspelled names.

/// The known name nearest to `written`, if the edit distance is at most a third of the length.
///
/// Case is ignored and `_` equals `-`, so `max_attempts` finds `max-attempts`.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let normalized = normalize(written);
    let max_distance = (normalized.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&normalized, &normalize(name)), name))
        .filter(|(distance, _)| *distance <= max_distance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Bounds the cost of a comparison.
const MAX_COMPARED_CHARS: usize = 64;

fn normalize(name: &str) -> String {
    name.chars()
        .take(MAX_COMPARED_CHARS)
        .map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() })
        .collect()
}

/// A hint for an unknown name: the nearest known name, or the list of all.
pub fn suggestion<'a>(written: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(written, known.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => {
            let known: Vec<&str> = known.into_iter().collect();
            format!("known names: {}", known.join(", "))
        }
    }
}
