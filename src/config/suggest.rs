//! What was probably meant by a name that does not exist.

use super::settings::KEYS;

/// Settings of Pinba's engines under the name they have in `my.cnf`.
const PINBA_NAMES: [(&str, &str); 4] = [
    ("address", "ingest.listen"),
    ("port", "ingest.listen"),
    ("log_level", "log.level"),
    ("default_history_time_sec", "pool.stats_history"),
];

/// The nearest of `names`, if it is but a typing error away.
pub(super) fn nearest<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let given = given.to_ascii_lowercase();
    // One error in four letters; with more the suggestion is a guess at something else.
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

/// The key that was probably meant: misspelt, or right but in the wrong section, or under Pinba's name.
pub(super) fn nearest_key(given: &str) -> Option<&'static str> {
    if let Some(name) = nearest(given, KEYS.iter().map(|key| key.name)) {
        return Some(name);
    }
    let last = given.rsplit('.').next().unwrap_or(given);
    let last = last.to_ascii_lowercase();
    let last = last.strip_prefix("pinba_").unwrap_or(&last);
    // A name that several sections have says nothing ("listen"): only the section could tell.
    let mut same = KEYS.iter().filter(|key| key.parts().1 == last);
    match (same.next(), same.next()) {
        (Some(key), None) => Some(key.name),
        _ => PINBA_NAMES
            .iter()
            .find(|(name, _)| *name == last)
            .map(|(_, key)| *key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::sections;

    #[test]
    fn near_misses_are_recognised_and_far_ones_are_not() {
        for (given, meant) in [
            ("pool.stats_histroy", Some("pool.stats_history")),
            ("pool.stat_history", Some("pool.stats_history")),
            ("Pool.Stats_History", Some("pool.stats_history")),
            ("stats_history", Some("pool.stats_history")),
            ("ingest.stats_history", Some("pool.stats_history")),
            ("pinba_temp_pool_size", Some("ingest.temp_pool_size")),
            ("pinba_port", Some("ingest.listen")),
            ("listen", None),
            ("http.tls", None),
        ] {
            assert_eq!(nearest_key(given), meant, "{given}");
        }
        assert_eq!(nearest("htpp", sections()), Some("http"));
        assert_eq!(nearest("state", ["http", "mysql"]), None);
    }
}
