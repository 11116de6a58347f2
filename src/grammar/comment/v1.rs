//! Pinba's COMMENT: `kind[:params[:conditions[:percentiles]]]`.
//!
//! Sections are positional, spaces count, nothing can be quoted. Unlike in Pinba, percentiles may
//! have decimals, and input that crashes it or is ignored is an error here: a wrong number of tags,
//! params of base reports, unknown conditions.
//!
//! ```text
//! tagN_info:group,server:min_time=0.5,tag.env=prod:50,99.9
//! kind      params       conditions                percentiles
//! ```

use super::Comment;
use super::conditions;
use super::error::{Wrong, checked, wrong};
use crate::config::suggest;
use crate::grammar::FixedTable;
use crate::grammar::number::{Seconds, tag_name};
use crate::grammar::percentile::parse_percentile_into;
use crate::report::definition::v1_kinds::{KINDS, Tags, V1Kind};
use crate::report::definition::{
    Defaults, Definition, Field, Filter, KEYS_MAX, Key, KeySource, Level, Pattern,
};
use crate::report::histogram::BucketLayout;

const ACCEPTED_KINDS: &str = "info, report1 to report18, tag_info, tag2_info, tagN_info, tag_report, tag2_report, \
    tagN_report, tag_report2, tag2_report2, tagN_report2, rtag_info, rtag2_info, rtagN_info, rtag_report, \
    rtag2_report, rtagN_report (each also as hv.<kind>), request, timer, timertag, tag, status, active_reports, \
    v2/packet, v2/request, v2/timer, v2/stats, v2/active";
const CONDITIONS: &str = "min_time=<seconds>, max_time=<seconds>, tag.<name>=<value>, \
    histogram_max_time=<seconds>";

pub(super) fn parse<'a>(
    name: &str,
    whole: &'a str,
    defaults: &Defaults,
) -> Result<Comment, Wrong<'a>> {
    let sections: Vec<&str> = whole.split(':').collect();
    let (&full_kind, rest) = sections.split_first().unwrap_or((&whole, &[]));
    if let Some(table) = FixedTable::v1(full_kind) {
        return Comment::fixed(table, rest);
    }
    let view = full_kind.strip_prefix("hv.");
    let Some((kind, _)) = V1Kind::named(view.unwrap_or(full_kind)) else {
        let kinds = KINDS.iter().map(|kind| kind.name);
        let tables = FixedTable::PINBA.into_iter().map(FixedTable::comment);
        let question = suggest::question(view.unwrap_or(full_kind), kinds.chain(tables));
        let mark = if question.is_empty() { ";" } else { "" };
        let problem = format!(
            "no such kind of report or table{question}{mark} the kinds are {ACCEPTED_KINDS}"
        );
        return wrong(full_kind, problem);
    };
    match *rest {
        [params @ ""] if kind.tags == Tags::None => {
            let problem = format!(
                "a colon with nothing behind it; write {full_kind} alone, or \
                 {full_kind}:params:conditions:percentiles with unused sections left empty"
            );
            return wrong(params, problem);
        }
        [_, _, _, extra, ..] => {
            let problem = "there are at most four sections: kind:params:conditions:percentiles";
            return wrong(extra, problem);
        }
        _ => {}
    }
    let section = |at: usize| rest.get(at).copied().filter(|section| !section.is_empty());
    let tags = match kind.tags {
        Tags::None => match section(0) {
            None => Vec::new(),
            Some(params) => {
                let name = kind.name;
                let problem = format!(
                    "{name} takes no parameters: conditions are the section after them, as in {name}::min_time=0.5"
                );
                return wrong(params, problem);
            }
        },
        _ => tag_names(kind, whole, rest.first().copied(), defaults)?,
    };
    let (filters, histogram_max_secs) = match section(1) {
        Some(section) => read_conditions(section, defaults)?,
        None => (Vec::new(), None),
    };
    let mut percentiles = Vec::new();
    for text in section(2).iter().flat_map(|section| section.split(',')) {
        checked(text, parse_percentile_into(&mut percentiles, text))?;
    }
    let buckets = match (histogram_max_secs, view) {
        (None, None) => BucketLayout::LogLinear,
        (max_secs, _) => {
            let max_secs = max_secs.unwrap_or(defaults.histogram_max_secs);
            checked(full_kind, BucketLayout::linear(max_secs, defaults.histogram_size))?
        }
    };
    if view.is_some() {
        // A view shows no percentiles, whatever its COMMENT says.
        percentiles.clear();
    }
    let definition = Definition {
        comment: Some(whole.to_owned()),
        keys: keys(kind, &tags),
        filters,
        percentiles,
        buckets,
        ..Definition::new(name, kind.kind(), kind.level, defaults.raw_window)
    };
    Ok(Comment::Report(Box::new(definition.with_columns(defaults))))
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
    before.chain(tags.iter().map(tag)).chain(kind.after.iter().map(field)).collect()
}

fn tag_names<'a>(
    kind: &V1Kind,
    whole: &'a str,
    params: Option<&'a str>,
    defaults: &Defaults,
) -> Result<Vec<String>, Wrong<'a>> {
    let (least, most, accepted) = match kind.tags {
        Tags::None | Tags::One => (1, 1, "exactly 1 tag name".to_owned()),
        Tags::Two => (2, 2, "exactly 2 tag names".to_owned()),
        Tags::Many => (1, KEYS_MAX, format!("1 to {KEYS_MAX} tag names")),
    };
    let takes = format!("{} takes {accepted}", kind.name);
    let params = match params {
        None => {
            return wrong(whole.split_at(whole.len()).1, format!("{takes}: {}:<tag>", kind.name));
        }
        Some(empty @ "") => return wrong(empty, takes),
        Some(params) => params,
    };
    let mut names: Vec<String> = Vec::new();
    for text in params.split(',') {
        let name = checked(text, tag_name(text, defaults))?;
        if names.contains(&name) {
            return wrong(text, "this tag is named twice");
        }
        names.push(name);
    }
    if (least..=most).contains(&names.len()) {
        Ok(names)
    } else {
        wrong(params, format!("{takes}, not {}", names.len()))
    }
}

/// The filters, and the longest time of a histogram.
fn read_conditions<'a>(
    section: &'a str,
    defaults: &Defaults,
) -> Result<(Vec<Filter>, Option<u64>), Wrong<'a>> {
    let mut histogram_max_secs = None;
    let accepted = format!("a condition is name=value; the conditions are {CONDITIONS}");
    let other = |[_, name, value]: [&'a str; 3]| {
        if name == "histogram_max_time" {
            let secs = checked(value, Seconds::parse(value))?.us_floor / 1_000_000;
            if secs == 0 {
                let problem = "the longest time of a histogram is in whole seconds, at least 1";
                return wrong(value, problem);
            }
            conditions::once(&mut histogram_max_secs, name, secs)?;
            return Ok(None);
        }
        match name.strip_prefix("tag.") {
            Some(tag @ "") => wrong(tag, "tag.<name>=<value>: the name is missing"),
            Some(tag) => {
                let name = checked(tag, tag_name(tag, defaults))?;
                Ok(Some(Filter::RequestTag(name, Pattern::Equals(value.to_owned()))))
            }
            None => wrong(name, format!("no such condition; the conditions are {CONDITIONS}")),
        }
    };
    // Both bounds are inclusive.
    let filters = conditions::parse(section, &accepted, other, |max| max.us_floor + 1)?;
    Ok((filters, histogram_max_secs))
}
