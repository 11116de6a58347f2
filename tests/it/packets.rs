//! The packets that tests send, and what has to become of them.
//!
//! [`corpus`] reads `tests/corpus`: packets of real PHP, and one for each way to be refused.
//! [`Mix`] makes datagrams of every kind from a seed. [`fate`] says what a datagram must end as; it
//! decodes with prost and knows Pinba's rules for itself, so that the daemon is held against
//! something else than its own decoder.

use std::path::Path;

use pinbad::input::pinba::model::{NestedRequest, Request};
use prost::Message as _;

use crate::dice::Dice;

/// The most that a UDP datagram holds.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 65_507;

/// One packet of `tests/corpus`, without its ending.
#[track_caller]
pub(crate) fn corpus(name: &str) -> Vec<u8> {
    corpus_file(&format!("{name}.bin"))
}

/// One file of `tests/corpus` or of a folder in it.
#[track_caller]
pub(crate) fn corpus_file(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let file = path.join(name);
    std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// All of `tests/corpus`, by name.
pub(crate) fn corpus_names() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut names: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".bin").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// A request of 1/8 s with two timers, a request tag and a status.
pub(crate) fn request(host: &str, server: &str, script: &str) -> Request {
    let mut request = Request::named(host, server, script);
    request.request_time = Some(0.125);
    request.ru_utime = Some(0.0625);
    request.ru_stime = Some(0.03125);
    request.document_size = Some(2048);
    request.memory_peak = Some(1 << 20);
    request.memory_footprint = Some(4096);
    request.status = Some(200);
    request.add_tag("env", "test");
    request.add_timer(2, 0.25, &[("group", "db"), ("op", "read")]);
    request.add_timer(1, 0.5, &[("group", "cache")]);
    request
}

/// The packet of such a request for a script, with this status and time.
pub(crate) fn packet(script: &str, status: u32, time: f32) -> Vec<u8> {
    let mut packet = request("h", "s", script);
    packet.status = Some(status);
    packet.request_time = Some(time);
    packet.encode_to_vec()
}

/// The same as a nested request.
pub(crate) fn nested(host: &str, server: &str, script: &str) -> NestedRequest {
    let bytes = request(host, server, script).encode_to_vec();
    NestedRequest::decode(&*bytes).unwrap()
}

/// The expected outcome of a datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Whether it counts as accepted.
    pub(crate) accepted: bool,
    /// Requests in it that become rows.
    pub(crate) merged: u64,
    /// Requests of an accepted datagram that are refused.
    pub(crate) refused: u64,
}

/// Returns the expected outcome of a datagram, according to prost and the rules of Pinba.
pub(crate) fn fate(datagram: &[u8]) -> Fate {
    let Ok(packet) = Request::decode(datagram) else {
        return Fate::default();
    };
    let complete = packet.missing_field().is_none()
        && packet.requests.iter().all(|nested| nested.missing_field().is_none());
    if datagram.is_empty() || !complete || !timers_agree(&packet) {
        return Fate::default();
    }
    let good = std::iter::once(is_good(&packet))
        .chain(packet.requests.iter().map(|nested| {
            // What is nested deeper is not read.
            let mut nested = nested.clone();
            nested.requests.clear();
            let nested = Request::decode(&*nested.encode_to_vec()).unwrap();
            timers_agree(&nested) && is_good(&nested)
        }))
        .filter(|good| *good)
        .count() as u64;
    match good {
        0 => Fate::default(),
        merged => {
            Fate { accepted: true, merged, refused: 1 + packet.requests.len() as u64 - merged }
        }
    }
}

/// V1: it takes the nested ones with it.
fn timers_agree(request: &Request) -> bool {
    let timers = request.timer_hit_count.len();
    request.timer_value.len() == timers && request.timer_tag_count.len() == timers
}

/// V2, V3, V4 and V6.
fn is_good(request: &Request) -> bool {
    let words = request.dictionary.len();
    let tags: u64 = request.timer_tag_count.iter().map(|count| u64::from(*count)).sum();
    let needs_words = !request.timer_hit_count.is_empty() || !request.tag_name.is_empty();
    request.tag_name.len() == request.tag_value.len()
        && (words > 0 || !needs_words)
        && (request.tag_name.iter().chain(&request.tag_value)).all(|word| (*word as usize) < words)
        && tags == request.timer_tag_name.len() as u64
        && tags == request.timer_tag_value.len() as u64
}

/// The kinds of datagrams that a [`Mix`] has, in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Valid,
    Garbage,
    Truncated,
    Mutated,
    Nested,
    NestedPartlyBad,
    Lz4Header,
    Empty,
    OversizedValid,
    OversizedGarbage,
}

/// Datagrams of every kind, endlessly, the same for the same seed.
#[derive(Debug)]
pub(crate) struct Mix {
    random: Dice,
    packets: Vec<Vec<u8>>,
    oversized: Vec<u8>,
    turn: usize,
}

impl Mix {
    /// In a hundred datagrams so many of each.
    const TURNS: [(Kind, usize); 10] = [
        (Kind::Valid, 25),
        (Kind::Garbage, 22),
        (Kind::Truncated, 22),
        (Kind::Mutated, 12),
        (Kind::Nested, 6),
        (Kind::NestedPartlyBad, 4),
        (Kind::Lz4Header, 4),
        (Kind::Empty, 1),
        (Kind::OversizedValid, 2),
        (Kind::OversizedGarbage, 2),
    ];

    /// From this seed.
    pub(crate) fn new(seed: u64) -> Self {
        let good = corpus_names();
        let good = good.iter().filter(|name| !name.starts_with("refused-"));
        Self {
            random: Dice(seed),
            packets: good.map(|name| corpus(name)).collect(),
            oversized: oversized(100),
            turn: 0,
        }
    }

    /// The next datagram.
    pub(crate) fn next(&mut self) -> (Kind, Vec<u8>) {
        let place = self.turn % 100;
        self.turn += 1;
        let mut end = 0;
        let kind = Self::TURNS.iter().find(|(_, share)| {
            end += share;
            place < end
        });
        let kind = kind.unwrap().0;
        (kind, self.make(kind))
    }

    fn make(&mut self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Valid => self.valid().encode_to_vec(),
            Kind::Garbage => {
                let bytes = 1 + self.random.index(599);
                self.bytes(bytes)
            }
            Kind::Truncated => {
                let mut packet = self.some_packet();
                let end = self.random.index(packet.len());
                packet.truncate(end.max(1));
                packet
            }
            Kind::Mutated => {
                let mut packet = self.some_packet();
                for _ in 0..=self.random.index(3) {
                    let at = self.random.index(packet.len());
                    packet[at] = self.random.byte();
                }
                packet
            }
            Kind::Nested => {
                let mut packet = self.valid();
                for number in 0..1 + self.random.index(19) {
                    packet.requests.push(nested("n", "nested", &format!("/nested/{number}")));
                }
                packet.encode_to_vec()
            }
            Kind::NestedPartlyBad => {
                let mut packet = self.valid();
                let mut bad = nested("n", "nested", "/bad");
                match self.random.index(4) {
                    0 => bad.timer_hit_count.push(1),
                    1 => bad.tag_name.push(0),
                    2 => bad.tag_value[0] = 1000,
                    _ => bad.timer_tag_count[0] += 1,
                }
                packet.requests = vec![bad.clone(), nested("n", "nested", "/good"), bad];
                packet.encode_to_vec()
            }
            Kind::Lz4Header => {
                let mut packet = vec![0x10, 0x01, 0, 0];
                packet.extend(self.bytes(40));
                // A group that nobody opened: no message at all.
                packet[4] = 0x0c;
                packet
            }
            Kind::Empty => Vec::new(),
            Kind::OversizedValid => self.oversized.clone(),
            Kind::OversizedGarbage => self.bytes(DATAGRAM_BYTES_MAX),
        }
    }

    fn valid(&mut self) -> Request {
        let host = format!("host-{}", self.random.index(20));
        let script = format!("/page-{}", self.random.index(200));
        let mut packet = request(&host, "example.org", &script);
        packet.request_time = Some(self.random.index(2_000_000) as f32 / 1e6);
        packet
    }

    fn some_packet(&mut self) -> Vec<u8> {
        let at = self.random.index(self.packets.len());
        self.packets[at].clone()
    }

    fn bytes(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.random.byte()).collect()
    }
}

/// A good packet of as many bytes as a datagram holds: so many timers (and two), then filled up
/// with one word.
pub(crate) fn oversized(timers: usize) -> Vec<u8> {
    let mut packet = request("host-big", "example.org", "/oversized");
    for number in 0..timers {
        packet.add_timer(1, 0.001, &[("group", "db"), ("number", ["a", "b", "c"][number % 3])]);
    }
    let filled = packet.encoded_len();
    // Field key, and a length of three bytes.
    let rest = DATAGRAM_BYTES_MAX - filled - 4;
    packet.dictionary.push(vec![b'x'; rest]);
    let bytes = packet.encode_to_vec();
    assert_eq!(bytes.len(), DATAGRAM_BYTES_MAX, "{filled}");
    bytes
}
