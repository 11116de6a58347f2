//! pinba2's COMMENT: `v2/<type>/<window>/<keys>/<histogram>/<filters>`.
//!
//! ```text
//! v2/timer/60,1/~script,@group/hv=0:1000:1000,p95,p99.9/min_time=0.1,+env=prod
//!    type  window keys         histogram                filters
//! ```
//!
//! The tick width is checked and otherwise ignored: our ticks are a second, or a 120th of the window where that is
//! more. Filter times are seconds, `min_time` is part of the range and `max_time` is not, as in pinba2's code.

use std::time::Duration;

use super::error::CommentError;
use super::fixed::FixedTable;
use super::number::add_percentile_text;
use super::piece::Piece;
use super::v1::{Times, check_tag_name};
use super::{Comment, Definition};
use crate::report::definition::{
    Defaults, FILTERS_MAX, Field, Filter, KEYS_MAX, Key, KeySource, Kind, Level, Missing,
    Occurrence, Pattern, WINDOW_SECS_MAX,
};
use crate::report::histogram::Layout;
use crate::report::shape::v2 as shapes;

const GRAMMAR: &str = "v2/<type>/<window>/<keys>/<histogram>/<filters>, \
    such as v2/request/60/~host/no_percentiles/no_filters";
const TYPES: &str = "packet (or info), request, timer, stats, active";
const FIELDS: &str = "~host, ~script, ~server, ~schema, ~status";

pub(super) fn parse(
    name: &str,
    whole: Piece<'_>,
    defaults: &Defaults,
) -> Result<Comment, CommentError> {
    let sections: Vec<Piece<'_>> = whole.split('/').collect();
    let [_, report_type, rest @ ..] = &sections[..] else {
        return Err(whole.error(format!("must be {GRAMMAR}")));
    };
    let kind = match report_type.text {
        "packet" | "info" => Kind::V2Packet,
        "request" => Kind::V2Request,
        "timer" => Kind::V2Timer,
        "stats" => return fixed(FixedTable::V2Stats, rest),
        "active" => return fixed(FixedTable::V2Active, rest),
        _ => return Err(report_type.error(format!("no such type; the types are {TYPES}"))),
    };
    let [window, keys, histogram, filters] = rest else {
        let problem = format!("there must be six parts, not {}: {GRAMMAR}", sections.len());
        return Err(match rest.get(4) {
            Some(extra) => extra.error(problem),
            None => whole.error_at_end(problem),
        });
    };
    let window = self::window(*window, defaults)?;
    let keys = self::keys(*keys, kind, defaults)?;
    let (percentiles, layout) = self::histogram(*histogram)?;
    let filters = self::filters(*filters, kind, defaults)?;
    let (level, shape) = match kind {
        Kind::V2Timer => (
            Level::Timer,
            shapes::timer(&keys, &percentiles, layout, defaults),
        ),
        Kind::V2Request => (
            Level::Request,
            shapes::request(&keys, &percentiles, layout, defaults),
        ),
        _ => (Level::Packet, shapes::packet(&percentiles, layout)),
    };
    Ok(Comment::Report(Box::new(Definition {
        name: name.to_owned(),
        comment: Some(whole.text.to_owned()),
        kind,
        level,
        keys,
        filters,
        percentiles,
        window,
        layout,
        extremes: false,
        shape,
    })))
}

fn fixed(table: FixedTable, rest: &[Piece<'_>]) -> Result<Comment, CommentError> {
    match rest {
        [] => Ok(Comment::Fixed(table)),
        [first, ..] => Err(first.error(format!("{} takes no parameters", table.comment()))),
    }
}

fn window(section: Piece<'_>, defaults: &Defaults) -> Result<Duration, CommentError> {
    if section.text == "default_history_time" {
        return Ok(defaults.history);
    }
    let secs = |piece: Piece<'_>, what: &str| match piece.text.parse::<u64>() {
        Ok(secs) if (1..=WINDOW_SECS_MAX).contains(&secs) && !piece.text.starts_with('+') => {
            Ok(secs)
        }
        _ => Err(piece.error(format!(
            "the {what} is a whole number of seconds from 1 to {WINDOW_SECS_MAX} \
             (or the window default_history_time)"
        ))),
    };
    match section.split_once(',') {
        None => secs(section, "window").map(Duration::from_secs),
        Some((window, tick)) => {
            let (window_secs, tick_secs) = (secs(window, "window")?, secs(tick, "tick width")?);
            if window_secs % tick_secs != 0 {
                return Err(tick.error(format!(
                    "the window of {window_secs} s is not a multiple of this tick width"
                )));
            }
            Ok(Duration::from_secs(window_secs))
        }
    }
}

fn keys(section: Piece<'_>, kind: Kind, defaults: &Defaults) -> Result<Vec<Key>, CommentError> {
    if kind == Kind::V2Packet {
        return match section.text {
            "no_keys" => Ok(Vec::new()),
            _ => Err(section.error("a packet report has no keys: write no_keys")),
        };
    }
    if section.is_empty() || section.text == "no_keys" {
        return Err(section.error(format!(
            "a {} report has 1 to {KEYS_MAX} keys: {FIELDS}, +<request tag>, @<timer tag>",
            if kind == Kind::V2Timer {
                "timer"
            } else {
                "request"
            }
        )));
    }
    let mut keys: Vec<Key> = Vec::new();
    for piece in section.split(',') {
        let key = key(piece, kind, defaults)?;
        if keys.iter().any(|earlier| earlier.source == key.source) {
            return Err(piece.error("this key is given twice"));
        }
        if keys.len() == KEYS_MAX {
            return Err(piece.error(format!("there may be at most {KEYS_MAX} keys")));
        }
        keys.push(key);
    }
    Ok(keys)
}

fn key(piece: Piece<'_>, kind: Kind, defaults: &Defaults) -> Result<Key, CommentError> {
    let (source, missing) = if let Some(name) = piece.after("~") {
        // A timer report leaves out requests without the field, a request report has a row for them.
        let missing = if kind == Kind::V2Timer {
            Missing::Skip
        } else {
            Missing::Empty
        };
        (KeySource::Field(field(name)?), missing)
    } else if let Some(name) = piece.after("+") {
        check_tag_name(name, defaults)?;
        (
            KeySource::RequestTag(name.text.to_owned()),
            Missing::SkipEmpty,
        )
    } else {
        let name = piece.after("@").unwrap_or(piece);
        check_tag_name(name, defaults)?;
        if kind != Kind::V2Timer {
            return Err(piece.error(format!(
                "timer tags are keys in v2/timer only; here: {FIELDS}, +<request tag>"
            )));
        }
        (KeySource::timer_tag(name.text), Missing::SkipEmpty)
    };
    Ok(Key {
        source,
        occurrence: Occurrence::First,
        missing,
    })
}

fn field(name: Piece<'_>) -> Result<Field, CommentError> {
    Field::ALL
        .into_iter()
        .find(|field| shapes::field_name(*field) == name.text)
        .ok_or_else(|| name.error(format!("no such field; the fields are {FIELDS}")))
}

fn histogram(section: Piece<'_>) -> Result<(Vec<f64>, Layout), CommentError> {
    if section.text == "no_percentiles" {
        return Ok((Vec::new(), Layout::LogLinear));
    }
    let mut percentiles = Vec::new();
    let mut layout = None;
    for piece in section.split(',') {
        if let Some(hv) = piece.after("hv=") {
            if layout.replace(hv_layout(hv)?).is_some() {
                return Err(piece.error("hv= is given twice"));
            }
        } else if let Some(list) = piece.after("percentiles=") {
            for percentile in list.split(':') {
                add_percentile_text(&mut percentiles, percentile.text)
                    .map_err(|problem| percentile.error(problem))?;
            }
        } else if let Some(percentile) = piece.after("p") {
            add_percentile_text(&mut percentiles, percentile.text)
                .map_err(|problem| percentile.error(problem))?;
        } else {
            return Err(piece.error(
                "must be no_percentiles, or hv=<min ms>:<max ms>:<buckets> with p<percentile>, \
                 percentiles=<p>:<p>...",
            ));
        }
    }
    match (layout, percentiles.is_empty()) {
        (Some(layout), false) => Ok((percentiles, layout)),
        (None, _) => Err(section.error("percentiles need hv=<min ms>:<max ms>:<buckets> too")),
        (_, true) => Err(section.error("hv= needs at least one percentile too, such as p95")),
    }
}

fn hv_layout(hv: Piece<'_>) -> Result<Layout, CommentError> {
    read_hv(hv.text).map_err(|problem| hv.error(problem))
}

/// `<min ms>:<max ms>:<buckets>`.
pub(in crate::report) fn read_hv(text: &str) -> Result<Layout, String> {
    let numbers: Option<Vec<u32>> = text
        .split(':')
        .map(|part| part.parse().ok().filter(|_| !part.starts_with('+')))
        .collect();
    match numbers.as_deref() {
        Some(&[min_ms, max_ms, buckets]) => {
            Layout::v2(min_ms, max_ms, buckets).map_err(|error| error.to_string())
        }
        _ => Err("hv= takes three whole numbers: <min ms>:<max ms>:<buckets>".to_owned()),
    }
}

fn filters(
    section: Piece<'_>,
    kind: Kind,
    defaults: &Defaults,
) -> Result<Vec<Filter>, CommentError> {
    if section.text == "no_filters" {
        return Ok(Vec::new());
    }
    let accepted = || {
        let timer = if kind == Kind::V2Timer {
            ", @<timer tag>=<value>"
        } else {
            ""
        };
        format!(
            "must be no_filters, or min_time=<seconds>, max_time=<seconds>, \
             ~<field>=<value> ({FIELDS}), +<request tag>=<value>{timer}"
        )
    };
    let mut filters = Vec::new();
    let mut times = Times::default();
    for piece in section.split(',') {
        let Some((name, value)) = piece.split_once('=') else {
            return Err(piece.error(accepted()));
        };
        let pattern = || Pattern::Equals(value.text.to_owned());
        if name.text == "min_time" {
            times.set_min(name, value)?;
        } else if name.text == "max_time" {
            times.set_max(name, value)?;
        } else if let Some(name) = name.after("~") {
            let field = field(name)?;
            if field == Field::Status && !is_status(value.text) {
                return Err(value.error("a status is a whole number from 0 to 4294967295"));
            }
            filters.push(Filter::Field(field, pattern()));
        } else if let Some(name) = name.after("+") {
            check_tag_name(name, defaults)?;
            filters.push(Filter::RequestTag(name.text.to_owned(), pattern()));
        } else if let Some(name) = name.after("@").filter(|_| kind == Kind::V2Timer) {
            check_tag_name(name, defaults)?;
            filters.push(Filter::TimerTag(name.text.to_owned(), pattern()));
        } else {
            return Err(piece.error(accepted()));
        }
        if filters.len() > FILTERS_MAX {
            return Err(piece.error(format!("there may be at most {FILTERS_MAX} filters")));
        }
    }
    let (min, max) = times.checked(section)?;
    let min = min.map(|min| Filter::MinTime(min.us_ceil));
    // Times are whole microseconds: t < 0.5 us is t < 1 us.
    let max = max.map(|max| Filter::TimeBelow(max.us_ceil));
    filters.splice(0..0, min.into_iter().chain(max));
    if filters.len() > FILTERS_MAX {
        return Err(section.error(format!("there may be at most {FILTERS_MAX} filters")));
    }
    Ok(filters)
}

/// Whether a text is a status as the daemon writes it.
pub(in crate::report) fn is_status(text: &str) -> bool {
    text.parse::<u32>()
        .is_ok_and(|status| status.to_string() == text)
}
