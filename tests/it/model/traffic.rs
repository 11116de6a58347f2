//! Random packets, and what they say: the bytes for the decoder, the plain structs for the recount.
//!
//! The structs come from prost's reading of the same bytes and the validation rules as the
//! specification words them (table 1.5, column F, and the decisions of the design), one rule after
//! the other.

use pinbad::input::pinba::model;
use prost::Message as _;

use crate::dice::Dice;

/// One valid request as it was sent. Times are in microseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// 1 for the first request ever.
    pub(super) id: u64,
    pub(super) merged_ms: u64,
    pub(super) hostname: String,
    pub(super) server_name: String,
    pub(super) script_name: String,
    /// Empty when absent.
    pub(super) schema: String,
    pub(super) status: u32,
    pub(super) time: u64,
    pub(super) ru_utime: u64,
    pub(super) ru_stime: u64,
    pub(super) document_size: u32,
    pub(super) memory_peak: u32,
    pub(super) memory_footprint: u32,
    pub(super) tags: Vec<(String, String)>,
    pub(super) timers: Vec<SeenTimer>,
}

/// One valid timer.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenTimer {
    pub(super) hits: u32,
    pub(super) value: u64,
    pub(super) ru_utime: u64,
    pub(super) ru_stime: u64,
    pub(super) tags: Vec<(String, String)>,
}

/// The set of names that the traffic uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variety {
    /// A handful of everything: rows with many records.
    Few,
    /// Hundreds of scripts and values.
    Many,
    /// Nearly every request has names of its own.
    Flood,
}

/// Makes packets.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) variety: Variety,
    unique: u64,
}

/// Names of timer tags; each has a `__` name or two among it.
pub(super) const TIMER_TAGS: [&str; 8] =
    ["group", "server", "op", "__hostname", "__schema", "__status", "hit_count", "env"];
/// Names of request tags.
pub(super) const REQUEST_TAGS: [&str; 4] = ["env", "role", "host", "status"];
pub(super) const HOSTS: [&str; 4] = ["web-1", "web-2", "0x", "1web"];
pub(super) const SERVERS: [&str; 4] = ["example.org", "", "shop", "0example.org"];
pub(super) const SCRIPTS: [&str; 5] = ["/", "/index.php", "/api/v1", "/a,b:c|d", ""];
pub(super) const SCHEMAS: [&str; 2] = ["http", "https"];
pub(super) const STATUSES: [u32; 8] = [200, 200, 200, 404, 500, 503, 20, 0];
pub(super) const VALUES: [&str; 7] = ["db", "memcache", "", "db2", "GET", "web-1", "(other)"];

impl Traffic {
    pub(super) fn new(variety: Variety) -> Self {
        Self { variety, unique: 0 }
    }

    /// One datagram.
    pub(super) fn datagram(&mut self, dice: &mut Dice) -> Vec<u8> {
        self.packet(dice).encode_to_vec()
    }

    fn name(&mut self, dice: &mut Dice, few: &[&str]) -> String {
        let base = *dice.pick(few);
        match self.variety {
            Variety::Few => base.to_owned(),
            Variety::Many if dice.once_in(2) => base.to_owned(),
            Variety::Many => format!("{base}{}", dice.below(60)),
            Variety::Flood => {
                self.unique += 1;
                format!("{base}{}", self.unique)
            }
        }
    }

    fn value(&mut self, dice: &mut Dice) -> Vec<u8> {
        if dice.once_in(60) {
            return b"caf\xe9".to_vec();
        }
        self.name(dice, &VALUES).into_bytes()
    }
}

/// Times that are worth a try, seconds.
const ODD_TIMES: [f32; 16] = [
    0.0,
    -0.0,
    -1.5,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    2_147_483_648.0,
    2_147_483_520.0,
    1e-7,
    f32::MIN_POSITIVE,
    10.0,
    9.765_625e-3,
    0.1,
    0.5,
    1.0,
    0.007_812_5,
];

fn seconds(dice: &mut Dice) -> f32 {
    if dice.once_in(6) {
        return *dice.pick(&ODD_TIMES);
    }
    // Log-uniform from a microsecond to hours.
    let exponent = dice.below(1000) as f32 / 100.0 - 6.0;
    10_f32.powf(exponent) * (1.0 + dice.below(100) as f32 / 100.0)
}

fn bytes(dice: &mut Dice) -> u32 {
    match dice.below(12) {
        0 => 0,
        1 => u32::MAX,
        _ => dice.below(1 << 20) as u32,
    }
}

/// The same lines for the outer and for the nested message, which are types of their own.
macro_rules! for_both {
    ($draw:ident, $spoil:ident, $read:ident, $message:ty) => {
        impl Traffic {
            fn $draw(&mut self, dice: &mut Dice) -> $message {
                let mut packet = <$message>::named(
                    self.name(dice, &HOSTS),
                    self.name(dice, &SERVERS),
                    self.name(dice, &SCRIPTS),
                );
                packet.request_count = Some(dice.below(3) as u32);
                packet.document_size = Some(bytes(dice));
                packet.memory_peak = Some(bytes(dice));
                packet.request_time = Some(seconds(dice));
                packet.ru_utime = Some(seconds(dice));
                packet.ru_stime = Some(seconds(dice));
                packet.status = (!dice.once_in(8)).then(|| match self.variety {
                    Variety::Flood => dice.next() as u32,
                    _ => *dice.pick(&STATUSES),
                });
                packet.memory_footprint = (!dice.once_in(8)).then(|| bytes(dice));
                packet.schema = (!dice.once_in(3)).then(|| self.name(dice, &SCHEMAS).into_bytes());
                for _ in 0..dice.below(4) {
                    let name = *dice.pick(&REQUEST_TAGS);
                    packet.add_tag(name, self.value(dice));
                }
                let timers = match dice.below(8) {
                    0..3 => 0,
                    7 => dice.below(30),
                    _ => dice.below(5),
                };
                let rusage = dice.once_in(2);
                for _ in 0..timers {
                    let tags: Vec<(&str, Vec<u8>)> = (0..dice.below(5))
                        .map(|_| (*dice.pick(&TIMER_TAGS), self.value(dice)))
                        .collect();
                    let hits = match dice.below(8) {
                        0 => 0,
                        1 => dice.within(2, 40) as u32,
                        2 if dice.once_in(10) => u32::MAX,
                        _ => 1,
                    };
                    packet.add_timer(hits, seconds(dice), &tags);
                    // The lists may be shorter than the timers; what is missing is 0.
                    if rusage && !dice.once_in(10) {
                        packet.timer_ru_utime.push(seconds(dice));
                        packet.timer_ru_stime.push(seconds(dice));
                    }
                }
                if dice.once_in(25) {
                    $spoil(&mut packet, dice);
                }
                packet
            }
        }

        /// Breaks one rule or none.
        fn $spoil(packet: &mut $message, dice: &mut Dice) {
            match dice.below(7) {
                0 => packet.timer_value.push(1.0),
                1 => packet.tag_name.push(0),
                2 => packet.dictionary.clear(),
                3 => {
                    packet.tag_name.push(9999);
                    packet.tag_value.push(0);
                }
                4 => {
                    if let Some(index) = packet.timer_tag_value.first_mut() {
                        *index = 9999;
                    }
                }
                5 => packet.timer_tag_name.push(0),
                _ => {
                    if let Some(count) = packet.timer_tag_count.last_mut() {
                        *count += 1;
                    }
                }
            }
        }

        /// The request without id and time, if it keeps the rules.
        fn $read(packet: &$message) -> Option<Seen> {
            let timers = packet.timer_hit_count.len();
            // V1
            if packet.timer_value.len() != timers || packet.timer_tag_count.len() != timers {
                return None;
            }
            // V2
            if packet.tag_name.len() != packet.tag_value.len() {
                return None;
            }
            // V3
            if packet.dictionary.is_empty() && (timers > 0 || !packet.tag_name.is_empty()) {
                return None;
            }
            let word = |index: &u32| packet.dictionary.get(*index as usize).map(|w| text(w));
            // V4
            let mut tags = Vec::new();
            for (name, value) in packet.tag_name.iter().zip(&packet.tag_value) {
                tags.push((word(name)?, word(value)?));
            }
            // V6
            let pairs: u64 = packet.timer_tag_count.iter().map(|&n| u64::from(n)).sum();
            if pairs != packet.timer_tag_name.len() as u64
                || pairs != packet.timer_tag_value.len() as u64
            {
                return None;
            }
            let mut accepted = Vec::new();
            let mut cursor = 0;
            for timer in 0..timers {
                let first = cursor;
                cursor += packet.timer_tag_count[timer] as usize;
                // V7, V8
                if packet.timer_hit_count[timer] == 0 || cursor == first {
                    continue;
                }
                let mut tags = Vec::new();
                for at in first..cursor {
                    // V5
                    let name = word(&packet.timer_tag_name[at]);
                    let value = word(&packet.timer_tag_value[at]);
                    if let (Some(name), Some(value)) = (name, value) {
                        tags.push((name, value));
                    }
                }
                let cpu = |list: &[f32]| list.get(timer).map_or(0, |&secs| micros(secs));
                accepted.push(SeenTimer {
                    hits: packet.timer_hit_count[timer],
                    value: micros(packet.timer_value[timer]),
                    ru_utime: cpu(&packet.timer_ru_utime),
                    ru_stime: cpu(&packet.timer_ru_stime),
                    tags,
                });
            }
            Some(Seen {
                id: 0,
                merged_ms: 0,
                hostname: text(packet.hostname.as_ref()?),
                server_name: text(packet.server_name.as_ref()?),
                script_name: text(packet.script_name.as_ref()?),
                schema: packet.schema.as_ref().map(|s| text(s)).unwrap_or_default(),
                status: packet.status.unwrap_or(0),
                time: micros(packet.request_time?),
                ru_utime: micros(packet.ru_utime?),
                ru_stime: micros(packet.ru_stime?),
                document_size: packet.document_size?,
                memory_peak: packet.memory_peak?,
                memory_footprint: packet.memory_footprint.unwrap_or(0),
                tags,
                timers: accepted,
            })
        }
    };
}

for_both!(draw_outer, spoil_outer, read_outer, model::Request);
for_both!(draw_nested, spoil_nested, read_nested, model::NestedRequest);

impl Traffic {
    fn packet(&mut self, dice: &mut Dice) -> model::Request {
        let mut packet = self.draw_outer(dice);
        if dice.once_in(12) {
            for _ in 0..dice.within(1, 4) {
                packet.requests.push(self.draw_nested(dice));
            }
        }
        packet
    }
}

/// The requests of a datagram that count: the outer one, then those nested in it.
pub(super) fn read(datagram: &[u8]) -> Vec<Seen> {
    let packet = model::Request::decode(datagram).expect("made by prost");
    let timers = packet.timer_hit_count.len();
    if packet.timer_value.len() != timers || packet.timer_tag_count.len() != timers {
        // V1 of the outer request takes the nested ones with it.
        return Vec::new();
    }
    let nested = packet.requests.iter().filter_map(read_nested);
    read_outer(&packet).into_iter().chain(nested).collect()
}

/// Bytes as text: what is not UTF-8 becomes `\xNN`.
fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Seconds as whole microseconds, half to even; what cannot be a time is 0.
fn micros(seconds: f32) -> u64 {
    let seconds = f64::from(seconds);
    if seconds.is_finite() && seconds > 0.0 && seconds <= 2_147_483_647.0 {
        (seconds * 1e6).round_ties_even() as u64
    } else {
        0
    }
}
