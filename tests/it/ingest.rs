//! Every datagram ends in exactly one counter, whatever it is: the accounting identities, at rest,
//! per socket and in all.

use crate::harness::{Here, Sender};
use crate::packets::{Fate, Kind, Mix, corpus, corpus_names, fate, request};
use prost::Message as _;

/// Ten thousands of each kind that matters: good, random, cut off, mutated, nested, as long as a
/// datagram can be.
const DATAGRAMS: usize = 50_000;
const SEED: u64 = 20_231_114;
/// Sending sockets: the kernel gives all packets of one to one receiver.
const SOURCES: usize = 16;

#[test]
fn garbage_and_good_packets_from_many_sources_are_accounted_for() {
    let here = Here::start(&[
        "ingest.listen=127.0.0.1:0,[::1]:0",
        "ingest.receivers=3",
        "pool.request_pool_size=20000",
    ]);
    let mut sender = Sender::with_sources(&here.site, &here.site.udp, SOURCES);
    let mut mix = Mix::new(SEED);
    let mut expected = Fates::default();
    let (mut lz4, mut empty) = (0, 0);
    for number in 0..DATAGRAMS {
        let (kind, datagram) = mix.next();
        lz4 += u64::from(kind == Kind::Lz4Header);
        empty += u64::from(kind == Kind::Empty);
        expected.add(fate(&datagram));
        sender.send_from(number, &datagram);
    }
    let status = sender.at_rest();
    status.assert_accounted();
    // The mix is what it is meant to be: much of everything.
    assert!(expected.accepted > 15_000 && expected.invalid > 20_000 && expected.refused > 3_000);
    for (name, count) in [
        ("datagrams_received", DATAGRAMS as u64),
        ("datagrams_accepted", expected.accepted),
        ("datagrams_invalid", expected.invalid),
        ("requests_decoded", expected.merged + expected.refused),
        ("requests_invalid", expected.refused),
        ("requests_merged", expected.merged),
        ("requests_overwritten", 0),
        ("receive_errors", 0),
    ] {
        assert_eq!(status.count(name), count, "seed {SEED}: {name} in {status:?}");
    }
    assert_eq!(status.reason("datagrams_invalid", "empty"), empty);
    assert!(status.reason("datagrams_invalid", "lz4_header") >= lz4);
    assert_eq!(status.reason("datagrams_invalid", "too_large"), 0);

    // Socket by socket: three to an address, all of them at work, and per address what was sent
    // there.
    let sockets = status.sockets();
    assert_eq!(sockets.len(), 6);
    for (address, sent) in here.site.udp.iter().zip(&sender.sent) {
        let at = |socket: &&crate::harness::Status| socket.0["address"] == address.to_string();
        let received: Vec<_> =
            sockets.iter().filter(at).map(|socket| socket.count("datagrams_received")).collect();
        assert_eq!(received.len(), 3, "{status:?}");
        assert_eq!(received.iter().sum::<u64>(), *sent, "{address}: {status:?}");
        // 16 sources on 3 sockets: all on one is a chance of one in fourteen million.
        assert!(received.iter().filter(|count| **count > 0).count() > 1, "{received:?}");
    }

    // What was merged is in the report, and in the raw rows as far as they reach.
    let info = here.site.json("/api/v1/info");
    assert_eq!(info["req_count"].as_u64(), Some(expected.merged));
    assert_eq!(status.count("request_rows"), 20_000.min(expected.merged));
    here.stop();
}

/// One packet of each kind: each counts where its name says.
#[test]
fn every_packet_of_the_corpus_ends_as_its_name_says() {
    let here = Here::start(&[]);
    let mut sender = Sender::new(&here.site);
    let mut before = sender.at_rest();
    for name in corpus_names() {
        let packet = corpus(&name);
        let fate = fate(&packet);
        sender.send(&packet);
        let after = sender.at_rest();
        after.assert_accounted();
        let more = |counter: &str| after.count(counter) - before.count(counter);
        let became = Fate {
            accepted: more("datagrams_accepted") == 1,
            merged: more("requests_merged"),
            refused: more("requests_invalid"),
        };
        assert_eq!(became, fate, "{name}");
        let refused = more("datagrams_invalid") == 1 || more("requests_invalid") > 0;
        let mended = more("elements_mended") > 0;
        match name.split('-').next().unwrap() {
            "refused" => assert!(refused, "{name}"),
            "mended" => assert!(!refused && mended, "{name}"),
            _ => assert!(!refused, "{name}"),
        }
        before = after;
    }
    here.stop();
}

/// The longest datagram that there is arrives whole, and a longer one cannot be sent.
#[test]
fn a_datagram_of_65507_bytes_is_taken_whole() {
    let here = Here::start(&[]);
    let status = here.site.send([crate::packets::oversized(2000)]);
    status.assert_accounted();
    assert_eq!(status.count("requests_merged"), 1);
    assert_eq!(status.count("timers_merged"), 2002);
    assert_eq!(status.count("received_bytes"), 65_507);
    let rows = here.site.rows("report_by_script_name");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["script_name"], "/oversized");
    here.stop();
}

/// Between two questions the counters only grow, and no request is ever counted twice.
#[test]
fn counters_only_grow_while_packets_come() {
    let here = Here::start(&["ingest.receivers=2"]);
    let mut sender = Sender::with_sources(&here.site, &here.site.udp, 4);
    let packet = request("h", "s", "/x").encode_to_vec();
    let mut before = here.site.status();
    for number in 0..3000 {
        sender.send_from(number, &packet);
        sender.send_from(number + 1, b"\xff");
        if number % 100 != 0 {
            continue;
        }
        let now = here.site.status();
        for name in "datagrams_received datagrams_accepted datagrams_invalid requests_decoded \
             requests_merged received_bytes merges"
            .split(' ')
        {
            assert!(now.count(name) >= before.count(name), "{name}: {now:?} after {before:?}");
        }
        assert!(now.count("requests_merged") <= now.count("requests_decoded"), "{now:?}");
        before = now;
    }
    let status = sender.at_rest();
    status.assert_accounted();
    assert_eq!(status.count("requests_merged"), 3000);
    assert_eq!(status.reason("datagrams_invalid", "truncated"), 3000);
    here.stop();
}

/// Sums of [`Fate`]s.
#[derive(Debug, Default)]
struct Fates {
    accepted: u64,
    invalid: u64,
    merged: u64,
    refused: u64,
}

impl Fates {
    fn add(&mut self, fate: Fate) {
        self.accepted += u64::from(fate.accepted);
        self.invalid += u64::from(!fate.accepted);
        self.merged += fate.merged;
        self.refused += fate.refused;
    }
}
