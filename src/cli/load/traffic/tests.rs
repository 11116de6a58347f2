//! Generated packets: the same for the same seed, as large as measured ones, and decoded by the
//! daemon unchanged.
//!
//! The generator's totals are compared with a naive recount of the decoded packets.

use super::super::totals::{Tally, Totals};
use super::*;

fn packets(options: &TrafficOptions, count: usize) -> Vec<Vec<u8>> {
    let mut traffic = Traffic::new(options);
    (0..count).map(|_| traffic.packet()).collect()
}

/// The totals of the first packets.
fn totals(options: &TrafficOptions, count: usize) -> Totals {
    let (mut traffic, mut tally) = (Traffic::new(options), Tally::default());
    for _ in 0..count {
        let request = traffic.next_request();
        tally.add_packet(&request, request.encoded_len(), 1);
    }
    tally.totals()
}

fn mean_bytes(options: &TrafficOptions) -> f64 {
    let packets = packets(options, 2000);
    packets.iter().map(Vec::len).sum::<usize>() as f64 / packets.len() as f64
}

fn with_timers(timers: u32, tags: u32) -> TrafficOptions {
    TrafficOptions { timers, tags, ..TrafficOptions::default() }
}

#[test]
fn same_seed_same_bytes_and_another_seed_others() {
    let options = TrafficOptions { request_tags: 3, nested: 1, ..with_timers(5, 3) };
    assert_eq!(packets(&options, 300), packets(&options, 300));
    assert_ne!(packets(&options, 1), packets(&TrafficOptions { seed: 2, ..options }, 1));
}

#[test]
fn sizes_are_those_that_the_measurements_name() {
    let plain = mean_bytes(&TrafficOptions::default());
    assert!((168.0..174.0).contains(&plain), "{plain} bytes without timers");
    let timed = mean_bytes(&with_timers(5, 3));
    assert!((435.0..451.0).contains(&timed), "{timed} bytes with 5 timers of 3 tags");
}

#[test]
fn every_packet_decodes_and_is_valid() {
    for (timers, tags) in [(0, 1), (1, 1), (5, 3), (30, 2), (200, 3), (7, 9)] {
        let options = TrafficOptions { request_tags: 5, nested: 2, ..with_timers(timers, tags) };
        for bytes in packets(&options, 100) {
            let packet = Request::decode(&*bytes).unwrap();
            assert_eq!(packet.encode_to_vec(), bytes);
            assert_eq!(packet.requests.len(), 2);
            assert_valid(&packet);
            for nested in &packet.requests {
                assert_valid(&Request::decode(&*nested.encode_to_vec()).unwrap());
            }
        }
    }
}

#[test]
fn the_daemon_takes_every_packet_as_it_is() {
    let options = TrafficOptions { request_tags: 4, nested: 2, ..with_timers(6, 4) };
    let hasher = crate::input::record::Hasher::new();
    use crate::input::Decode as _;
    let mut decoder =
        crate::input::pinba::Decoder::new(crate::input::record::TextLimits::default(), hasher);
    let mut records = Vec::new();
    for bytes in packets(&options, 300) {
        records.clear();
        assert_eq!(decoder.decode(&bytes, 0, &mut records), Ok(3));
    }
    let counts = decoder.take_counts();
    assert_eq!((counts.datagrams_accepted, counts.requests_decoded), (300, 900));
    assert_eq!(counts.repaired.iter().sum::<u64>(), 0, "nothing was cut or left out");
}

/// Checks a request as a server does.
fn assert_valid(request: &Request) {
    assert_eq!(request.missing_field(), None);
    let timers = request.timer_hit_count.len();
    assert_eq!(request.timer_value.len(), timers);
    assert_eq!(request.timer_tag_count.len(), timers);
    assert_eq!(request.timer_ru_utime.len(), timers);
    assert_eq!(request.timer_ru_stime.len(), timers);
    assert!(request.timer_hit_count.iter().all(|hits| *hits > 0));
    let tags: u32 = request.timer_tag_count.iter().sum();
    assert_eq!(request.timer_tag_name.len(), tags as usize);
    assert_eq!(request.timer_tag_value.len(), tags as usize);
    assert_eq!(request.tag_name.len(), request.tag_value.len());
    let indexes =
        [&request.tag_name, &request.tag_value, &request.timer_tag_name, &request.timer_tag_value];
    for index in indexes.into_iter().flatten() {
        assert!((*index as usize) < request.dictionary.len());
    }
    let times = [request.request_time(), request.ru_utime(), request.ru_stime()];
    for time in times.iter().chain(&request.timer_value) {
        assert!(*time >= 0.0 && *time <= 60.0, "{time} seconds");
    }
    let waited: f32 = request.timer_value.iter().sum();
    assert!(waited < request.request_time(), "the timers took longer than the request");
}

#[test]
fn timers_are_as_many_as_asked_for() {
    for (timers, tags) in [(1, 1), (5, 1), (5, 2), (50, 2), (5, 3), (200, 3), (100, 6)] {
        let mut traffic = Traffic::new(&with_timers(timers, tags));
        for _ in 0..50 {
            let request = traffic.next_request();
            assert_eq!(request.timer_hit_count.len(), timers as usize, "{timers} of {tags} tags");
            assert!(request.timer_tag_count.iter().all(|count| *count == tags));
        }
    }
    // More timers than tag sets: 5 groups on 2 servers.
    let options = TrafficOptions { tag_values: 2, ..with_timers(40, 2) };
    assert_eq!(Traffic::new(&options).next_request().timer_hit_count.len(), 10);
}

#[test]
fn each_key_in_turn_counts_exactly() {
    let options = TrafficOptions {
        hosts: 7,
        servers: 5,
        scripts: 11,
        distribution: Distribution::Each,
        ..TrafficOptions::default()
    };
    let names = ["hosts", "servers", "scripts", "hosts_servers_scripts"];
    let distinct = totals(&options, 7 * 5 * 11).distinct;
    assert_eq!(names.map(|name| distinct[name]), [7, 5, 11, 385]);
    assert_eq!(totals(&options, 386).distinct["hosts_servers_scripts"], 385);
}

#[test]
fn traffic_looks_like_a_site() {
    let options = TrafficOptions { statuses: 8, ..TrafficOptions::default() };
    let totals = totals(&options, 20_000);
    assert!((18_300..18_900).contains(&totals.statuses[&200]), "{:?}", totals.statuses);
    assert_eq!(totals.statuses.len(), 8);
    let mean_ms = totals.request_time_us / 1000 / totals.requests;
    assert!((20..200).contains(&mean_ms), "requests take {mean_ms} ms on average");
    // The long tail: nearly all scripts occur, few of them often.
    assert!(totals.distinct["scripts"] > 450, "{} scripts", totals.distinct["scripts"]);
    assert_eq!(totals.distinct["schemas"], 2);
}

#[test]
fn totals_equal_a_naive_recount() {
    let options = TrafficOptions { request_tags: 2, nested: 3, ..with_timers(4, 3) };
    let (mut requests, mut bytes, mut micros, mut values, mut hits) = (0, 0, 0_i128, 0_i128, 0);
    for packet in packets(&options, 500) {
        bytes += packet.len() as u64;
        let packet = Request::decode(&*packet).unwrap();
        let nested = packet.requests.iter().map(NestedRequest::encode_to_vec);
        let nested = nested.map(|bytes| Request::decode(&*bytes).unwrap());
        for request in std::iter::once(packet.clone()).chain(nested) {
            requests += 1;
            micros += micros_of(request.request_time());
            values += request.timer_value.iter().map(|value| micros_of(*value)).sum::<i128>();
            hits += request.timer_hit_count.iter().map(|hits| u64::from(*hits)).sum::<u64>();
        }
    }
    let totals = totals(&options, 500);
    assert_eq!((totals.packets, totals.requests, totals.timers), (500, 2000, 8000));
    assert_eq!((totals.requests, totals.bytes, totals.timer_hits), (requests, bytes, hits));
    assert_eq!(i128::from(totals.request_time_us), micros);
    assert_eq!(i128::from(totals.timer_value_us), values);
    assert_eq!(totals.statuses.values().sum::<u64>(), 2000);
}

/// The microseconds nearest to `seconds`, ties to even, in integers only: a float is `mantissa *
/// 2^exponent`.
fn micros_of(seconds: f32) -> i128 {
    let bits = seconds.to_bits();
    let exponent = i32::try_from(bits >> 23 & 0xff).unwrap();
    let mantissa = i128::from(bits & 0x7f_ffff | if exponent > 0 { 0x80_0000 } else { 0 });
    let (scaled, shift) = (mantissa * 1_000_000, 150 - exponent.max(1));
    if shift <= 0 {
        return scaled << -shift;
    }
    if shift > 60 {
        return 0;
    }
    let (whole, rest, half) = (scaled >> shift, scaled & ((1 << shift) - 1), 1_i128 << (shift - 1));
    whole + i128::from(rest > half || (rest == half && whole & 1 == 1))
}

#[test]
fn padding_changes_no_key() {
    let options = TrafficOptions { size: Some(1200), ..with_timers(5, 3) };
    assert!(packets(&options, 200).iter().all(|packet| packet.len() == 1200));
    let (padded, plain) = (totals(&options, 200), totals(&with_timers(5, 3), 200));
    assert_eq!(padded.distinct, plain.distinct);
    assert_eq!(padded.request_time_us, plain.request_time_us);
}
