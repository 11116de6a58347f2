//! Suggestions for names that do not exist.

/// Shortest part of a name, in bytes, that is completed.
const BEGUN: usize = 3;

/// The shortest name with that beginning, or else the shortest of which less than half of the
/// letters are left out, or else the closest, if a typing error could explain the difference, or a
/// longer ending does.
pub(crate) fn meant<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    // One error in each four letters; beyond that a suggestion would be a guess.
    let distance_max = given.chars().count().div_ceil(4).min(4);
    let close = names.into_iter().filter_map(|name| {
        let lower = name.to_ascii_lowercase();
        let is_begun = given.len() >= BEGUN && lower.starts_with(&given);
        let distance = strsim::osa_distance(&given, &lower);
        let rank = match is_begun {
            true => 0,
            false if abbreviates(&given, &lower) => 1,
            false if distance <= distance_max => 1 + distance,
            false if lower.len() > BEGUN && given.starts_with(&lower) => 1 + distance,
            false => return None,
        };
        Some((rank, name))
    });
    close.min_by_key(|(rank, name)| (*rank, if *rank < 2 { name.len() } else { 0 })).map(|it| it.1)
}

/// Whether `given` is `name` without some letters, but not without the first one.
fn abbreviates(given: &str, name: &str) -> bool {
    let mut letters = name.chars();
    let is_enough = given.len() >= BEGUN && given.len() * 2 > name.len();
    is_enough
        && given.chars().next() == name.chars().next()
        && given.chars().all(|it| letters.any(|other| other == it))
}

/// Returns `; did you mean "name"?` if a name is close, else nothing.
pub(crate) fn question<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
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
        assert_eq!(meant("information", names), Some("info"));
        assert_eq!(meant("by_script_name_of", names), None);
    }

    #[test]
    fn letters_that_are_left_out_are_filled_in() {
        let reports = ["report_by_schema", "report_by_script_and_status", "report_by_script_name"];
        let columns = ["req_per_sec", "req_count", "req_time_total"];
        for (given, names, name) in [
            ("report_by_scrpt", &reports[..], Some("report_by_script_name")),
            ("req_cnt", &columns, Some("req_count")),
            ("Req_Tme_Total", &columns, Some("req_time_total")),
            ("polls", &["http", "pool"], Some("pool")),
            ("selct", &["set", "select"], Some("select")),
            ("state", &["http", "mysql"], None),
            ("rct", &columns, None),
            ("", &["x"], None),
        ] {
            assert_eq!(meant(given, names.iter().copied()), name, "{given}");
        }
    }
}
