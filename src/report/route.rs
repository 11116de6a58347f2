//! Shortcuts from a record's numbers to its group.
//!
//! What group a record belongs to depends on its origin, its request tags or its timer tags: on one of them in most
//! families, which then keep an array over that number; on several in the others, which keep a cache of fixed size.
//! A shortcut holds the group's generation too: when the group went and its number was given away, the shortcut is void.

use super::dimension::{Parts, Subject};
use super::groups::Groups;
use crate::pool::Freed;

/// Entries of a cache over several numbers: a power of two, half a megabyte.
const CACHE_ENTRIES: usize = 1 << 15;

const NOTHING: u32 = u32::MAX;
const SKIPPED: u32 = u32::MAX - 1;

/// What is known of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// It belongs to this group.
    Group(u32),
    /// The family does not count it.
    Skipped,
    /// It must be looked up.
    Nothing,
}

/// Shortcuts of one family.
#[derive(Debug)]
pub(super) enum Route {
    Origin(Vec<Target>),
    RequestTags(Vec<Target>),
    TimerTags(Vec<Target>),
    Several {
        parts: Parts,
        cache: Box<[(Subject, Target)]>,
    },
}

/// Where a shortcut leads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    group: u32,
    generation: u32,
}

const UNKNOWN: Target = Target {
    group: NOTHING,
    generation: 0,
};

impl Route {
    pub(super) fn new(parts: Parts) -> Self {
        match (parts.origin, parts.request_tags, parts.timer_tags) {
            (_, false, false) => Self::Origin(Vec::new()),
            (false, true, false) => Self::RequestTags(Vec::new()),
            (false, false, true) => Self::TimerTags(Vec::new()),
            _ => {
                let nobody = Subject {
                    origin: NOTHING,
                    request_tags: NOTHING,
                    timer_tags: NOTHING,
                };
                Self::Several {
                    parts,
                    cache: vec![(nobody, UNKNOWN); CACHE_ENTRIES].into(),
                }
            }
        }
    }

    /// What is known of `subject`.
    pub(super) fn find(&self, subject: Subject, groups: &Groups) -> Known {
        let target = match self {
            Self::Origin(targets) => targets.get(subject.origin as usize),
            Self::RequestTags(targets) => targets.get(subject.request_tags as usize),
            Self::TimerTags(targets) => targets.get(subject.timer_tags as usize),
            Self::Several { parts, cache } => {
                let subject = parts.only(subject);
                let entry = &cache[place(subject)];
                (entry.0 == subject).then_some(&entry.1)
            }
        };
        match target {
            None => Known::Nothing,
            Some(target) => match target.group {
                NOTHING => Known::Nothing,
                SKIPPED => Known::Skipped,
                group if groups.get(group).generation == target.generation => Known::Group(group),
                _ => Known::Nothing,
            },
        }
    }

    /// Remembers the outcome of a look-up.
    pub(super) fn remember(&mut self, subject: Subject, found: Option<u32>, groups: &Groups) {
        let target = match found {
            Some(group) => Target {
                group,
                generation: groups.get(group).generation,
            },
            None => Target {
                group: SKIPPED,
                generation: 0,
            },
        };
        let (targets, at) = match self {
            Self::Origin(targets) => (targets, subject.origin as usize),
            Self::RequestTags(targets) => (targets, subject.request_tags as usize),
            Self::TimerTags(targets) => (targets, subject.timer_tags as usize),
            Self::Several { parts, cache } => {
                let subject = parts.only(subject);
                cache[place(subject)] = (subject, target);
                return;
            }
        };
        if targets.len() <= at {
            targets.resize(at + 1, UNKNOWN);
        }
        targets[at] = target;
    }

    /// Numbers that stand for something else from now on.
    pub(super) fn forget(&mut self, freed: &Freed) {
        let (targets, ids) = match self {
            Self::Origin(targets) => (targets, &freed.origins),
            Self::RequestTags(targets) | Self::TimerTags(targets) => (targets, &freed.tag_sets),
            Self::Several { cache, .. } => {
                // Too many combinations to look for; numbers are freed once in thousands of requests.
                cache.iter_mut().for_each(|entry| entry.1 = UNKNOWN);
                return;
            }
        };
        for &id in ids {
            if let Some(target) = targets.get_mut(id as usize) {
                *target = UNKNOWN;
            }
        }
    }

    /// Bytes taken.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Origin(targets) | Self::RequestTags(targets) | Self::TimerTags(targets) => {
                targets.capacity() * size_of::<Target>()
            }
            Self::Several { cache, .. } => size_of_val(&cache[..]),
        }
    }
}

impl Parts {
    /// `subject` with the numbers blanked that do not matter.
    fn only(self, subject: Subject) -> Subject {
        Subject {
            origin: if self.origin { subject.origin } else { 0 },
            request_tags: if self.request_tags {
                subject.request_tags
            } else {
                0
            },
            timer_tags: if self.timer_tags {
                subject.timer_tags
            } else {
                0
            },
        }
    }
}

/// Cache place of a subject: numbers are handed out by us, so a plain multiplicative hash will do.
fn place(subject: Subject) -> usize {
    let mixed = u64::from(subject.origin).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(subject.timer_tags).wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
        ^ u64::from(subject.request_tags).wrapping_mul(0x1656_67b1_9e37_79f9);
    (mixed >> 40) as usize % CACHE_ENTRIES
}
