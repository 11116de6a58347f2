//! Rows in memory: what keys gained in the minutes since the last flush.
//!
//! Filled by the series thread and read under the lock that it takes for that; then handed to the history thread, and not
//! changed any more. Its bytes are counted row by row; too large a one is made smaller ([`Batch::shrink`]), its sums stay exact.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use ahash::RandomState;

use super::dataset::{Coverage, Dataset};
use super::row::{Gain, RowRef};
use crate::pool::strings::OTHER_TEXT;
use crate::report::row_key::push_key;

/// What a row takes beside its key and histogram: itself, its place in a table that is half full, and what the allocator adds.
const ROW_BYTES: usize = size_of::<Gain>() + 2 * size_of::<(Box<[u8]>, Box<Gain>)>() + 48;

/// What the rows of one time take beside them.
const MOMENT_BYTES: usize = size_of::<Moment>() + ROW_BYTES;

/// Rows of some datasets, by time and key.
#[derive(Debug, Default)]
pub struct Batch {
    parts: Vec<Part>,
    /// The part that was added to last.
    last: usize,
    bytes: usize,
    /// Decides between rows of one weight.
    tie: RandomState,
}

/// The rows of one dataset.
#[derive(Debug)]
struct Part {
    dataset: Arc<Dataset>,
    /// The key of the rows that stand for others.
    other_key: Box<[u8]>,
    /// By time.
    moments: BTreeMap<u64, Moment>,
}

/// The rows of one time.
#[derive(Debug, Default)]
struct Moment {
    rows: HashMap<Box<[u8]>, Box<Gain>, RandomState>,
    /// What has no row of its own.
    other: Option<Box<Gain>>,
}

/// What was given up so that a batch takes less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Rows that lost their histograms.
    pub histograms: u64,
    /// Rows that were added to `(other)`.
    pub folded: u64,
    /// Rows that were lost with the oldest minutes.
    pub lost: u64,
}

/// What decides which rows stay: time and requests, then chance.
type Weight = (u64, u64);

/// A row, as it is weighed.
struct Weighed {
    weight: Weight,
    /// Bytes without the histogram.
    bytes: usize,
    histogram_bytes: usize,
}

impl Batch {
    /// Adds to a row.
    pub fn add(
        &mut self,
        dataset: &Arc<Dataset>,
        time: u64,
        key: &[u8],
        is_other: bool,
        gain: &Gain,
    ) {
        let part = self.part(dataset);
        let moments = &mut self.parts[part].moments;
        let moment = moments.entry(time).or_insert_with(|| {
            self.bytes += MOMENT_BYTES;
            Moment::default()
        });
        let row = if is_other {
            moment.other.get_or_insert_default()
        } else if let Some(row) = moment.rows.get_mut(key) {
            row
        } else {
            self.bytes += ROW_BYTES + key.len();
            moment.rows.entry(key.into()).or_default()
        };
        self.bytes -= row.sum.heap_bytes();
        row.add(gain);
        self.bytes += row.sum.heap_bytes();
    }

    /// Adds to what is known of a dataset in a minute, a row of `coverage`.
    pub(super) fn cover(
        &mut self,
        coverage: &Arc<Dataset>,
        of: &Dataset,
        minute: u64,
        more: Coverage,
    ) {
        let key = of.coverage_key();
        self.add(coverage, minute, &key, false, &more.gain());
    }

    /// The number of a dataset's part, which is made when it is missing.
    fn part(&mut self, dataset: &Arc<Dataset>) -> usize {
        let is_it = |part: &Part| Arc::ptr_eq(&part.dataset, dataset);
        if !self.parts.get(self.last).is_some_and(is_it) {
            let known = self.parts.iter().position(|it| it.dataset == *dataset);
            self.last = known.unwrap_or(self.parts.len());
        }
        if self.last == self.parts.len() {
            let mut other_key = Vec::new();
            let keys = dataset.keys.iter();
            keys.for_each(|_| push_key(&mut other_key, OTHER_TEXT));
            self.parts.push(Part {
                dataset: Arc::clone(dataset),
                other_key: other_key.into(),
                moments: BTreeMap::new(),
            });
        }
        self.last
    }

    /// The datasets that have rows.
    pub fn datasets(&self) -> impl Iterator<Item = &Arc<Dataset>> {
        self.parts.iter().map(|part| &part.dataset)
    }

    /// Gives the rows of a dataset whose times are within a span to `each`, by time.
    pub fn rows<'a>(
        &'a self,
        dataset: &Dataset,
        span: Range<u64>,
        mut each: impl FnMut(RowRef<'a>),
    ) {
        let part = self.parts.iter().find(|it| *it.dataset == *dataset);
        let Some(part) = part.filter(|_| !span.is_empty()) else {
            return;
        };
        for (&time, moment) in part.moments.range(span) {
            let rows = moment.rows.iter().map(|(key, gain)| (key, false, gain));
            let other = moment
                .other
                .iter()
                .map(|gain| (&part.other_key, true, gain));
            for (key, is_other, gain) in rows.chain(other) {
                each(RowRef {
                    time,
                    key,
                    is_other,
                    gain,
                });
            }
        }
    }

    /// Whether it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// From the first time of its rows to one past the last.
    #[must_use]
    pub fn span(&self) -> Range<u64> {
        let times = || self.parts.iter().flat_map(|it| it.moments.keys().copied());
        let end = times().max().map_or(0, |last| last + 1);
        times().min().unwrap_or_default()..end
    }

    /// Takes a quarter less than `bytes_max` from now on. Rows without their histograms may have four fifths of that; the
    /// lightest beyond, going by their time and requests, are added to `(other)`. Then the lightest of the rest lose their
    /// histograms. Should it still be more than `bytes_max`, because the disk has taken nothing for long, the oldest minutes go.
    /// Coverage stays as long as its minute does.
    pub fn shrink(&mut self, bytes_max: usize) -> Shrunk {
        let mut rows = self.weighed();
        rows.sort_unstable_by_key(|row| Reverse(row.weight));
        let of_rows: usize = rows.iter().map(|row| row.bytes + row.histogram_bytes).sum();
        let room = (bytes_max / 4 * 3).saturating_sub(self.bytes.saturating_sub(of_rows));
        let kept = fitting(rows.iter().map(|row| row.bytes), room / 5 * 4);
        let room = room - rows[..kept].iter().map(|row| row.bytes).sum::<usize>();
        let full = fitting(rows[..kept].iter().map(|row| row.histogram_bytes), room);
        let weight_of = |place: usize| rows.get(place).map(|row| row.weight);
        let shrunk = self.fold(weight_of(kept), weight_of(full));
        self.drop_oldest(bytes_max, shrunk)
    }

    /// The rows that have a key of their own, apart from coverage.
    fn weighed(&self) -> Vec<Weighed> {
        let parts = self.parts.iter().filter(|it| !it.dataset.is_coverage());
        let rows = parts.flat_map(|it| it.moments.values().flat_map(|it| &it.rows));
        rows.map(|(key, gain)| Weighed {
            weight: weight(&self.tie, key, gain),
            bytes: ROW_BYTES + key.len(),
            histogram_bytes: gain.sum.heap_bytes(),
        })
        .collect()
    }

    /// Adds the rows up to one weight to `(other)`, and takes their histograms from those up to another.
    fn fold(&mut self, folded_to: Option<Weight>, dropped_to: Option<Weight>) -> Shrunk {
        let Self { parts, tie, .. } = self;
        let mut shrunk = Shrunk::default();
        let mut covers = Vec::new();
        for part in parts.iter_mut().filter(|it| !it.dataset.is_coverage()) {
            for (&minute, moment) in &mut part.moments {
                let is_light = |key: &[u8], gain: &Gain, to| Some(weight(tie, key, gain)) <= to;
                let light = moment
                    .rows
                    .extract_if(|key, gain| is_light(key, gain, folded_to));
                let (mut folded, mut histograms) = (0, 0);
                for (_, gain) in light {
                    moment.other.get_or_insert_default().add(&gain);
                    folded += 1;
                }
                moment.rows.shrink_to(moment.rows.len() * 2);
                for (key, gain) in &mut moment.rows {
                    if is_light(key, gain, dropped_to) && gain.sum.drop_histogram() {
                        histograms += 1;
                    }
                }
                shrunk.folded += folded;
                shrunk.histograms += histograms;
                let cover = Coverage {
                    histograms_dropped: histograms.into(),
                    keys_folded: folded.into(),
                    ..Coverage::default()
                };
                if cover != Coverage::default() {
                    covers.push((Arc::clone(&part.dataset), minute, cover));
                }
            }
        }
        let coverage = Arc::new(Dataset::coverage());
        for (of, minute, cover) in covers {
            self.cover(&coverage, &of, minute, cover);
        }
        self.bytes = self.parts.iter().map(Part::bytes).sum();
        shrunk
    }

    /// Drops the oldest minutes until it takes so many bytes at most; the newest stays. The next one tells how many rows went.
    fn drop_oldest(&mut self, bytes_max: usize, mut shrunk: Shrunk) -> Shrunk {
        while self.bytes > bytes_max {
            let Range { start, end } = self.span();
            if start + 1 == end {
                break;
            }
            let mut covers = Vec::new();
            for part in &mut self.parts {
                let Some(moment) = part.moments.remove(&start) else {
                    continue;
                };
                let rows_lost = moment.rows.len() as u64 + u64::from(moment.other.is_some());
                shrunk.lost += rows_lost;
                if part.dataset.is_coverage() {
                    // What it knew of minutes before it.
                    covers.extend(moment.rows.into_iter().map(|(key, gain)| {
                        let secs = 0;
                        (
                            key,
                            Coverage {
                                secs,
                                ..Coverage::of(&gain.sum.totals)
                            },
                        )
                    }));
                } else {
                    let cover = Coverage {
                        rows_lost,
                        ..Coverage::default()
                    };
                    covers.push((part.dataset.coverage_key().into(), cover));
                }
            }
            self.parts.retain(|it| !it.moments.is_empty());
            self.last = 0;
            let next = self.span().start;
            let is_known = |it: &(_, Coverage)| it.1 != Coverage::default();
            let coverage = Arc::new(Dataset::coverage());
            for (key, cover) in covers.into_iter().filter(is_known) {
                self.add(&coverage, next, &key, false, &cover.gain());
            }
            self.bytes = self.parts.iter().map(Part::bytes).sum();
        }
        shrunk
    }
}

impl Part {
    fn bytes(&self) -> usize {
        self.moments.values().map(Moment::bytes).sum()
    }
}

impl Moment {
    fn bytes(&self) -> usize {
        let rows = self.rows.iter();
        let rows: usize = rows
            .map(|(key, gain)| ROW_BYTES + key.len() + gain.sum.heap_bytes())
            .sum();
        let other = self.other.as_ref().map_or(0, |it| it.sum.heap_bytes());
        MOMENT_BYTES + rows + other
    }
}

fn weight(tie: &RandomState, key: &[u8], gain: &Gain) -> Weight {
    let totals = &gain.sum.totals;
    let time = u64::try_from(totals.time).unwrap_or(u64::MAX);
    (time.saturating_add(totals.requests), tie.hash_one(key))
}

/// How many of these find room, one after the other.
fn fitting(sizes: impl Iterator<Item = usize>, room: usize) -> usize {
    let mut left = room;
    let fits = sizes.take_while(|&size| {
        let rest = left.checked_sub(size);
        left = rest.unwrap_or_default();
        rest.is_some()
    });
    fits.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::packed::{Packed, write_pairs, write_totals};
    use crate::report::row_key::key_texts;
    use crate::report::totals::Totals;

    fn dataset(report: &str) -> Arc<Dataset> {
        let report = report.to_owned();
        let hash = "0123456789abcdef".to_owned();
        Arc::new(Dataset {
            report,
            hash,
            ..Dataset::coverage()
        })
    }

    fn key(number: u64) -> Vec<u8> {
        let mut key = Vec::new();
        push_key(&mut key, &format!("/{number}"));
        push_key(&mut key, "");
        key
    }

    /// So many requests of each of 100 different times.
    fn gain(requests: u64) -> Gain {
        let totals = Totals {
            requests,
            time: u128::from(requests) * 1_000,
            ..Totals::ZERO
        };
        let mut packed = Vec::new();
        write_totals(&mut packed, &totals, true);
        write_pairs(&mut packed, (0..100).map(|step| (700 + step * 3, requests)));
        let mut gain = Gain::default();
        gain.sum.add(Packed(&packed));
        gain
    }

    /// By time and whether they stand for others: requests, rows, and rows with histograms.
    fn sums(batch: &Batch, dataset: &Dataset) -> BTreeMap<(u64, bool), (u64, usize, usize)> {
        let mut sums = BTreeMap::new();
        batch.rows(dataset, 0..u64::MAX, |row| {
            let sum: &mut (u64, usize, usize) = sums.entry((row.time, row.is_other)).or_default();
            sum.0 += row.gain.sum.totals.requests;
            sum.1 += 1;
            sum.2 += usize::from(row.gain.sum.histogram().is_some());
            let mut texts = key_texts(row.key);
            assert_eq!(texts.all(|text| text == OTHER_TEXT), row.is_other);
        });
        sums
    }

    #[test]
    fn what_is_added_to_a_row_adds_up() {
        let mut batch = Batch::default();
        assert!(batch.is_empty() && batch.span().is_empty());
        let (scripts, hosts) = (dataset("scripts"), dataset("hosts"));
        for second in 0..180 {
            for row in 0..10 {
                batch.add(&scripts, 600 + second / 60 * 60, &key(row), false, &gain(1));
            }
            // The same, as it is known elsewhere.
            let again = Arc::new(Dataset::clone(&hosts));
            batch.add(&again, 600, &key(7), false, &gain(2));
            batch.add(&again, 600, &[], true, &gain(5));
        }
        assert_eq!(batch.datasets().count(), 2);
        assert_eq!(batch.span(), 600..721);
        let of_scripts = [600, 660, 720].map(|time| ((time, false), (600, 10, 10)));
        assert_eq!(sums(&batch, &scripts), of_scripts.into());
        let of_hosts = [((600, false), (360, 1, 1)), ((600, true), (900, 1, 1))];
        assert_eq!(sums(&batch, &hosts), of_hosts.into());
        let mut within = 0;
        batch.rows(&scripts, 601..720, |row| within += row.time);
        assert_eq!(within, 6_600);
        batch.rows(&scripts, 700..700, |_| panic!("an empty span"));
        batch.rows(&dataset("none"), 0..u64::MAX, |_| panic!("no such dataset"));
        let bytes = batch.parts.iter().map(Part::bytes).sum::<usize>();
        assert_eq!(batch.bytes(), bytes);
    }

    #[test]
    fn what_is_light_gives_way() {
        let mut batch = Batch::default();
        let (scripts, coverage) = (dataset("scripts"), Arc::new(Dataset::coverage()));
        for row in 1..=1_000 {
            batch.add(&scripts, 60, &key(row), false, &gain(row));
        }
        batch.add(&coverage, 60, &key(1), false, &gain(1));
        // Histograms alone.
        let bytes = batch.bytes();
        let shrunk = batch.shrink(bytes - 1_000);
        assert!(shrunk.histograms > 100 && shrunk.folded == 0, "{shrunk:?}");
        let full = 1_000 - shrunk.histograms;
        let full_at_first = shrunk.histograms;
        assert_eq!(
            sums(&batch, &scripts)[&(60, false)],
            (500_500, 1_000, full as usize)
        );
        batch.rows(&scripts, 0..61, |row| {
            let is_heavy = row.gain.sum.totals.requests > shrunk.histograms;
            assert_eq!(row.gain.sum.histogram().is_some(), is_heavy);
        });
        // It stays away.
        batch.add(&scripts, 60, &key(1), false, &gain(0));
        assert_eq!(sums(&batch, &scripts)[&(60, false)].2, full as usize);
        // Then rows.
        let shrunk = batch.shrink(100_000);
        assert!(
            batch.bytes() <= 100_000 && shrunk.folded > 100 && shrunk.lost == 0,
            "{shrunk:?}"
        );
        let sums_now = sums(&batch, &scripts);
        let (kept, folded) = (sums_now[&(60, false)], sums_now[&(60, true)]);
        assert_eq!((kept.0 + folded.0, folded.1, folded.2), (500_500, 1, 0));
        assert_eq!(folded.0, shrunk.folded * (shrunk.folded + 1) / 2);
        assert!(kept.2 > 5, "the heaviest keep their histograms: {kept:?}");
        // It is said of which report, and stays as long as anything does.
        let known = |batch: &Batch| {
            let mut known = HashMap::new();
            batch.rows(&coverage, 0..u64::MAX, |row| {
                let of = Coverage::of(&row.gain.sum.totals);
                assert!(known.insert(row.key.to_vec(), (row.time, of)).is_none());
            });
            known
        };
        let of_scripts = known(&batch)[&scripts.coverage_key()];
        assert_eq!(of_scripts.1.keys_folded, shrunk.folded.into());
        assert!(of_scripts.1.histograms_dropped >= full_at_first.into());
        assert_eq!(known(&batch)[&key(1)].1.secs, 1);
        let bytes = batch.parts.iter().map(Part::bytes).sum::<usize>();
        assert_eq!(batch.bytes(), bytes);
    }

    #[test]
    fn when_nothing_is_written_for_long_the_oldest_minutes_go() {
        let mut batch = Batch::default();
        let (scripts, coverage) = (dataset("scripts"), Arc::new(Dataset::coverage()));
        let mut shrunk = Shrunk::default();
        for minute in 0..1_000 {
            for (dataset, row) in [(&scripts, 1), (&coverage, 2)] {
                batch.add(dataset, minute * 60, &key(row), false, &gain(1));
            }
            if batch.bytes() > 100_000 {
                let more = batch.shrink(100_000);
                shrunk.lost += more.lost;
                shrunk.folded += more.folded;
            }
            assert!(batch.bytes() <= 100_000);
        }
        assert!(shrunk.lost > 500, "{shrunk:?}");
        assert_eq!(batch.span().end, 999 * 60 + 1);
        // The oldest that is there knows of those that are not.
        let mut known = (0, 0);
        batch.rows(&coverage, 0..u64::MAX, |row| {
            if *row.key == *scripts.coverage_key() {
                let of = Coverage::of(&row.gain.sum.totals);
                known = (known.0 + of.rows_lost, known.1 + of.keys_folded);
            }
        });
        let minutes = |dataset| sums(&batch, dataset).into_keys().map(|it| it.0).min();
        assert_eq!(minutes(&scripts), minutes(&coverage));
        assert_eq!(known.1, shrunk.folded.into());
        assert!(
            (1..=shrunk.lost).contains(&known.0),
            "{known:?} of {shrunk:?}"
        );
    }
}
