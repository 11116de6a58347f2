//! Datagram -> record: what one receiver thread can do with one core, in nanoseconds a packet.
//!
//! Goals: 100 ns for a packet of 171 bytes without timers, 350 ns for one of 443 bytes with five timers of three tags,
//! writing the record included. prost decoding the same bytes (without checks, without a record) is there to compare:
//! the decoder of our own has to earn its keep.

use std::hint::black_box;
use std::sync::Arc;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group};
use pinbad::cli::load::TrafficOptions;
use pinbad::cli::load::traffic::Traffic;
use pinbad::config::Config;
use pinbad::input::Decode as _;
use pinbad::input::pinba::{Decoder, model};
use pinbad::input::record::{Hasher, Record, RecordSink, TextLimits, micros};
use pinbad::input::rewrite::{NameRules, Rewrite, RuleCounters, TextField};
use prost::Message as _;

criterion_group!(benches, decode, read, rules, decode_with_rules);

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

/// What `pinbad load` sends with so many timers of three tags, request tags, and requests nested in each packet.
fn packets(timers: u32, request_tags: u32, nested: u32) -> Vec<Vec<u8>> {
    let mut traffic = Traffic::new(&TrafficOptions {
        timers,
        request_tags,
        nested,
        ..TrafficOptions::default()
    });
    let packets = if nested > 0 { 1 } else { 256 };
    (0..packets).map(|_| traffic.packet().to_vec()).collect()
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

/// What the merger pays to look at every field, tag and timer of a record.
fn read(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    for (name, packets) in [
        ("read/plain", packets(0, 0, 0)),
        ("read/timers_5x3", packets(5, 0, 0)),
    ] {
        let mut block = Vec::new();
        let mut decoder = decoder();
        for packet in &packets {
            let _ = decoder.decode(packet, 1, &mut block);
        }
        group.throughput(Throughput::Elements(packets.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut rest = black_box(block.as_slice());
                let mut sum = 0;
                while let Some(record) = Record::next(&mut rest) {
                    sum ^= record.identity_hash() ^ record.request_tags().hash();
                    sum += micros(record.request_time());
                    for timer in record.timers() {
                        sum ^= timer.tags.hash();
                        sum += micros(timer.value) + u64::from(timer.hit_count);
                    }
                }
                sum
            });
        });
    }
    group.finish();
}

/// The rules of these entries, all about one field or tag.
fn name_rules(field: &str, entries: &[&str]) -> NameRules {
    let entries = entries.iter();
    let text = entries.map(|entry| format!("[[rewrite]]\nfield = '{field}'\n{entry}\n"));
    let configured = Config::from_toml("bench.toml", &text.collect::<String>())
        .unwrap_or_default()
        .rewrites;
    let counters = Arc::new(RuleCounters::new(configured.len()));
    NameRules::new(&configured, Hasher::new(), counters)
}

const CUT: &str = "cut = '?'";
const DIGITS: &str = "digits = '*'";
const PREFIX: &str = "prefix = '/static/'\nreplace = '/static/*'";
const PATTERN: &str = "pattern = '^/catalogue/user/\\d+'\nreplace = '/catalogue/user/*'";
const GROUPS: &str = "pattern = '/(\\w+)/\\d+'\nreplace = '/$1/*'";
const LITERALS: &str = "pattern = '\\.(?:php|html|phtml)$'\nreplace = ''";
const NO_MATCH: &str = "pattern = '^/api/v\\d+/'\nreplace = '/api/*'";

/// What rules cost for a script name of some 45 bytes: for names that come again and again, and for names that never
/// do. All but a single `cut` or `prefix` find the first in a table.
fn rules(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode/rule");
    for (name, entries) in [
        ("cut", &[CUT][..]),
        ("digits", &[DIGITS]),
        ("prefix", &[PREFIX]),
        ("pattern", &[PATTERN]),
        ("pattern_no_match", &[NO_MATCH]),
        ("pattern_ending", &[LITERALS]),
        ("pattern_groups", &[GROUPS]),
        ("three_simple", &[CUT, DIGITS, PREFIX]),
        (
            "all_seven",
            &[CUT, DIGITS, PREFIX, PATTERN, NO_MATCH, LITERALS, GROUPS],
        ),
    ] {
        for (kind, names) in [("again", 200), ("new", 1 << 16)] {
            let names: Vec<String> = (0..names)
                .map(|n| format!("/catalogue/user/{n}/show.php?ref=front&p=1"))
                .collect();
            let mut rules = name_rules("script_name", entries);
            let Some(chain) = rules.field_chain(TextField::ScriptName) else {
                continue;
            };
            let mut fresh = Vec::with_capacity(256);
            let mut next = 0;
            group.bench_function(format!("{name}/{kind}"), |b| {
                b.iter(|| {
                    next = (next + 1) % names.len();
                    fresh.clear();
                    rules.apply(chain, black_box(names[next].as_bytes()), &mut fresh)
                });
            });
        }
    }
    group.finish();
}

/// Whole packets, with rules.
fn decode_with_rules(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode/with_rules");
    group.throughput(Throughput::Elements(1));
    let (plain, timers) = (packets(0, 0, 0), packets(5, 0, 0));
    for (name, packets, field, rule) in [
        ("plain/script_cut", &plain, "script_name", CUT),
        ("plain/script_pattern", &plain, "script_name", GROUPS),
        ("plain/other_field", &plain, "schema", CUT),
        ("timers_5x3/no_such_tag", &timers, "@nowhere", CUT),
        ("timers_5x3/one_of_three", &timers, "@server", CUT),
        (
            "timers_5x3/one_of_three_pattern",
            &timers,
            "@server",
            LITERALS,
        ),
    ] {
        let rules = name_rules(field, &[rule]);
        let decoder = Decoder::with_rules(TextLimits::default(), Hasher::new(), rules);
        run(&mut group, name, packets, decoder);
    }
    group.finish();
}
