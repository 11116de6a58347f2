//! What makes a family the same family after a restart: what it counts, and by which dimensions.
//!
//! Written at the head of a family in a snapshot and read back at start; a report goes on with what the family had
//! counted only if it would have been served by it. Nothing read is trusted: layouts are made by their own checks, lists
//! are as short as a definition's.

use super::Scope;
use crate::packed::{Damage, Packer, Unpacker};
use crate::report::definition::{
    DEFINITION_KEYS_MAX, FILTERS_MAX, Field, Filter, KeySource, Level, Missing, Occurrence,
    Pattern, WINDOW_SECS_MAX,
};
use crate::report::dimension::Dimension;
use crate::report::histogram::Layout;
use crate::report::window::Ticks;

/// What is wrong with a number that stands for one of a few things.
const UNKNOWN: Damage = Damage("a report is of a kind that there is not");

/// A family without what it counted.
#[derive(Debug, PartialEq)]
pub(super) struct Identity {
    pub(super) scope: Scope,
    pub(super) filters: Vec<Filter>,
    pub(super) dimensions: Vec<Dimension>,
}

impl Identity {
    pub(super) fn pack(
        scope: &Scope,
        filters: &[Filter],
        dimensions: &[Dimension],
        to: &mut Packer,
    ) {
        to.switch(scope.level == Level::Timer);
        to.number(scope.ticks.tick_ms);
        to.number(scope.ticks.count);
        pack_layout(&scope.layout, to);
        to.switch(scope.extremes);
        to.number(filters.len() as u64);
        for filter in filters {
            pack_filter(filter, to);
        }
        to.number(dimensions.len() as u64);
        for dimension in dimensions {
            pack_source(&dimension.source, to);
            to.switch(dimension.occurrence == Occurrence::Last);
            to.number(match dimension.missing {
                Missing::Skip => 0,
                Missing::SkipEmpty => 1,
                Missing::Empty => 2,
            });
        }
    }

    pub(super) fn unpack(from: &mut Unpacker<'_>) -> Result<Self, Damage> {
        let timer = from.switch()?;
        let (tick_ms, count) = (from.number()?, from.number()?);
        // Only what some window makes: the engine divides by the one and counts to the other.
        let window_ms = tick_ms.checked_mul(count).ok_or(UNKNOWN)?;
        if tick_ms < 1000 || count == 0 || count > 120 || window_ms / 1000 > WINDOW_SECS_MAX + 120 {
            return Err(Damage("a report has a window that cannot be"));
        }
        let scope = Scope {
            level: if timer { Level::Timer } else { Level::Request },
            ticks: Ticks { tick_ms, count },
            layout: unpack_layout(from)?,
            extremes: from.switch()?,
        };
        let mut filters = Vec::new();
        for _ in 0..from.at_most(FILTERS_MAX as u64, "a report has too many filters")? {
            filters.push(unpack_filter(from)?);
        }
        let mut dimensions = Vec::new();
        for _ in 0..from.at_most(DEFINITION_KEYS_MAX as u64, "a report has too many keys")? {
            let source = unpack_source(from)?;
            let occurrence = if from.switch()? {
                Occurrence::Last
            } else {
                Occurrence::First
            };
            let missing = match from.number()? {
                0 => Missing::Skip,
                1 => Missing::SkipEmpty,
                2 => Missing::Empty,
                _ => return Err(UNKNOWN),
            };
            dimensions.push(Dimension {
                source,
                occurrence,
                missing,
            });
        }
        Ok(Self {
            scope,
            filters,
            dimensions,
        })
    }
}

fn pack_layout(layout: &Layout, to: &mut Packer) {
    match layout {
        Layout::LogLinear => to.number(0),
        Layout::Linear { max_us, size } => {
            to.number(1);
            to.number(max_us / 1_000_000);
            to.number((*size).into());
        }
        Layout::V2(v2) => {
            to.number(2);
            for number in [v2.min_ms(), v2.max_ms(), v2.buckets()] {
                to.number(number.into());
            }
        }
    }
}

fn unpack_layout(from: &mut Unpacker<'_>) -> Result<Layout, Damage> {
    let layout = match from.number()? {
        0 => return Ok(Layout::LogLinear),
        1 => Layout::linear(from.number()?, from.small()?),
        2 => Layout::v2(from.small()?, from.small()?, from.small()?),
        _ => return Err(UNKNOWN),
    };
    layout.map_err(|_| Damage("a report has a histogram that cannot be"))
}

fn pack_field(field: Field, to: &mut Packer) {
    let at = Field::ALL.iter().position(|other| *other == field);
    to.number(at.unwrap_or_default() as u64);
}

fn unpack_field(from: &mut Unpacker<'_>) -> Result<Field, Damage> {
    let at = usize::try_from(from.number()?).unwrap_or(usize::MAX);
    Field::ALL.get(at).copied().ok_or(UNKNOWN)
}

fn pack_source(source: &KeySource, to: &mut Packer) {
    match source {
        KeySource::Field(field) => {
            to.number(0);
            pack_field(*field, to);
        }
        KeySource::RequestTag(name) => {
            to.number(1);
            to.text(name.as_bytes());
        }
        KeySource::TimerTag(name) => {
            to.number(2);
            to.text(name.as_bytes());
        }
        KeySource::TimerTagOrField(name, field) => {
            to.number(3);
            to.text(name.as_bytes());
            pack_field(*field, to);
        }
    }
}

fn unpack_source(from: &mut Unpacker<'_>) -> Result<KeySource, Damage> {
    Ok(match from.number()? {
        0 => KeySource::Field(unpack_field(from)?),
        1 => KeySource::RequestTag(from.name()?.to_owned()),
        2 => KeySource::TimerTag(from.name()?.to_owned()),
        3 => KeySource::TimerTagOrField(from.name()?.to_owned(), unpack_field(from)?),
        _ => return Err(UNKNOWN),
    })
}

fn pack_filter(filter: &Filter, to: &mut Packer) {
    match filter {
        Filter::MinTime(us) => {
            to.number(0);
            to.number(*us);
        }
        Filter::TimeBelow(us) => {
            to.number(1);
            to.number(*us);
        }
        Filter::Field(field, pattern) => {
            to.number(2);
            pack_field(*field, to);
            pack_pattern(pattern, to);
        }
        Filter::RequestTag(name, pattern) => {
            to.number(3);
            to.text(name.as_bytes());
            pack_pattern(pattern, to);
        }
        Filter::TimerTag(name, pattern) => {
            to.number(4);
            to.text(name.as_bytes());
            pack_pattern(pattern, to);
        }
    }
}

fn unpack_filter(from: &mut Unpacker<'_>) -> Result<Filter, Damage> {
    Ok(match from.number()? {
        0 => Filter::MinTime(from.number()?),
        1 => Filter::TimeBelow(from.number()?),
        2 => Filter::Field(unpack_field(from)?, unpack_pattern(from)?),
        3 => Filter::RequestTag(from.name()?.to_owned(), unpack_pattern(from)?),
        4 => Filter::TimerTag(from.name()?.to_owned(), unpack_pattern(from)?),
        _ => return Err(UNKNOWN),
    })
}

fn pack_pattern(pattern: &Pattern, to: &mut Packer) {
    let (kind, text) = match pattern {
        Pattern::Equals(text) => (0, text),
        Pattern::Differs(text) => (1, text),
        Pattern::StartsWith(text) => (2, text),
    };
    to.number(kind);
    to.text(text.as_bytes());
}

fn unpack_pattern(from: &mut Unpacker<'_>) -> Result<Pattern, Damage> {
    let kind = from.number()?;
    let text = from.name()?.to_owned();
    Ok(match kind {
        0 => Pattern::Equals(text),
        1 => Pattern::Differs(text),
        2 => Pattern::StartsWith(text),
        _ => return Err(UNKNOWN),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_kind_comes_back() {
        let tag = |name: &str| name.to_owned();
        let layouts = [
            Layout::LogLinear,
            Layout::linear(10, 1024).unwrap(),
            Layout::v2(0, 60_000, 32_768).unwrap(),
        ];
        for (at, layout) in layouts.into_iter().enumerate() {
            let identity = Identity {
                scope: Scope {
                    level: if at == 0 {
                        Level::Timer
                    } else {
                        Level::Request
                    },
                    ticks: Ticks::of(Duration::from_secs([60, 900, WINDOW_SECS_MAX][at])),
                    layout,
                    extremes: at == 1,
                },
                filters: vec![
                    Filter::MinTime(7),
                    Filter::TimeBelow(u64::MAX),
                    Filter::Field(Field::Status, Pattern::Equals(tag("200"))),
                    Filter::RequestTag(tag("a"), Pattern::Differs(tag(""))),
                    Filter::TimerTag(tag("b"), Pattern::StartsWith(tag("x"))),
                ],
                dimensions: [
                    (KeySource::Field(Field::Schema), Missing::Skip),
                    (KeySource::RequestTag(tag("env")), Missing::SkipEmpty),
                    (KeySource::TimerTag(tag("group")), Missing::Empty),
                    (
                        KeySource::TimerTagOrField(tag("__status"), Field::Status),
                        Missing::Skip,
                    ),
                ]
                .map(|(source, missing)| Dimension {
                    occurrence: match missing {
                        Missing::Skip => Occurrence::Last,
                        Missing::SkipEmpty | Missing::Empty => Occurrence::First,
                    },
                    source,
                    missing,
                })
                .into(),
            };
            let Identity {
                scope,
                filters,
                dimensions,
            } = &identity;
            let mut packer = Packer::new();
            Identity::pack(scope, filters, dimensions, &mut packer);
            let mut from = Unpacker::new(packer.bytes());
            assert_eq!(Identity::unpack(&mut from), Ok(identity));
            assert_eq!(from.finish(), Ok(()));
            for end in 0..packer.len() {
                assert!(Identity::unpack(&mut Unpacker::new(&packer.bytes()[..end])).is_err());
            }
        }
    }
}
