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

use super::Comment;
use super::conditions;
use super::error::CommentError;
use super::fixed::FixedTable;
use super::piece::Piece;
use crate::report::definition::{
    Defaults, Definition, Field, Filter, KEYS_MAX, Key, KeySource, Kind, Level, Missing, Pattern,
    WINDOW_SECS_MAX,
};
use crate::report::histogram::BucketLayout;
use crate::report::layout::ColumnLayout;

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
    let (kind, level) = match report_type.text {
        "packet" | "info" => (Kind::V2Packet, Level::Packet),
        "request" => (Kind::V2Request, Level::Request),
        "timer" => (Kind::V2Timer, Level::Timer),
        "stats" => return Comment::fixed(FixedTable::V2Stats, rest),
        "active" => return Comment::fixed(FixedTable::V2Active, rest),
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
    let keys = self::keys(*keys, level, defaults)?;
    let (percentiles, buckets) = self::histogram(*histogram)?;
    let filters = self::filters(*filters, level, defaults)?;
    let mut definition = Box::new(Definition {
        name: name.to_owned(),
        comment: Some(whole.text.to_owned()),
        kind,
        level,
        keys,
        filters,
        percentiles,
        window,
        buckets,
        extremes: false,
        layout: ColumnLayout::default(),
    });
    definition.layout = definition.table(None, defaults).layout();
    Ok(Comment::Report(definition))
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

fn keys(section: Piece<'_>, level: Level, defaults: &Defaults) -> Result<Vec<Key>, CommentError> {
    if level == Level::Packet {
        return match section.text {
            "no_keys" => Ok(Vec::new()),
            _ => Err(section.error("a packet report has no keys: write no_keys")),
        };
    }
    if section.is_empty() || section.text == "no_keys" {
        return Err(section.error(format!(
            "a {} report has 1 to {KEYS_MAX} keys: {FIELDS}, +<request tag>, @<timer tag>",
            if level == Level::Timer {
                "timer"
            } else {
                "request"
            }
        )));
    }
    let mut keys: Vec<Key> = Vec::new();
    for piece in section.split(',') {
        let key = key(piece, level, defaults)?;
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

fn key(piece: Piece<'_>, level: Level, defaults: &Defaults) -> Result<Key, CommentError> {
    if let Some(name) = piece.after("~") {
        // A timer report leaves out requests without the field, a request report has a row for them.
        let missing = match level {
            Level::Timer => Missing::Skip,
            _ => Missing::Empty,
        };
        let source = KeySource::Field(field(name)?);
        return Ok(Key {
            missing,
            ..Key::of(source)
        });
    }
    let source = match piece.after("+") {
        Some(name) => KeySource::RequestTag(name.tag_name(defaults)?),
        None => KeySource::timer_tag(&piece.after("@").unwrap_or(piece).tag_name(defaults)?),
    };
    if source.is_of_timer() && level != Level::Timer {
        return Err(piece.error(format!(
            "timer tags are keys in v2/timer only; here: {FIELDS}, +<request tag>"
        )));
    }
    Ok(Key {
        missing: Missing::SkipEmpty,
        ..Key::of(source)
    })
}

fn field(name: Piece<'_>) -> Result<Field, CommentError> {
    Field::ALL
        .into_iter()
        .find(|field| field.v2_name() == name.text)
        .ok_or_else(|| name.error(format!("no such field; the fields are {FIELDS}")))
}

fn histogram(section: Piece<'_>) -> Result<(Vec<f64>, BucketLayout), CommentError> {
    if section.text == "no_percentiles" {
        return Ok((Vec::new(), BucketLayout::LogLinear));
    }
    let mut percentiles = Vec::new();
    let mut buckets = None;
    for piece in section.split(',') {
        if let Some(hv) = piece.after("hv=") {
            let read = read_hv(hv.text).map_err(|problem| hv.error(problem))?;
            if buckets.replace(read).is_some() {
                return Err(piece.error("hv= is given twice"));
            }
        } else if let Some(list) = piece.after("percentiles=") {
            for percentile in list.split(':') {
                percentile.add_percentile(&mut percentiles)?;
            }
        } else if let Some(percentile) = piece.after("p") {
            percentile.add_percentile(&mut percentiles)?;
        } else {
            return Err(piece.error(
                "must be no_percentiles, or hv=<min ms>:<max ms>:<buckets> with p<percentile>, \
                 percentiles=<p>:<p>...",
            ));
        }
    }
    match (buckets, percentiles.is_empty()) {
        (Some(buckets), false) => Ok((percentiles, buckets)),
        (None, _) => Err(section.error("percentiles need hv=<min ms>:<max ms>:<buckets> too")),
        (_, true) => Err(section.error("hv= needs at least one percentile too, such as p95")),
    }
}

/// `<min ms>:<max ms>:<buckets>`.
pub(in crate::report) fn read_hv(text: &str) -> Result<BucketLayout, String> {
    let numbers: Option<Vec<u32>> = text
        .split(':')
        .map(|part| part.parse().ok().filter(|_| !part.starts_with('+')))
        .collect();
    match numbers.as_deref() {
        Some(&[min_ms, max_ms, buckets]) => {
            BucketLayout::v2(min_ms, max_ms, buckets).map_err(|error| error.to_string())
        }
        _ => Err("hv= takes three whole numbers: <min ms>:<max ms>:<buckets>".to_owned()),
    }
}

fn filters(
    section: Piece<'_>,
    level: Level,
    defaults: &Defaults,
) -> Result<Vec<Filter>, CommentError> {
    if section.text == "no_filters" {
        return Ok(Vec::new());
    }
    let timer = match level {
        Level::Timer => ", @<timer tag>=<value>",
        _ => "",
    };
    let accepted = format!(
        "must be no_filters, or min_time=<seconds>, max_time=<seconds>, \
         ~<field>=<value> ({FIELDS}), +<request tag>=<value>{timer}"
    );
    let other = |[whole, name, value]: [Piece<'_>; 3]| {
        let pattern = Pattern::Equals(value.text.to_owned());
        let filter = if let Some(name) = name.after("~") {
            let field = field(name)?;
            if field == Field::Status && !is_status(value.text) {
                return Err(value.error("a status is a whole number from 0 to 4294967295"));
            }
            Filter::Field(field, pattern)
        } else if let Some(name) = name.after("+") {
            Filter::RequestTag(name.tag_name(defaults)?, pattern)
        } else if let Some(name) = name.after("@").filter(|_| level == Level::Timer) {
            Filter::TimerTag(name.tag_name(defaults)?, pattern)
        } else {
            return Err(whole.error(accepted.as_str()));
        };
        Ok(Some(filter))
    };
    // Times are whole microseconds: t < 0.5 us is t < 1 us.
    conditions::read(section, &accepted, other, |max| max.us_ceil)
}

/// Whether a text is a status as the daemon writes it.
pub(in crate::report) fn is_status(text: &str) -> bool {
    text.parse::<u32>()
        .is_ok_and(|status| status.to_string() == text)
}
