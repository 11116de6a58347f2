//! Sums over lines of Squid, their window, their bounds and their way through a snapshot.

use super::*;
use crate::input::squid::Source;
use crate::input::squid::line::{Line, parse};

fn source(window_secs: u32) -> std::sync::Arc<Source> {
    let config = crate::config::Config::from_toml("c", "[[squid]]\nlisten='udp://127.0.0.1:0'");
    let source = Source::new(config.unwrap().squids[0].clone());
    source.sums.lock().window_secs = window_secs;
    source
}

fn take(source: &Source, line: &str, secs: u32) {
    let mut sums = source.sums.lock();
    let next = sums.next;
    match parse(line.as_bytes(), false) {
        Ok(Line::Request(it)) => sums.answer(&it, secs, next.requests),
        Ok(Line::Swap(it)) => sums.swap(&it, secs, next.swaps, true),
        Err(error) => panic!("{line}: {error:?}"),
    }
}

#[test]
fn what_asking_saves_is_measured_by_misses_of_its_like() {
    let source = source(240);
    let line = |code: &str, ms: u64, more: &str| {
        format!("sq1 start=1.000 tr={ms} ss={code} out=500 mt=text/css url=http://h/x {more}")
    };
    for ms in 1..=9 {
        take(&source, &line("TCP_MISS", ms, "bs=400 peer=1.2.3.4:80"), 1000);
    }
    take(&source, &line("TCP_REFRESH_UNMODIFIED", 2, "bs=0 peer=1.2.3.4:80"), 1000);
    take(&source, &line("TCP_REFRESH_UNMODIFIED", 3, "bs=- peer=1.2.3.4:80"), 1000);
    take(&source, &line("TCP_IMS_HIT", 1, "bs=- peer=-:-"), 1000);
    take(&source, &line("TCP_HIT", 1, "bs=- peer=-:-"), 1000);
    let read = |secs| savings([&*source].into_iter(), secs);
    let [ims, refresh] = &read(1000)[..] else { panic!() };
    assert_eq!(ims.key, ["h", "text/css", "TCP_IMS_HIT"]);
    assert_eq!((ims.answers.known, ims.answers.saved_bytes), (1, 500));
    assert_eq!((ims.misses, ims.miss_median_ms), (9, None), "too few");
    let it = &refresh.answers;
    assert_eq!(
        (it.count, it.time_ms, it.sent_bytes, it.known, it.saved_bytes),
        (2, 5, 1000, 1, 500)
    );
    take(&source, &line("TCP_MISS", 100, "bs=400 peer=1.2.3.4:80"), 1239);
    assert_eq!(read(1239)[0].miss_median_ms, Some(5.5));
    assert_eq!(read(1240), [], "the misses alone are left");
    source.sums.lock().clear();
    assert_eq!(read(1000), []);
}

#[test]
fn nothing_is_saved_where_a_body_was_fetched() {
    let source = source(240);
    let line = |out: u64, bs: &str| {
        format!("sq1 start=1.000 tr=1 ss=TCP_REFRESH_MODIFIED out={out} bs={bs} peer=1.2.3.4:80")
    };
    let saved = || savings([&*source].into_iter(), 1000)[0].answers.saved_bytes;
    take(&source, &line(251, "6"), 1000);
    take(&source, &line(100_251, "100000"), 1000);
    assert_eq!(saved(), 0, "the head of an answer is not saved");
    take(&source, &line(300, "100000"), 1000);
    assert_eq!(saved(), -99_700, "more was fetched than sent");
    take(&source, &line(251, "0"), 1000);
    assert_eq!(saved(), -99_700, "the head of an answer with an empty body is not saved");
}

/// Nothing is fetched for any of these answers; the code says which was in the cache.
#[test]
fn what_is_saved_was_in_the_cache() {
    for (code, peer, expected) in [
        ("TCP_REFRESH_UNMODIFIED", "1.2.3.4:80", 551),
        ("TCP_REFRESH_UNMODIFIED_ABORTED", "1.2.3.4:80", 551),
        ("TCP_REFRESH_FAIL_OLD", "1.2.3.4:80", 551),
        ("TCP_REFRESH_MODIFIED", "1.2.3.4:80", 0),
        ("TCP_REFRESH_MODIFIED_ABORTED", "1.2.3.4:80", 0),
        ("TCP_CLIENT_REFRESH_MISS", "1.2.3.4:80", 0),
        ("TCP_REFRESH_FAIL_ERR", "-:-", 0),
        // Another request fetched it.
        ("TCP_CF_REFRESH_MODIFIED", "-:-", 551),
    ] {
        let source = source(240);
        let line = format!("sq1 start=1.000 tr=1 ss={code} out=551 bs=0 peer={peer}");
        take(&source, &line, 1000);
        let found = &savings([&*source].into_iter(), 1000)[0].answers;
        assert_eq!((found.known, found.saved_bytes), (1, expected), "{code}");
    }
}

#[test]
fn the_window_reaches_back_to_its_oldest_data() {
    let source = source(240);
    let reach = |secs, uptime| covered([&*source].into_iter(), secs, uptime);
    assert_eq!((reach(1000, 7), reach(1000, 9_999)), (7, 230));
    // After a restart, what came before it counts too.
    take(&source, "sq1 start=1.000 tr=1 ss=TCP_IMS_HIT out=5 peer=-:-", 905);
    assert_eq!((reach(1000, 7), reach(1139, 7), reach(1300, 7)), (100, 239, 230));
}

#[test]
fn swaps_add_up_by_action_size_and_type() {
    let source = source(900);
    for line in std::fs::read_to_string("tests/corpus/squid/patch-store.log").unwrap().lines() {
        take(&source, line, 5000);
        take(&source, line, 5000);
    }
    let rows = swaps([&*source].into_iter(), 5000);
    let shown: Vec<String> =
        rows.iter().map(|(key, it)| format!("{} {it:?}", key.join("|"))).collect();
    assert_eq!(
        shown,
        [
            "RELEASE|0-1 KiB|text/html Swaps { count: 2, bytes: 106, timed: 0, first_delay_us: 0, total_us: 0 }",
            "SWAPIN|1-4 KiB|text/html Swaps { count: 2, bytes: 3436, timed: 2, first_delay_us: 35418, total_us: 35418 }",
            "SWAPOUT|1-4 KiB|image/gif Swaps { count: 2, bytes: 4372, timed: 2, first_delay_us: 26480, total_us: 26480 }",
        ]
    );
}

#[test]
fn sums_of_a_snapshot_go_on_and_leave_the_window() {
    let before = source(240);
    let asked =
        "sq1 start=1.000 tr=3 ss=TCP_IMS_HIT out=500 mt=text/css url=http://h/x bs=- peer=-:-";
    let miss = asked.replace("TCP_IMS_HIT", "TCP_MISS");
    for number in 0..2_000 {
        let swap = format!("1.000 SWAPIN 200 1 1 1 t/{number} 1/1 GET u 2/2");
        take(&before, &swap, 1_000 + number % 100);
    }
    (0..20).for_each(|_| take(&before, &miss, 1_000));
    take(&before, asked, 1_100);
    let saved = before.sums.lock().save("here");
    assert!(saved.len() > 2, "more than one record");
    let after = source(240);
    // Lines may have come by then.
    take(&after, asked, 1_105);
    saved.into_iter().for_each(|it| after.sums.lock().restore(it, 1_105));
    take(&before, asked, 1_105);
    let all = |source: &Source, secs| {
        (swaps([source].into_iter(), secs), savings([source].into_iter(), secs))
    };
    for secs in [1_105, 1_245, 1_300] {
        assert_eq!(all(&after, secs), all(&before, secs), "{secs}");
    }
    assert_eq!(all(&after, 1_105).0.len(), 2_000);
    assert_eq!(all(&after, 1_105).1[0].miss_median_ms, Some(3.0));
    // As many as there is room for, and no more.
    let entries = |source: &Source| source.sums.lock().swaps.entries;
    for other in 0..10 {
        let before = source(240);
        for number in 0..2_000 {
            let swap = format!("1.000 SWAPIN 200 1 1 1 t/{other}-{number} 1/1 GET u 2/2");
            take(&before, &swap, 1_100);
        }
        for _ in 0..2 {
            let saved = before.sums.lock().save("here");
            saved.into_iter().for_each(|it| after.sums.lock().restore(it, 1_105));
        }
        assert_eq!(entries(&after), (2_000 * (other + 2)).min(ENTRIES_MAX));
    }
}

#[test]
fn there_is_an_end_to_keys() {
    let source = source(900);
    for number in 0..2 * ENTRIES_MAX {
        take(&source, &format!("1.000 SWAPIN 200 1 1 1 t/{number} 1/1 GET u 2/2"), 1);
        take(&source, &format!("sq1 start=1.000 tr={number} ss=TCP_MISS url=http://h/"), 1);
    }
    let rows = swaps([&*source].into_iter(), 1);
    assert_eq!(rows.len(), ENTRIES_MAX + 1);
    assert_eq!(rows.iter().map(|(_, it)| it.count).sum::<u64>(), 2 * ENTRIES_MAX as u64);
    assert_eq!(rows[0].0, ["(other)"; 3]);
    let entries = source.sums.lock().answers.entries;
    assert!(entries <= ENTRIES_MAX + 1, "{entries}");
    // When these have left the window there is room again.
    take(&source, "1.000 SWAPIN 200 1 1 1 t/new 1/1 GET u 2/2", 2_000);
    let rows = swaps([&*source].into_iter(), 2_000);
    assert_eq!(rows[0].0[2], "t/new");
    assert_eq!((rows.len(), source.sums.lock().swaps.entries), (1, 1));
}
