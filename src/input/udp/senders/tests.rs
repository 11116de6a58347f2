//! Rules and counts compared with a plain recount; memory is constant whoever sends.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng};

use super::*;

fn source(text: &str) -> u128 {
    bits(text.parse().unwrap())
}

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn v4(number: u32) -> u128 {
    bits(IpAddr::V4(number.into()))
}

fn sum(list: &[SenderCounts], other: Counts) -> Counts {
    list.iter().fold(other, |sum, source| Counts {
        datagrams: sum.datagrams + source.counts.datagrams,
        bytes: sum.bytes + source.counts.bytes,
        refused: sum.refused + source.counts.refused,
    })
}

/// A datagram of this length from `sender`.
fn pass(senders: &Senders, sender: u128, bytes: usize, now_ms: u64) -> Result<(), RejectReason> {
    let mut verdicts = Vec::new();
    senders.pass([(sender, bytes)].into_iter(), now_ms, &mut verdicts);
    verdicts[0]
}

#[test]
fn networks_that_touch_or_overlap_are_one() {
    let allowed = Ranges::new(&networks(&[
        "10.0.1.0/24",
        "10.0.0.0/24",
        "10.0.0.128/25",
        "192.0.2.7/32",
        "2001:db8::/32",
    ]));
    assert_eq!(allowed.0.len(), 3);
    for (address, inside) in [
        ("10.0.0.0", true),
        ("10.0.1.255", true),
        ("10.0.2.0", false),
        ("9.255.255.255", false),
        ("192.0.2.7", true),
        ("192.0.2.6", false),
        ("2001:db8::1", true),
        ("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", true),
        ("2001:db9::", false),
        ("::1", false),
        ("0.0.0.0", false),
    ] {
        assert_eq!(allowed.contains(source(address)), inside, "{address}");
    }
    let all = Ranges::new(&[]);
    assert!(all.contains(source("192.0.2.9")) && all.contains(source("::1")));
    let v4 = Ranges::new(&networks(&["0.0.0.0/0"]));
    assert!(v4.contains(source("255.255.255.255")) && !v4.contains(source("::1")));
    let v6 = Ranges::new(&networks(&["::/0", "10.0.0.0/8"]));
    assert!(v6.contains(source("::1")) && v6.contains(source("192.0.2.9")));
}

/// Random senders in batches: counts, and their sum, equal those of a map.
#[test]
fn counts_are_those_of_a_recount() {
    let sources = Senders::new(&networks(&["10.0.0.0/8"]), 0);
    let mut random = StdRng::seed_from_u64(7);
    let mut counted: BTreeMap<u128, Counts> = BTreeMap::new();
    let mut verdicts = Vec::new();
    for batch in 0..2000_u64 {
        let mut sent = Vec::new();
        for _ in 0..random.random_range(1..=64) {
            let network = if random.random_bool(0.9) { 10 << 24 } else { 11 << 24 };
            // Few sources send most datagrams.
            let hosts = random.random_range(1..600);
            let host: u32 = random.random_range(0..hosts);
            let bytes = random.random_range(0..2000);
            let source = v4(network + host);
            sent.push((source, bytes));
            *counted.entry(source).or_default() += &Counts {
                datagrams: 1,
                bytes: bytes as u64,
                refused: u64::from(network == 11 << 24),
            };
        }
        sources.pass(sent.iter().copied(), batch, &mut verdicts);
        assert_eq!(verdicts.len(), sent.len());
        for (&(source, _), verdict) in sent.iter().zip(&verdicts) {
            let expected = match source >= v4(11 << 24) {
                true => Err(RejectReason::SourceNotAllowed),
                false => Ok(()),
            };
            assert_eq!(*verdict, expected);
        }
    }
    let (list, other) = sources.list(usize::MAX, 2000);
    assert!(list.is_sorted_by(|a, b| a.counts.datagrams >= b.counts.datagrams));
    let mut all = Counts::default();
    counted.values().for_each(|counts| all += counts);
    assert_eq!(sum(&list, other), all);
    for source in &list {
        assert_eq!(source.counts, counted[&bits(source.address)], "{}", source.address);
    }
    assert_eq!(list.len(), counted.len());
    let (top, rest) = sources.list(3, 2000);
    assert_eq!((top.len(), sum(&top, rest)), (3, all));
    assert_eq!(top, list[..3]);
}

#[test]
fn a_million_sources_take_no_more_rows_and_lose_no_count() {
    let sources = Senders::new(&[], 0);
    // One that was there first and keeps sending keeps its row.
    let steady = source("192.0.2.7");
    for number in 0..1_000_000_u32 {
        let now_ms = u64::from(number) / 10;
        if number.is_multiple_of(100) {
            pass(&sources, steady, 1, now_ms).unwrap();
        }
        pass(&sources, v4(number), 100, now_ms).unwrap();
    }
    let (list, other) = sources.list(usize::MAX, 100_000);
    assert_eq!(list.len(), SENDERS_MAX);
    let all = sum(&list, other);
    assert_eq!((all.datagrams, all.bytes), (1_010_000, 100_010_000));
    assert_eq!(bits(list[0].address), steady);
    assert_eq!(list[0].counts.datagrams, 10_000);
    // Those of the first minute have been replaced.
    assert!(list.iter().all(|source| source.silent_ms < STALE_MS));
}

#[test]
fn a_source_has_its_rate_and_a_second_of_it_at_once() {
    let sources = Senders::new(&[], 100);
    let (loud, quiet) = (source("10.0.0.1"), source("10.0.0.2"));
    let mut passed = 0;
    // 10,000 a second for ten seconds, and 50 a second.
    for ms in 1_000..11_000_u64 {
        for _ in 0..10 {
            passed += u32::from(pass(&sources, loud, 1, ms).is_ok());
        }
        if ms.is_multiple_of(20) {
            assert_eq!(pass(&sources, quiet, 1, ms), Ok(()));
        }
    }
    // A hundred at once, then a hundred a second.
    assert!((1098..=1100).contains(&passed), "{passed}");
    let once_more = pass(&sources, loud, 1, 10_999);
    assert_eq!(once_more, Err(RejectReason::SourceRate));
    let (list, _) = sources.list(10, 11_000);
    assert_eq!(list[0].counts.datagrams, 100_001);
    assert_eq!(list[0].counts.refused, 100_001 - u64::from(passed));
    assert_eq!(list[1].counts, Counts { datagrams: 500, bytes: 500, refused: 0 });
}

/// Receivers that create rows at the same time lose nothing.
#[test]
fn many_receivers_share_the_table() {
    let sources = Senders::new(&[], 1_000_000);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let sources = &sources;
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(thread.into());
                let mut verdicts = Vec::new();
                for _ in 0..2000 {
                    // All at one moment: a thread that falls behind by a second would find the rate
                    // of the others used up.
                    let batch = (0..64).map(|_| (v4(random.random_range(0..10_000)), 3));
                    sources.pass(batch, 0, &mut verdicts);
                    assert_eq!(verdicts, [Ok(()); 64]);
                }
            });
        }
    });
    let (list, other) = sources.list(usize::MAX, 0);
    let all = sum(&list, other);
    assert_eq!(all.datagrams, 4 * 2000 * 64);
    assert_eq!(all.bytes, 3 * all.datagrams);
    let mut addresses: Vec<_> = list.iter().map(|source| source.address).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), list.len(), "a source has two rows");
}
