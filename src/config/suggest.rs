//! Suggestions for names that do not exist.

/// The closest of `names`, if a typing error could explain the difference.
pub(crate) fn nearest<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    // One error in four letters; beyond that a suggestion would be a guess.
    let distance_max = (given.chars().count() / 4).clamp(1, 4);
    let distances = names.into_iter().map(|name| {
        let distance = strsim::osa_distance(&given, &name.to_ascii_lowercase());
        (distance, name)
    });
    distances
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Shortest beginning of a name, in bytes, that is completed.
const BEGUN: usize = 3;

/// The shortest name with that beginning, or else the closest.
pub(crate) fn meant<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let begun = || {
        let names = names.clone().into_iter();
        let begun = names.filter(|name| given.len() >= BEGUN && name.starts_with(given));
        begun.min_by_key(|name| name.len())
    };
    begun().or_else(|| nearest(given, names))
}

/// Returns `; did you mean "name"?` if a name is close, else nothing.
pub(crate) fn question<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    meant(given, names).map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

/// Returns `; did you mean "level"? accepted: level, keys`.
pub(crate) fn accepting(given: &str, accepted: &[&str]) -> String {
    let question = question(given, accepted.iter().copied());
    let mark = if question.is_empty() { ";" } else { "" };
    format!("{question}{mark} accepted: {}", accepted.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_name_is_enough() {
        let names = ["report_by_script_and_status", "report_by_script_name", "info"];
        assert_eq!(meant("report_by_scrip", names), Some("report_by_script_name"));
        let closer = [&names[..], &["report_by_schema"]].concat();
        assert_eq!(meant("report_by_script", closer), Some("report_by_script_name"));
        assert_eq!(meant("inof", names), Some("info"));
        assert_eq!(meant("re", names), None);
        assert_eq!(meant("by_script_name_of", names), None);
        assert_eq!(nearest("report_by_scrip", names), None);
    }
}
