//! Datagram -> record: what one receiver thread can do with one core, in nanoseconds a packet.
//!
//! Goals: 100 ns for a packet of 171 bytes without timers, 350 ns for one of 443 bytes with five
//! timers of three tags, writing the record included. prost decoding the same bytes (without
//! checks, without a record) is there to compare: the decoder of our own has to earn its keep.

use std::hint::black_box;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group};
use pinbad::cli::load::traffic::Traffic;
use pinbad::cli::load::{Distribution, TrafficOptions};
use pinbad::config::Config;
use pinbad::input::Decode as _;
use pinbad::input::pinba::{Decoder, model};
use pinbad::input::record::{Hasher, RecordSink, TextLimits};
use pinbad::input::rewrite::{NameRules, Rewrite, RuleCounters};
use prost::Message as _;

criterion_group!(benches, decode, rules);

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// A block that is emptied when it is full.
struct Block(Vec<u8>);

impl RecordSink for Block {
    #[inline]
    fn reserve(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        if self.0.capacity() - self.0.len() < bytes {
            self.0.clear();
        }
        Some(&mut self.0)
    }
}

fn decoder() -> Decoder {
    Decoder::new(TextLimits::default(), Hasher::new())
}

/// Returns packets as `pinbad load` sends them, each with so many timers of three tags, request
/// tags and nested requests.
fn packets(timers: u32, request_tags: u32, nested: u32) -> Vec<Vec<u8>> {
    let mut traffic =
        Traffic::new(&TrafficOptions { timers, request_tags, nested, ..TrafficOptions::default() });
    let packets = if nested > 0 { 1 } else { 256 };
    (0..packets).map(|_| traffic.packet()).collect()
}

/// Decodes the packets in turn.
fn run(group: &mut Group<'_>, name: &str, packets: &[Vec<u8>], mut decoder: Decoder<impl Rewrite>) {
    let bytes = packets.iter().map(Vec::len).sum::<usize>() / packets.len();
    let mut block = Block(Vec::with_capacity(256 * 1024));
    let mut packets = packets.iter().cycle();
    group.bench_function(BenchmarkId::new(name, bytes), |b| {
        b.iter(|| {
            let packet = packets.next().map_or(&[][..], Vec::as_slice);
            decoder.decode(black_box(packet), 1, &mut block)
        });
    });
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    let mut cases = vec![
        ("plain", packets(0, 0, 0)),
        ("tagged", packets(0, 3, 0)),
        ("timers_5x3", packets(5, 0, 0)),
    ];
    let fixture = std::fs::read("tests/corpus/php-many-timers.bin").ok();
    cases.extend(fixture.map(|packet| ("php_many_timers", vec![packet])));
    group.throughput(Throughput::Elements(1));
    for (name, packets) in &cases {
        run(&mut group, name, packets, decoder());
        let mut packets = packets.iter().cycle();
        group.bench_function(format!("{name}/prost"), |b| {
            b.iter(|| {
                let packet = packets.next().map_or(&[][..], Vec::as_slice);
                model::Request::decode(black_box(packet))
            });
        });
    }
    group.throughput(Throughput::Elements(301));
    run(&mut group, "nested_301", &packets(0, 0, 300), decoder());
    group.finish();
}

/// The rules of these entries, all about one field or tag.
fn name_rules(field: &str, entries: &[&str]) -> NameRules {
    let entries = entries.iter();
    let text = entries.map(|entry| format!("[[rewrite]]\nfield = '{field}'\n{entry}\n"));
    let configured =
        Config::from_toml("bench.toml", &text.collect::<String>()).unwrap_or_default().rewrites;
    let counters = Arc::new(RuleCounters::new(configured.len()));
    NameRules::new(&configured, Hasher::new(), counters)
}

const CUT: &str = "cut = '?'";
const DIGITS: &str = "digits = '*'";
const PREFIX: &str = "prefix = '/var/www/'\nreplace = '/*'";
const PATTERN: &str = "pattern = '^/var/www/[a-z-]+/releases'\nreplace = '/releases'";
const GROUPS: &str = "pattern = '/(\\w+)/\\d+'\nreplace = '/$1/*'";
const LITERALS: &str = "pattern = '\\.(?:php|html|phtml)$'\nreplace = ''";
const NO_MATCH: &str = "pattern = '^/api/v\\d+/'\nreplace = '/api/*'";

/// Whole packets with rules for a field or tag: for names that come again and again, for names that
/// never do, and for packets without such a tag. All but a single `cut` or `prefix` find the names
/// that they know in a table.
fn rules(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode/rules");
    group.throughput(Throughput::Elements(1));
    let (again, timers) = (packets(0, 0, 0), packets(5, 0, 0));
    let mut traffic = Traffic::new(&TrafficOptions {
        scripts: 1 << 16,
        hosts: 1,
        servers: 1,
        distribution: Distribution::Each,
        ..TrafficOptions::default()
    });
    let new: Vec<_> = (0..1 << 16).map(|_| traffic.packet()).collect();
    for (name, field, entries) in [
        ("cut", "script_name", &[CUT][..]),
        ("digits", "script_name", &[DIGITS]),
        ("prefix", "script_name", &[PREFIX]),
        ("pattern", "script_name", &[PATTERN]),
        ("pattern_no_match", "script_name", &[NO_MATCH]),
        ("pattern_ending", "script_name", &[LITERALS]),
        ("pattern_groups", "script_name", &[GROUPS]),
        ("three_simple", "script_name", &[CUT, DIGITS, PREFIX]),
        ("all_seven", "script_name", &[CUT, DIGITS, PREFIX, PATTERN, NO_MATCH, LITERALS, GROUPS]),
        ("other_field", "schema", &[CUT]),
        ("no_such_tag", "@nowhere", &[CUT]),
        ("one_tag_of_three", "@server", &[CUT]),
        ("one_tag_of_three_pattern", "@server", &[LITERALS]),
    ] {
        for (kind, packets) in [("again", &again), ("new", &new), ("timers_5x3", &timers)] {
            let rules = name_rules(field, entries);
            let decoder = Decoder::with_rules(TextLimits::default(), Hasher::new(), rules);
            run(&mut group, &format!("{name}/{kind}"), packets, decoder);
        }
    }
    group.finish();
}
