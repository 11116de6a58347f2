//! Pinba's COMMENT: `kind[:params[:conditions[:percentiles]]]`.
//!
//! Sections are positional, spaces count, nothing can be quoted. Beyond Pinba, percentiles may have decimals, and
//! what it leaves to crash or to ignore at SELECT is an error here: a wrong number of tags, unknown conditions.
//!
//! ```text
//! tagN_info:group,server:min_time=0.5,tag.env=prod:50,99.9
//! kind      params       conditions                percentiles
//! ```

use super::error::CommentError;
use super::fixed::FixedTable;
use super::kinds::{BaseKind, TagKind, Tags, V1Kind};
use super::number::{SECONDS_ACCEPTED, Seconds, add_percentile_text};
use super::piece::Piece;
use super::{Comment, Definition};
use crate::report::definition::{
    Defaults, FILTERS_MAX, Filter, KEYS_MAX, Key, KeySource, Kind, Level, Missing, Occurrence,
    Pattern,
};
use crate::report::histogram::Layout;
use crate::report::shape::{Measure, Part, v1 as shapes};

const KINDS: &str = "info, report1 to report18, tag_info, tag2_info, tagN_info, tag_report, tag2_report, \
    tagN_report, tag_report2, tag2_report2, tagN_report2, rtag_info, rtag2_info, rtagN_info, rtag_report, \
    rtag2_report, rtagN_report (each also as hv.<kind>), request, timer, timertag, tag, status, active_reports, \
    v2/packet, v2/request, v2/timer, v2/stats, v2/active";
const CONDITIONS: &str = "min_time=<seconds>, max_time=<seconds>, tag.<name>=<value>, \
    histogram_max_time=<seconds>";

/// What stands between the second and the third colon.
#[derive(Debug, Default)]
struct Conditions {
    filters: Vec<Filter>,
    histogram_max_secs: Option<u64>,
}

/// Keys, and the `index_value` made of them.
struct Keys {
    kind: Kind,
    level: Level,
    keys: Vec<Key>,
    index: Vec<Part>,
    numbered: bool,
}

pub(super) fn parse(
    name: &str,
    whole: Piece<'_>,
    defaults: &Defaults,
) -> Result<Comment, CommentError> {
    let sections: Vec<Piece<'_>> = whole.split(':').collect();
    let [full_kind, rest @ ..] = &sections[..] else {
        return Err(unknown_kind(whole));
    };
    if let Some(table) = FixedTable::v1(full_kind.text) {
        return match rest {
            [] => Ok(Comment::Fixed(table)),
            [first, ..] => {
                Err(first.error(format!("the table {} takes no parameters", full_kind.text)))
            }
        };
    }
    let view = full_kind.after("hv.");
    let kind_piece = view.unwrap_or(*full_kind);
    let Some((kind, _)) = V1Kind::named(kind_piece.text) else {
        return Err(unknown_kind(*full_kind));
    };
    let (params, conditions, percentiles) = match rest {
        [] => (None, None, None),
        [params] if params.is_empty() => {
            return Err(params.error(format!(
                "a colon with nothing behind it; write {0} alone, or \
                 {0}:params:conditions:percentiles with unused sections left empty",
                full_kind.text
            )));
        }
        [params] => (Some(*params), None, None),
        [params, conditions] => (Some(*params), Some(*conditions), None),
        [params, conditions, percentiles] => (Some(*params), Some(*conditions), Some(*percentiles)),
        [_, _, _, extra, ..] => {
            return Err(
                extra.error("there are at most four sections: kind:params:conditions:percentiles")
            );
        }
    };
    let keys = match kind {
        // Base reports take no params; what is given is ignored, as Pinba does.
        V1Kind::Info => Keys::none(),
        V1Kind::Base(base) => Keys::base(base),
        V1Kind::Tag(tag) => Keys::tags(tag, kind_piece, params, defaults)?,
    };
    let conditions = self::conditions(conditions, defaults)?;
    let percentiles = self::percentiles(percentiles)?;
    let layout = match (conditions.histogram_max_secs, view) {
        (None, None) => Layout::LogLinear,
        (max_secs, _) => {
            let max_secs = max_secs.unwrap_or(defaults.histogram_max_secs);
            Layout::linear(max_secs, defaults.histogram_size)
                .map_err(|error| full_kind.error(error.to_string()))?
        }
    };
    Ok(Comment::Report(Box::new(keys.definition(
        name,
        whole.text,
        view.is_some(),
        conditions.filters,
        percentiles,
        layout,
        defaults,
    ))))
}

impl Keys {
    fn none() -> Self {
        Self {
            kind: Kind::Base,
            level: Level::Packet,
            keys: Vec::new(),
            index: Vec::new(),
            numbered: false,
        }
    }

    fn base(base: &BaseKind) -> Self {
        Self {
            kind: Kind::Base,
            level: Level::Request,
            keys: base
                .keys
                .iter()
                .map(|field| field_key(KeySource::Field(*field)))
                .collect(),
            index: base.index.to_vec(),
            numbered: false,
        }
    }

    fn tags(
        kind: &TagKind,
        piece: Piece<'_>,
        params: Option<Piece<'_>>,
        defaults: &Defaults,
    ) -> Result<Self, CommentError> {
        let names = tag_names(kind, piece, params, defaults)?;
        let tags = names.len();
        let tag_key = |name: &str| match kind.level {
            Level::Timer => match KeySource::timer_tag(name) {
                // The field stands in for a missing tag, so nothing is ever missing.
                source @ KeySource::TimerTagOrField(..) => Key {
                    source,
                    occurrence: kind.occurrence(),
                    missing: Missing::Empty,
                },
                source => Key {
                    source,
                    occurrence: kind.occurrence(),
                    missing: Missing::Skip,
                },
            },
            Level::Packet | Level::Request => Key {
                source: KeySource::RequestTag(name.to_owned()),
                occurrence: kind.occurrence(),
                missing: Missing::Skip,
            },
        };
        let before = kind
            .before
            .iter()
            .map(|field| field_key(KeySource::Field(*field)));
        let after = kind
            .after
            .iter()
            .map(|field| field_key(KeySource::Field(*field)));
        Ok(Self {
            kind: if kind.level == Level::Timer {
                Kind::Tag
            } else {
                Kind::RequestTag
            },
            level: kind.level,
            keys: before
                .chain(names.iter().map(|name| tag_key(name)))
                .chain(after)
                .collect(),
            index: kind.index(tags),
            numbered: kind.tags != Tags::One,
        })
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the sections of a COMMENT, used in one place"
    )]
    fn definition(
        self,
        name: &str,
        comment: &str,
        view: bool,
        filters: Vec<Filter>,
        percentiles: Vec<f64>,
        layout: Layout,
        defaults: &Defaults,
    ) -> Definition {
        let Self {
            kind,
            level,
            keys,
            index,
            numbered,
        } = self;
        let count = if level == Level::Timer {
            Measure::Hits
        } else {
            Measure::Requests
        };
        let histogram = view
            .then(|| shapes::histogram_view(&keys, &index, layout, count, defaults))
            .flatten();
        // A view shows no percentiles, whatever its COMMENT says.
        let percentiles = if histogram.is_some() {
            Vec::new()
        } else {
            percentiles
        };
        let shape = histogram.unwrap_or_else(|| match (kind, level) {
            (_, Level::Packet) => shapes::info(&percentiles),
            (Kind::Tag, _) => shapes::timer_tags(&keys, numbered, &index, &percentiles, defaults),
            (Kind::RequestTag, _) => {
                shapes::request_tags(&keys, numbered, &index, &percentiles, defaults)
            }
            _ => shapes::base(&keys, &index, &percentiles, defaults),
        });
        Definition {
            name: name.to_owned(),
            comment: Some(comment.to_owned()),
            kind,
            level,
            keys,
            filters,
            percentiles,
            window: defaults.history,
            layout,
            extremes: false,
            shape,
        }
    }
}

/// A field as a key of a Pinba report: an empty one is a row too.
fn field_key(source: KeySource) -> Key {
    Key {
        source,
        occurrence: Occurrence::First,
        missing: Missing::Empty,
    }
}

fn unknown_kind(kind: Piece<'_>) -> CommentError {
    kind.error(format!(
        "no such kind of report or table; the kinds are {KINDS}"
    ))
}

fn tag_names<'a>(
    kind: &TagKind,
    kind_piece: Piece<'a>,
    params: Option<Piece<'a>>,
    defaults: &Defaults,
) -> Result<Vec<&'a str>, CommentError> {
    let takes = match kind.tags {
        Tags::One => format!("{} takes exactly 1 tag name", kind.name),
        Tags::Two => format!("{} takes exactly 2 tag names", kind.name),
        Tags::Many => format!("{} takes 1 to {KEYS_MAX} tag names", kind.name),
    };
    let Some(params) = params else {
        return Err(kind_piece.error_at_end(format!("{takes}: {}:<tag>", kind.name)));
    };
    if params.is_empty() {
        return Err(params.error(takes));
    }
    let mut names: Vec<&str> = Vec::new();
    for piece in params.split(',') {
        check_tag_name(piece, defaults)?;
        if names.contains(&piece.text) {
            return Err(piece.error("this tag is named twice"));
        }
        names.push(piece.text);
    }
    let fits = match kind.tags {
        Tags::One => names.len() == 1,
        Tags::Two => names.len() == 2,
        Tags::Many => names.len() <= KEYS_MAX,
    };
    if fits {
        Ok(names)
    } else {
        Err(params.error(format!("{takes}, not {}", names.len())))
    }
}

/// A tag name that some record could have.
pub(super) fn check_tag_name(piece: Piece<'_>, defaults: &Defaults) -> Result<(), CommentError> {
    let longest = usize::from(defaults.text_bytes_max);
    if piece.is_empty() {
        Err(piece.error("a tag name is missing"))
    } else if piece.text.len() > longest {
        Err(piece.error(format!("tag names are kept up to {longest} bytes")))
    } else {
        Ok(())
    }
}

fn conditions(section: Option<Piece<'_>>, defaults: &Defaults) -> Result<Conditions, CommentError> {
    let mut conditions = Conditions::default();
    let Some(section) = section.filter(|section| !section.is_empty()) else {
        return Ok(conditions);
    };
    let mut times = Times::default();
    for piece in section.split(',') {
        let Some((name, value)) = piece.split_once('=') else {
            return Err(piece.error(format!(
                "a condition is name=value; the conditions are {CONDITIONS}"
            )));
        };
        match name.text {
            "min_time" => times.set_min(name, value)?,
            "max_time" => times.set_max(name, value)?,
            "histogram_max_time" => {
                let secs = seconds(value)?.us_floor / 1_000_000;
                if secs == 0 {
                    return Err(value
                        .error("the longest time of a histogram is in whole seconds, at least 1"));
                }
                if conditions.histogram_max_secs.replace(secs).is_some() {
                    return Err(name.error("this condition is given twice"));
                }
            }
            _ => match name.after("tag.") {
                Some(tag) if !tag.is_empty() => {
                    check_tag_name(tag, defaults)?;
                    let pattern = Pattern::Equals(value.text.to_owned());
                    conditions
                        .filters
                        .push(Filter::RequestTag(tag.text.to_owned(), pattern));
                }
                Some(tag) => return Err(tag.error("tag.<name>=<value>: the name is missing")),
                None => {
                    return Err(name.error(format!(
                        "no such condition; the conditions are {CONDITIONS}"
                    )));
                }
            },
        }
        if conditions.filters.len() > FILTERS_MAX {
            return Err(piece.error(format!("there may be at most {FILTERS_MAX} conditions")));
        }
    }
    let (min, max) = times.checked(section)?;
    // A bound of 0 is off. Both bounds are part of the range.
    let max = max.map(|max| Filter::TimeBelow(max.us_floor + 1));
    let min = min.map(|min| Filter::MinTime(min.us_ceil));
    conditions.filters.splice(0..0, min.into_iter().chain(max));
    if conditions.filters.len() > FILTERS_MAX {
        return Err(section.error(format!("there may be at most {FILTERS_MAX} conditions")));
    }
    Ok(conditions)
}

/// `min_time` and `max_time`, shared with pinba2's grammar.
#[derive(Debug, Default)]
pub(super) struct Times {
    min: Option<Seconds>,
    max: Option<Seconds>,
}

impl Times {
    pub(super) fn set_min(
        &mut self,
        name: Piece<'_>,
        value: Piece<'_>,
    ) -> Result<(), CommentError> {
        Self::set(&mut self.min, name, value)
    }

    pub(super) fn set_max(
        &mut self,
        name: Piece<'_>,
        value: Piece<'_>,
    ) -> Result<(), CommentError> {
        Self::set(&mut self.max, name, value)
    }

    fn set(
        bound: &mut Option<Seconds>,
        name: Piece<'_>,
        value: Piece<'_>,
    ) -> Result<(), CommentError> {
        match bound.replace(seconds(value)?) {
            None => Ok(()),
            Some(_) => Err(name.error("this condition is given twice")),
        }
    }

    /// The bounds that are not 0 (off).
    pub(super) fn checked(
        self,
        section: Piece<'_>,
    ) -> Result<(Option<Seconds>, Option<Seconds>), CommentError> {
        let on = |bound: &Seconds| bound.us_ceil > 0;
        let (min, max) = (self.min.filter(on), self.max.filter(on));
        match (min, max) {
            (Some(low), Some(high)) if low.us_ceil > high.us_ceil => {
                Err(section.error("min_time is greater than max_time"))
            }
            _ => Ok((min, max)),
        }
    }
}

fn seconds(value: Piece<'_>) -> Result<Seconds, CommentError> {
    Seconds::parse(value.text).ok_or_else(|| value.error(format!("must be {SECONDS_ACCEPTED}")))
}

fn percentiles(section: Option<Piece<'_>>) -> Result<Vec<f64>, CommentError> {
    let mut list = Vec::new();
    if let Some(section) = section.filter(|section| !section.is_empty()) {
        for piece in section.split(',') {
            add_percentile_text(&mut list, piece.text).map_err(|problem| piece.error(problem))?;
        }
    }
    Ok(list)
}
