//! Attributes the time of a request: each instant belongs to the set of resources in use then.
//!
//! ```text
//!   client_in  |------------|
//!   server_in                  |---------|
//!   disk_out                      |---------------|  had not ended: it still runs at the end
//!   request    |------------|--|--|------|--------|
//!               client    proxy  |disk+   disk
//!                            server server
//! ```
//!
//! The times of all sets add up to the time of the request, so shares of them add up, unlike those
//! of activities.

use std::sync::LazyLock;

use super::activity::{Activity, Measure, Measures, Resource};
use crate::value::text::joined;

/// The detail of a format on activities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    #[default]
    Nothing,
    /// The time of name look-ups, and the server's side (this, in microseconds); the rest is client
    /// or proxy.
    Totals(Option<u64>),
    /// The start of each.
    Starts,
}

/// Names of sets of resources, indexed by bits `1 << Resource as usize`.
static SETS: LazyLock<[String; 1 << Resource::COUNT]> = LazyLock::new(|| {
    std::array::from_fn(|bits| {
        let used = Resource::ALL.into_iter().filter(|it| bits & 1 << *it as usize != 0);
        match joined(used.map(Resource::name), "+") {
            none if none.is_empty() => "proxy".to_owned(),
            used => used,
        }
    })
});

/// Time outside of server and name server, if starts are unknown.
const REST: &str = "client or proxy";

/// The whole time, if nothing is known of activities.
const UNKNOWN: &str = "unknown";

/// Calls `found` with each set that has a part in `elapsed_us` microseconds, and that part.
pub(super) fn bottlenecks(
    elapsed_us: u64,
    measures: &Measures,
    detail: Detail,
    mut found: impl FnMut(&'static str, u64),
) {
    let mut found = |set, us| {
        if us > 0 {
            found(set, us);
        }
    };
    match detail {
        Detail::Nothing => found(UNKNOWN, elapsed_us),
        Detail::Totals(server) => {
            let mut left = elapsed_us;
            // Rounded milliseconds may add up to more than the whole.
            let mut part = |us: Option<u64>| {
                let us = us.unwrap_or(0).min(left);
                left = left.saturating_sub(us);
                us
            };
            let dns = measures.get(Activity::Dns as usize);
            found("dns", part(dns.and_then(|it| it.total_us)));
            found("server", part(server));
            found(REST, left);
        }
        Detail::Starts => {
            for (set, us) in SETS.iter().zip(sweep(elapsed_us, measures)) {
                found(set.as_str(), us);
            }
        }
    }
}

/// The time of each set, by index.
fn sweep(elapsed_us: u64, measures: &Measures) -> [u64; 1 << Resource::COUNT] {
    // A started activity runs until its end or, if it had not ended, until that of the request;
    // never longer.
    let run = |it: &Measure| {
        let start = it.start_us.unwrap_or(u64::MAX);
        let total = it.total_us.unwrap_or(u64::MAX);
        (start.min(elapsed_us), start.saturating_add(total).min(elapsed_us))
    };
    let runs = measures.map(|it| run(&it));
    let mut edges = [elapsed_us; 2 * Activity::COUNT + 1];
    for (edge, at) in edges.iter_mut().zip(runs.iter().flat_map(|(a, b)| [*a, *b])) {
        *edge = at;
    }
    edges.sort_unstable();
    let mut times = [0_u64; _];
    let mut begins = 0;
    for ends in edges {
        let busy = Activity::ALL.iter().zip(&runs).fold(0, |busy, (it, (from, to))| {
            match *from <= begins && ends <= *to && begins < ends {
                true => busy | 1 << it.resource() as usize,
                false => busy,
            }
        });
        if let Some(time) = times.get_mut(busy) {
            *time = time.saturating_add(ends.saturating_sub(begins));
        }
        begins = ends;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::squid::line::{Line, parse};

    fn sets(line: &str) -> Vec<(&'static str, u64)> {
        let Ok(Line::Request(it)) = parse(line.as_bytes(), false) else { panic!("{line}") };
        let mut sets = Vec::new();
        let elapsed_us = it.elapsed_ms * 1000;
        bottlenecks(elapsed_us, &it.activities, it.detail, |set, us| {
            sets.push((set, us));
        });
        assert_eq!(sets.iter().map(|(_, us)| us).sum::<u64>(), elapsed_us);
        sets
    }

    #[test]
    fn every_instant_belongs_to_one_set() {
        let patch = |elapsed: u32, triples: &str| {
            let line = format!("1.000 {elapsed} c TCP_MISS/200 1 GET http://h/ - DIRECT/h -");
            sets(&format!("{line} {triples}"))
        };
        // The patch's own sample: the disk had not finished writing.
        assert_eq!(
            patch(
                111,
                "0/55320/55320 72028/1395/38993 57173/3795/4674 61847/10181/26720 -2/-2/-2 88567/-2/-2"
            ),
            [
                ("proxy", 1_853),
                ("client", 55_320),
                ("client+disk", 22_433),
                ("server", 14_855),
                ("client+server", 16_539),
            ]
        );
        // The other sample: reads for another request are not part of this one, and nothing is
        // longer than the request.
        assert_eq!(
            patch(2, "0/1453/1453 1453/1205/1205 -2/-2/-2 -2/-2/-2 -2/-2/-2 -38024/16356/16356"),
            [("client", 2_000)]
        );
        let nothing = "-2/-2/-2 -2/-2/-2 -2/-2/-2 -2/-2/-2 -2/-2/-2 -2/-2/-2";
        assert_eq!(patch(3, nothing), [("proxy", 3_000)]);
        assert_eq!(patch(0, nothing), []);
        // A start alone never ended; a total alone cannot be placed.
        assert_eq!(
            patch(
                10,
                "-2/-2/-2 -2/-2/-2 1000/-2/9223372036854775807 -2/1/1 2000/1000/3000 5000/1/9000"
            ),
            [("proxy", 1_000), ("server", 1_000), ("disk+server", 8_000)]
        );
    }

    #[test]
    fn without_starts_what_cannot_be_told_apart_is_one() {
        let today = |members: &str| sets(&format!("sq1 start=1.000 ss=TCP_MISS {members}"));
        assert_eq!(
            today("tr=32 dt=20 pt=4 tt=7"),
            [("dns", 20_000), ("server", 7_000), ("client or proxy", 5_000)]
        );
        assert_eq!(today("tr=3 dt=- pt=- tt=-"), [("client or proxy", 3_000)]);
        // It never answered.
        assert_eq!(today("tr=9 dt=- pt=- tt=8"), [("server", 8_000), ("client or proxy", 1_000)]);
        assert_eq!(today("tr=3 dt=2 pt=2 tt=2"), [("dns", 2_000), ("server", 1_000)]);
        assert_eq!(today("tr=0 dt=- pt=- tt=-"), []);
        assert_eq!(
            sets("1.000 9 c TCP_MISS/200 1 GET http://h/ - DIRECT/h -"),
            [("unknown", 9_000)]
        );
    }

    #[test]
    fn sets_are_called_by_what_is_in_them() {
        let names = [0, 1, 10, 15].map(|bits| SETS[bits].as_str());
        assert_eq!(names, ["proxy", "client", "disk+server", "client+disk+dns+server"]);
    }
}
