//! The names in generated traffic: hosts, servers, scripts, statuses and tags such as a PHP shop
//! sends.
//!
//! Pure functions from a number to a text, so a corpus of any width needs no lists; different
//! numbers have different names. With the default options they make packets of about 171 bytes
//! without timers, 443 with five timers of three tags: the sizes quoted with our measurements.

/// Returns the name of host number `index`.
pub(super) fn host(index: u32) -> String {
    format!("web-{:03}.fra1.dc.example.net", index + 1)
}

/// Returns the name of server number `index`; the first few have special names.
pub(super) fn server(index: u32) -> String {
    const NAMED: [&str; 10] =
        ["www", "api", "admin", "blog", "static", "search", "account", "pay", "mobile", "partner"];
    match NAMED.get(index as usize) {
        Some(name) => format!("{name}.shop.example.com"),
        None => format!("site-{index}.shop.example.com"),
    }
}

/// Returns the name of script number `index`; the most popular comes first.
pub(super) fn script(index: u32) -> String {
    const AREAS: [&str; 8] =
        ["catalog", "cart", "checkout", "account", "search", "content", "orders", "reviews"];
    const ACTIONS: [&str; 6] = ["view", "list", "edit", "update", "history", "suggest"];
    let area = AREAS[index as usize % AREAS.len()];
    let action = ACTIONS[index as usize / AREAS.len() % ACTIONS.len()];
    format!("/var/www/shop-frontend/releases/current/public/index.php/{area}/{action}/{index:04}")
}

/// Returns HTTP status number `index`: 200 first, then the usual ones of a site, then the rest from
/// 100 to 599.
pub(super) fn status(index: u32) -> u32 {
    const FREQUENT: [u32; 12] = [200, 302, 404, 500, 304, 503, 403, 301, 201, 204, 400, 401];
    let rest = (100..600).filter(|status| !FREQUENT.contains(status));
    let mut all = FREQUENT.into_iter().chain(rest);
    all.nth(index as usize).unwrap_or(999)
}

/// Returns the name of schema number `index`.
pub(super) fn schema(index: u32) -> String {
    match index {
        0 => "https".to_owned(),
        1 => "http".to_owned(),
        _ => format!("schema{index}"),
    }
}

/// A backend that requests wait for: the value of tag `group`, the prefix of its servers' names,
/// values of tag `operation`, and the most hits of one timer (caches are asked many times).
pub(super) type Backend = (&'static str, &'static str, [&'static str; 4], u32);

/// The backends.
pub(super) const BACKENDS: [Backend; 5] = [
    ("mysql", "db", ["select", "insert", "update", "delete"], 4),
    ("memcached", "mc", ["get", "set", "multi_get", "delete"], 20),
    ("redis", "redis", ["get", "set", "incr", "expire"], 8),
    ("http", "svc", ["GET", "POST", "PUT", "DELETE"], 2),
    ("elastic", "es", ["search", "index", "count", "bulk"], 2),
];

/// Returns the value of tag `group` for timers that have no other tag, where five backends may be
/// too few.
pub(super) fn group(index: u32) -> String {
    match BACKENDS.get(index as usize) {
        Some((group, ..)) => (*group).to_owned(),
        None => format!("group{index}"),
    }
}

/// Returns the name of timer tag number `index`, from 3 on (group, server and operation are the
/// first three).
pub(super) fn timer_tag_name(index: u32) -> String {
    const NAMES: [&str; 4] = ["table", "cluster", "pool", "caller"];
    match NAMES.get(index as usize - 3) {
        Some(name) => (*name).to_owned(),
        None => format!("tag{index:02}"),
    }
}

/// Returns name and value of request tag number `index`; `draw` chooses among its values.
pub(super) fn request_tag(index: u32, draw: u32) -> (String, String) {
    const RELEASES: [&str; 3] = ["2024.11.2", "2024.11.1", "2024.10.7"];
    const REGIONS: [&str; 3] = ["eu", "us", "asia"];
    let third = draw as usize % 3;
    let (name, value) = match index {
        0 if draw.is_multiple_of(20) => ("env", "staging".to_owned()),
        0 => ("env", "production".to_owned()),
        1 => ("release", RELEASES[third].to_owned()),
        2 => ("region", REGIONS[third].to_owned()),
        3 => ("experiment", format!("variant-{}", draw % 4)),
        _ => return (format!("note{index:03}"), format!("value{}", draw % 10)),
    };
    (name.to_owned(), value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn different_numbers_have_different_names() {
        let count = 3000;
        for names in [
            (0..count).map(host).collect::<HashSet<_>>(),
            (0..count).map(server).collect(),
            (0..count).map(script).collect(),
            (0..count).map(schema).collect(),
            (0..count).map(group).collect(),
            (3..count + 3).map(timer_tag_name).collect(),
        ] {
            assert_eq!(names.len(), count as usize);
        }
        let statuses: HashSet<u32> = (0..400).map(status).collect();
        assert_eq!(statuses.len(), 400);
        assert!(statuses.iter().all(|status| (100..600).contains(status)));
    }
}
