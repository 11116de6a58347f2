//! Records as plain values that can be compared and printed.

use crate::input::record::{Record, Repeat, TagSet};

/// One request, as read from a record.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::input) struct Plain {
    pub(in crate::input) received_secs: u32,
    pub(in crate::input) hostname: Vec<u8>,
    pub(in crate::input) server_name: Vec<u8>,
    pub(in crate::input) script_name: Vec<u8>,
    pub(in crate::input) schema: Option<Vec<u8>>,
    pub(in crate::input) request_count: u32,
    pub(in crate::input) document_size: u32,
    pub(in crate::input) memory_peak: u32,
    pub(in crate::input) memory_footprint: u32,
    pub(in crate::input) status: u32,
    /// Request time, user and system CPU time.
    pub(in crate::input) times: [f32; 3],
    pub(in crate::input) tags: Vec<PlainTag>,
    pub(in crate::input) timers: Vec<PlainTimer>,
    pub(in crate::input) identity_hash: u64,
    pub(in crate::input) tags_hash: u64,
    /// The name of the tags, and whether they are left out.
    pub(in crate::input) repeat: Option<(Repeat, bool)>,
}

/// Name and value.
pub(in crate::input) type PlainTag = (Vec<u8>, Vec<u8>);

#[derive(Debug, Clone, PartialEq)]
pub(in crate::input) struct PlainTimer {
    pub(in crate::input) hit_count: u32,
    /// Value, user and system CPU time.
    pub(in crate::input) times: [f32; 3],
    pub(in crate::input) tags: Vec<PlainTag>,
    pub(in crate::input) tags_hash: u64,
}

impl Plain {
    pub(in crate::input) fn of(record: &Record<'_>) -> Self {
        let tags = |set: TagSet<'_>| {
            assert_eq!(set.len(), set.iter().len());
            assert_eq!(set.is_empty(), set.iter().next().is_none());
            set.iter()
                .map(|(name, value)| {
                    assert!(name < record.string_count() && value < record.string_count());
                    (record.string(name).to_vec(), record.string(value).to_vec())
                })
                .collect::<Vec<_>>()
        };
        let timers: Vec<_> = record
            .timers()
            .map(|timer| PlainTimer {
                hit_count: timer.hit_count,
                times: [timer.value, timer.ru_utime, timer.ru_stime],
                tags: tags(timer.tags),
                tags_hash: timer.tags.hash(),
            })
            .collect();
        assert_eq!(timers.len(), record.timer_count() as usize);
        assert_only_strings_in_use(record);
        Self {
            received_secs: record.received_secs(),
            hostname: record.hostname().to_vec(),
            server_name: record.server_name().to_vec(),
            script_name: record.script_name().to_vec(),
            schema: record.schema().map(<[u8]>::to_vec),
            request_count: record.request_count(),
            document_size: record.document_size(),
            memory_peak: record.memory_peak(),
            memory_footprint: record.memory_footprint(),
            status: record.status(),
            times: [record.request_time(), record.ru_utime(), record.ru_stime()],
            tags: tags(record.request_tags()),
            timers,
            identity_hash: record.identity_hash(),
            tags_hash: record.request_tags().hash(),
            repeat: record.repeat().map(|repeat| (repeat, record.leaves_out_tags())),
        }
    }
}

/// Every string of a record is used by some tag, and there is none after the last.
fn assert_only_strings_in_use(record: &Record<'_>) {
    let mut used = vec![false; usize::from(record.string_count())];
    let sets =
        std::iter::once(record.request_tags()).chain(record.timers().map(|timer| timer.tags));
    for (name, value) in sets.flat_map(|set| set.iter()) {
        used[usize::from(name)] = true;
        used[usize::from(value)] = true;
    }
    assert!(used.iter().all(|used| *used), "a string that nothing uses");
    assert_eq!(record.string(record.string_count()), b"");
}

/// All records of a block, with nothing left over.
pub(in crate::input) fn read_all(block: &[u8]) -> Vec<Plain> {
    let mut rest = block;
    let mut requests = Vec::new();
    let mut bytes = 0;
    while let Some(record) = Record::next(&mut rest) {
        bytes += record.bytes().len();
        requests.push(Plain::of(&record));
    }
    assert_eq!(bytes, block.len(), "records make up the block");
    requests
}
