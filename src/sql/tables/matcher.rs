//! Whether a row of the pool passes the conditions of a scan, those that ranges of ids do not settle.
//!
//! Called by the walk under the lock of `Live`, a piece of rows at a time. Conditions on numbers are tested row by row; what
//! one on a text says of an origin, a tag set or a word is found out once and remembered by its number, a byte for each.

use super::condition::{Condition, Test};
use super::raw::{Lane, Raw};
use super::shown::{Floats, kib, origin_word, request_floats, seconds, tags_text};
use crate::pool::Pool;
use crate::pool::requests::RequestSlices;
use crate::pool::timers::TimerSlices;
use crate::pool::words::{NONE, Words};

/// The conditions that ranges of ids do not settle.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    origins: Vec<(Lane, Test)>,
    sets: Vec<(Lane, Test)>,
    names: Vec<(Lane, Test)>,
    values: Vec<(Lane, Test)>,
    pub(super) others: Vec<Condition>,
    /// What was found out of each origin, set, name and value.
    of_origins: Verdicts,
    of_sets: Verdicts,
    of_names: Verdicts,
    of_values: Verdicts,
}

/// What was found out, by number.
#[derive(Debug, Default)]
struct Verdicts(Vec<u8>);

impl Verdicts {
    #[inline]
    fn get(&mut self, number: u32, judge: impl FnOnce() -> bool) -> bool {
        let at = number as usize;
        if at >= self.0.len() {
            self.0.resize((at + 1).next_power_of_two(), 0);
        }
        if self.0[at] == 0 {
            self.0[at] = 1 + u8::from(judge());
        }
        self.0[at] == 2
    }
}

impl Matcher {
    pub(super) fn new(raw: Raw, conditions: Vec<Condition>) -> Self {
        let mut matcher = Self::default();
        for condition in conditions {
            let lane = raw.lanes()[condition.column];
            let list = match lane {
                _ if raw == Raw::Tag => {
                    matcher.others.push(condition);
                    continue;
                }
                Lane::Hostname
                | Lane::ServerName
                | Lane::ScriptName
                | Lane::Schema
                | Lane::Status => &mut matcher.origins,
                Lane::Tags | Lane::TagsCount => &mut matcher.sets,
                Lane::Name | Lane::NameNumber => &mut matcher.names,
                Lane::Value => &mut matcher.values,
                _ => {
                    matcher.others.push(condition);
                    continue;
                }
            };
            list.push((lane, condition.test));
        }
        matcher
    }

    /// About what it takes.
    pub(super) fn memory(&self) -> usize {
        let verdicts = [
            &self.of_origins,
            &self.of_sets,
            &self.of_names,
            &self.of_values,
        ];
        verdicts.iter().map(|verdicts| verdicts.0.len()).sum()
    }

    /// Whether every row passes.
    pub(super) fn is_empty(&self) -> bool {
        let lists = [&self.origins, &self.sets, &self.names, &self.values];
        lists.iter().all(|list| list.is_empty()) && self.others.is_empty()
    }

    /// The offsets of the requests that pass.
    pub(super) fn requests(
        &mut self,
        pool: &Pool,
        requests: &RequestSlices<'_>,
        rows: &mut Vec<u32>,
    ) {
        rows.clear();
        rows.extend(0..requests.len() as u32);
        let lanes = Raw::Request.lanes();
        for Condition { column, test } in &self.others {
            match (lanes[*column], test) {
                (Lane::RequestCount, Test::Ints(ranges)) => {
                    keep(rows, requests.request_count, |n| {
                        ranges.contains(i64::from(n.max(1)))
                    });
                }
                (Lane::TimersCount, Test::Ints(ranges)) => {
                    keep(rows, requests.timers, |n| ranges.contains(i64::from(n)));
                }
                (Lane::Timestamp, Test::Ints(ranges)) => {
                    keep(rows, requests.timestamp, |n| ranges.contains(i64::from(n)));
                }
                (lane, Test::Floats(test)) => match request_floats(requests, lane) {
                    Floats::Bytes(column) => {
                        keep(rows, column, |n| test.passes(f64::from(kib(n))));
                    }
                    Floats::Seconds(column) => {
                        keep(rows, column, |n| test.passes(f64::from(seconds(n))));
                    }
                },
                // None of these columns is ever NULL.
                (_, Test::Null(true)) => rows.clear(),
                _ => {}
            }
        }
        if !self.origins.is_empty() {
            let (verdicts, tests) = (&mut self.of_origins, &self.origins);
            keep(rows, requests.origin, |origin| {
                verdicts.get(origin, || origin_passes(pool, origin, tests))
            });
        }
        if !self.sets.is_empty() {
            let (verdicts, tests) = (&mut self.of_sets, &self.sets);
            keep(rows, requests.request_tags, |set| {
                verdicts.get(set, || {
                    tests.iter().all(|(_, test)| match test {
                        Test::Ints(ranges) => {
                            ranges.contains(pool.tag_sets.pairs(set).len() as i64)
                        }
                        Test::Text { test, negated } => {
                            test.passes(&tags_text(pool, set)) != *negated
                        }
                        Test::Null(null) => !null,
                        Test::Floats(_) => true,
                    })
                })
            });
        }
    }

    /// Whether it looks at tags of requests.
    pub(super) fn reads_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// The offsets of the timers that pass.
    pub(super) fn timers(&self, timers: &TimerSlices<'_>, rows: &mut Vec<u32>) {
        rows.clear();
        rows.extend(0..timers.tags.len() as u32);
        for Condition { test, .. } in &self.others {
            match test {
                Test::Ints(ranges) => {
                    keep(rows, timers.hit_count, |n| ranges.contains(i64::from(n)));
                }
                Test::Floats(test) => {
                    keep(rows, timers.value, |n| test.passes(f64::from(seconds(n))));
                }
                Test::Null(true) => rows.clear(),
                Test::Null(false) | Test::Text { .. } => {}
            }
        }
    }

    /// Whether any tag of a set may pass.
    #[inline]
    pub(super) fn set_may(&mut self, pool: &Pool, set: u32) -> bool {
        if !self.others.is_empty() && self.others.iter().any(|c| c.test == Test::Null(true)) {
            return false;
        }
        if self.names.is_empty() && self.values.is_empty() {
            return true;
        }
        let mut verdicts = std::mem::take(&mut self.of_sets);
        let may = verdicts.get(set, || {
            let mut pairs = pool.tag_sets.pairs(set);
            pairs.any(|(name, value)| self.pair(&pool.words, name, value))
        });
        self.of_sets = verdicts;
        may
    }

    /// Whether a tag passes.
    #[inline]
    pub(super) fn pair(&mut self, words: &Words, name: u32, value: u32) -> bool {
        let (names, values) = (&self.names, &self.values);
        (names.is_empty() || self.of_names.get(name, || word_passes(words, name, names)))
            && (values.is_empty()
                || self
                    .of_values
                    .get(value, || word_passes(words, value, values)))
    }
}

#[inline]
fn keep<T: Copy>(rows: &mut Vec<u32>, column: &[T], mut passes: impl FnMut(T) -> bool) {
    rows.retain(|&row| passes(column[row as usize]));
}

fn origin_passes(pool: &Pool, origin: u32, tests: &[(Lane, Test)]) -> bool {
    let origin = pool.origins.get(origin);
    tests.iter().all(|(lane, test)| {
        if *lane == Lane::Status {
            return match test {
                Test::Ints(ranges) => ranges.contains(i64::from(origin.status)),
                Test::Null(null) => !null,
                _ => true,
            };
        }
        let word = origin_word(origin, *lane);
        match test {
            Test::Null(null) => (word == NONE) == *null,
            Test::Text { test, negated } => {
                word != NONE && test.passes(pool.words.text(word)) != *negated
            }
            _ => true,
        }
    })
}

fn word_passes(words: &Words, word: u32, tests: &[(Lane, Test)]) -> bool {
    tests.iter().all(|(_, test)| match test {
        Test::Ints(ranges) => ranges.contains(i64::from(word)),
        Test::Text { test, negated } => test.passes(words.text(word)) != *negated,
        Test::Null(null) => !null,
        Test::Floats(_) => true,
    })
}
