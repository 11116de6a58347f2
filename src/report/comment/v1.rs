//! Pinba's COMMENT: `kind[:params[:conditions[:percentiles]]]`.
//!
//! Sections are positional, spaces count, nothing can be quoted. Beyond Pinba, percentiles may have decimals, and
//! what it leaves to crash or to ignore at SELECT is an error here: a wrong number of tags, unknown conditions.
//!
//! ```text
//! tagN_info:group,server:min_time=0.5,tag.env=prod:50,99.9
//! kind      params       conditions                percentiles
//! ```

use super::Comment;
use super::conditions;
use super::error::CommentError;
use super::fixed::FixedTable;
use super::piece::Piece;
use crate::report::definition::{
    Defaults, Definition, Field, Filter, KEYS_MAX, Key, KeySource, Level, Pattern,
};
use crate::report::histogram::BucketLayout;
use crate::report::layout::ColumnLayout;
use crate::report::v1_kinds::{Tags, V1Kind};

const ACCEPTED_KINDS: &str = "info, report1 to report18, tag_info, tag2_info, tagN_info, tag_report, tag2_report, \
    tagN_report, tag_report2, tag2_report2, tagN_report2, rtag_info, rtag2_info, rtagN_info, rtag_report, \
    rtag2_report, rtagN_report (each also as hv.<kind>), request, timer, timertag, tag, status, active_reports, \
    v2/packet, v2/request, v2/timer, v2/stats, v2/active";
const CONDITIONS: &str = "min_time=<seconds>, max_time=<seconds>, tag.<name>=<value>, \
    histogram_max_time=<seconds>";

pub(super) fn parse(
    name: &str,
    whole: Piece<'_>,
    defaults: &Defaults,
) -> Result<Comment, CommentError> {
    let sections: Vec<Piece<'_>> = whole.split(':').collect();
    let (full_kind, rest) = sections.split_first().unwrap_or((&whole, &[]));
    if let Some(table) = FixedTable::v1(full_kind.text) {
        return Comment::fixed(table, rest);
    }
    let view = full_kind.after("hv.");
    let kind_piece = view.unwrap_or(*full_kind);
    let Some((kind, _)) = V1Kind::named(kind_piece.text) else {
        return Err(full_kind.error(format!(
            "no such kind of report or table; the kinds are {ACCEPTED_KINDS}"
        )));
    };
    match rest {
        [params] if params.is_empty() => {
            return Err(params.error(format!(
                "a colon with nothing behind it; write {0} alone, or \
                 {0}:params:conditions:percentiles with unused sections left empty",
                full_kind.text
            )));
        }
        [_, _, _, extra, ..] => {
            return Err(
                extra.error("there are at most four sections: kind:params:conditions:percentiles")
            );
        }
        _ => {}
    }
    let section = |at: usize| rest.get(at).copied().filter(|section| !section.is_empty());
    // Base reports take no params; what is given is ignored, as Pinba does.
    let tags = match kind.tags {
        Tags::None => Vec::new(),
        _ => tag_names(kind, kind_piece, rest.first().copied(), defaults)?,
    };
    let (filters, histogram_max_secs) = match section(1) {
        Some(section) => read_conditions(section, defaults)?,
        None => (Vec::new(), None),
    };
    let mut percentiles = Vec::new();
    for percentile in section(2).iter().flat_map(|section| section.split(',')) {
        percentile.add_percentile(&mut percentiles)?;
    }
    let buckets = match (histogram_max_secs, view) {
        (None, None) => BucketLayout::LogLinear,
        (max_secs, _) => {
            let max_secs = max_secs.unwrap_or(defaults.histogram_max_secs);
            BucketLayout::linear(max_secs, defaults.histogram_size)
                .map_err(|error| full_kind.error(error.to_string()))?
        }
    };
    if view.is_some() {
        // A view shows no percentiles, whatever its COMMENT says.
        percentiles.clear();
    }
    let mut definition = Box::new(Definition {
        name: name.to_owned(),
        comment: Some(whole.text.to_owned()),
        kind: kind.kind(),
        level: kind.level,
        keys: keys(kind, &tags),
        filters,
        percentiles,
        window: defaults.history,
        buckets,
        extremes: false,
        layout: ColumnLayout::default(),
    });
    let table = definition.table(Some(kind), defaults);
    definition.layout = match view {
        Some(_) => table.histogram_view(),
        None => table.layout(),
    };
    Ok(Comment::Report(definition))
}

fn keys(kind: &V1Kind, tags: &[String]) -> Vec<Key> {
    let field = |field: &Field| Key::of(KeySource::Field(*field));
    let tag = |name: &String| Key {
        occurrence: kind.occurrence(),
        ..Key::of(match kind.level {
            Level::Timer => KeySource::timer_tag(name),
            Level::Packet | Level::Request => KeySource::RequestTag(name.clone()),
        })
    };
    let before = kind.before.iter().map(field);
    let after = kind.after.iter().map(field);
    before.chain(tags.iter().map(tag)).chain(after).collect()
}

fn tag_names(
    kind: &V1Kind,
    kind_piece: Piece<'_>,
    params: Option<Piece<'_>>,
    defaults: &Defaults,
) -> Result<Vec<String>, CommentError> {
    let (least, most, accepted) = match kind.tags {
        Tags::None | Tags::One => (1, 1, "exactly 1 tag name".to_owned()),
        Tags::Two => (2, 2, "exactly 2 tag names".to_owned()),
        Tags::Many => (1, KEYS_MAX, format!("1 to {KEYS_MAX} tag names")),
    };
    let takes = format!("{} takes {accepted}", kind.name);
    let Some(params) = params else {
        return Err(kind_piece.error_at_end(format!("{takes}: {}:<tag>", kind.name)));
    };
    if params.is_empty() {
        return Err(params.error(takes));
    }
    let mut names: Vec<String> = Vec::new();
    for piece in params.split(',') {
        let name = piece.tag_name(defaults)?;
        if names.contains(&name) {
            return Err(piece.error("this tag is named twice"));
        }
        names.push(name);
    }
    if (least..=most).contains(&names.len()) {
        Ok(names)
    } else {
        Err(params.error(format!("{takes}, not {}", names.len())))
    }
}

/// The filters, and the longest time of a histogram.
fn read_conditions(
    section: Piece<'_>,
    defaults: &Defaults,
) -> Result<(Vec<Filter>, Option<u64>), CommentError> {
    let mut histogram_max_secs = None;
    let accepted = format!("a condition is name=value; the conditions are {CONDITIONS}");
    let other = |[_, name, value]: [Piece<'_>; 3]| {
        if name.text == "histogram_max_time" {
            let secs = value.seconds()?.us_floor / 1_000_000;
            if secs == 0 {
                return Err(
                    value.error("the longest time of a histogram is in whole seconds, at least 1")
                );
            }
            conditions::once(&mut histogram_max_secs, name, secs)?;
            return Ok(None);
        }
        match name.after("tag.") {
            Some(tag) if tag.is_empty() => {
                Err(tag.error("tag.<name>=<value>: the name is missing"))
            }
            Some(tag) => {
                let pattern = Pattern::Equals(value.text.to_owned());
                Ok(Some(Filter::RequestTag(tag.tag_name(defaults)?, pattern)))
            }
            None => Err(name.error(format!(
                "no such condition; the conditions are {CONDITIONS}"
            ))),
        }
    };
    // Both bounds are part of the range.
    let filters = conditions::read(section, &accepted, other, |max| max.us_floor + 1)?;
    Ok((filters, histogram_max_secs))
}
