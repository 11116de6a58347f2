//! `/changes`: breaks the change of a report between two spans down by key.
//!
//! The parameters are those of `/api/v1/changes`. Without a span, it is the report's window up to
//! the last whole minute.

use maud::{Markup, html};

use super::columns::Show;
use super::formatting::{self, MINUS, Name, Scale, visible};
use super::frame;
use super::ranking::remarks;
use super::render::View;
use super::table::{Head, bar, table};
use crate::http::api::changes::Query;
use crate::http::error::Problem;
use crate::http::params::Params;
use crate::query::answer::has_sums;
use crate::query::attribution::{Attribution, Change, MEASURES};
use crate::query::error::QueryError;
use crate::value::{Column, ColumnType, Unit};

/// `GET /changes`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.form()?;
    let query = Query::take(&mut params)?;
    params.finish()?;
    let time = &view.time;
    let spans = time.spans.as_ref().ok_or_else(Problem::internal)?;
    let Query { report, measure, limit } = &query;
    let found = match view.source.changes(report, measure, spans, &time.whose, *limit) {
        Err(QueryError::NoHistory(why)) => Err(why),
        found => Ok(found?),
    };
    let choices = MEASURES.map(|measure| {
        let name = (measure.name != MEASURES[0].name).then_some(measure.name);
        let address = params.link("/changes", &[("measure", name)]);
        (address, html! { (measure.title) }, measure == query.measure)
    });
    let main = html! {
        h1 { "What changed" }
        (frame::views("Change of", "Change of", &choices))
        (form(view, &params, &query.report))
        div #changes data-live {
            @match &found {
                Err(why) => p.note { "Nothing to compare with. " (visible(&frame::sentence(why))) },
                Ok(found) if found.covered_secs.contains(&0) => (too_early(view, &params, &query.report, found)),
                Ok(found) => {
                    (remarks(&found.partial, time))
                    (shown(view, &query, found))
                },
            }
        }
    };
    view.page("/", "What changed", &main)
}

/// Renders why two spans cannot be compared, from when on they can, and what can be compared now.
fn too_early(view: &View<'_>, params: &Params, report: &str, found: &Attribution) -> Markup {
    let [before, after] = &found.spans;
    let (time, now) = (&view.time, view.source.unix_ms() / 1_000);
    let kept_from = view.source.kept_from(report).ok().flatten();
    let length = before.end.saturating_sub(before.start);
    let counted_from = kept_from.unwrap_or(now);
    // The first minute that is counted in full.
    let begins = counted_from.next_multiple_of(60);
    let is_open = time.is_now() || time.refresh() != Some(0);
    let is_early = before.start < begins && is_open;
    // From when on the whole span before has been counted, and its end. Spans begin and end with
    // minutes.
    let minute = now / 60 * 60;
    let whole = (minute + begins.saturating_sub(before.start)).next_multiple_of(60);
    let part =
        (minute + (counted_from / 60 * 60 + 60).saturating_sub(before.end)).next_multiple_of(60);
    let minutes = minute.saturating_sub(begins) / 120;
    let span = format!("-{minutes}m");
    let changes = [("from", Some(span.as_str())), ("to", None), ("compare", Some("span"))];
    let secs = |secs: u64| formatting::roughly(secs as f64);
    html! {
        p.note {
            "Nothing was counted from " (time.words(before)) ", so there is nothing to compare " (time.words(after)) " with. "
            @if let Some(kept_from) = kept_from { "History begins at " (time.moment(kept_from)) ". " }
            @if is_early {
                "A comparison with all of the " (secs(length)) " before is possible from " (time.moment(whole)) " on, in " (secs(whole.saturating_sub(now).max(1))) "; "
                "from " (time.moment(part)) " on with a part of them. "
            }
            @if minutes > 0 {
                "Now: " a href=(params.link("/changes", &changes)) {
                    @if minutes == 1 { "the last minute with the one before" }
                    @else { "the last " (minutes) " minutes with those before" }
                }
            } @else {
                "A minute can be compared with the one before from " (time.moment(begins + 120)) " on"
            }
            "."
        }
    }
}

/// Renders the form that selects the report.
fn form(view: &View<'_>, params: &Params, report: &str) -> Markup {
    let reports = view.source.reports();
    let names = reports.iter().map(|report| report.name.as_str());
    let others = names.filter(|name| *name != report && view.source.past_keys(name).is_ok());
    html! {
        form.filters method="get" action="/changes" {
            (frame::hidden_fields(params.iter().filter(|(name, _)| *name != "report")))
            label { "By the keys of "
                select name="report" {
                    option value=(report) selected { (visible(report)) }
                    @for name in others { option value=(name) { (visible(name)) } }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

/// Formats sums of a measure by its unit.
#[derive(Debug, Clone, Copy)]
struct Amount {
    unit: Unit,
    /// The scale that all of them share.
    scale: Option<Scale>,
}

impl Amount {
    fn show(self) -> Show {
        Show::of(&Column::new("", ColumnType::Double, self.unit))
    }

    /// The size of a sum in its unit.
    fn size(self, sum: i64) -> f64 {
        let size = sum.unsigned_abs() as f64;
        match self.unit {
            Unit::Seconds => size / 1e6,
            _ => size,
        }
    }

    /// The same with one scale for the sums of these changes.
    fn scaled<'c>(self, changes: impl Iterator<Item = &'c Change>) -> Self {
        let sums = changes.flat_map(|it| [it.before, it.after, it.change()]);
        let sizes = sums.map(|sum| self.size(sum));
        Self { scale: self.show().scale(sizes.filter(|size| *size > 0.0)), ..self }
    }

    /// Formats a sum without a sign.
    fn text(self, sum: i64) -> String {
        self.show().text_in(self.scale, self.size(sum))
    }

    /// Formats a sum with a sign.
    fn signed(self, sum: i64) -> String {
        match sum {
            0 => "0".to_owned(),
            1.. => format!("+{}", self.text(sum)),
            _ => format!("{MINUS}{}", self.text(sum)),
        }
    }

    /// Renders a change as table cells.
    fn cells(self, change: &Change) -> Markup {
        let (all, signed) = (change.change(), |sum| self.signed(sum));
        html! {
            td { (self.text(change.before)) } td { (self.text(change.after)) }
            td.bad[all > 0].good[all < 0] { (signed(all)) }
            td { (signed(change.calls)) } td { (signed(change.slower)) }
            td {
                @if change.new != 0 || change.gone == 0 { (signed(change.new)) }
                @if change.gone != 0 { " " (signed(change.gone)) }
            }
        }
    }
}

/// Renders the total change in a few numbers, and the change of each key.
fn shown(view: &View<'_>, query: &Query, found: &Attribution) -> Markup {
    let all = &found.all;
    let changes = found.rows.iter().map(|(_, change)| change);
    let amount = Amount { unit: query.measure.unit, scale: None };
    let amount = amount.scaled(changes.chain([&found.other, all]));
    let part = (all.before > 0 && has_sums(found.covered_secs))
        .then(|| all.change() as f64 / all.before as f64);
    let parts =
        [("Calls", all.calls), ("Per call", all.slower), ("New", all.new), ("Gone", all.gone)];
    html! {
        p.over { "Change of the " (query.measure.title) ", and what it comes from" }
        dl.facts {
            div { dt { "All" } dd.big { (amount.signed(all.change())) " " small { @if let Some(part) = part { (formatting::change(part)) } " of " (amount.text(all.before)) } } }
            @for (name, sum) in parts { div { dt { (name) } dd.big { (amount.signed(sum)) } } }
        }
        (rows(view, query, found, amount))
    }
}

/// Renders the change of each key as a table.
fn rows(view: &View<'_>, query: &Query, found: &Attribution, amount: Amount) -> Markup {
    let Attribution { keys, spans, .. } = found;
    let size = |change: &Change| change.change().unsigned_abs() as f64;
    let largest = found.rows.iter().map(|(_, change)| size(change)).fold(1.0, f64::max);
    let row = |(texts, change): &(Vec<String>, Change)| {
        let named = keys.iter().zip(texts).map(|(key, text)| (key.name.as_str(), text.as_str()));
        let address = view.time.row_link(&query.report, "row", named, None);
        html! {
            @if texts.is_empty() { th.key scope="row" { a href=(address) { "all requests" } } }
            @for (at, value) in texts.iter().enumerate() {
                @if at == 0 { th.key scope="row" { (bar(size(change) / largest)) a href=(address) { (Name(value)) } } }
                @else { td.key { a href=(address) { (Name(value)) } } }
            }
            (amount.cells(change))
        }
    };
    let mut rows: Vec<Markup> = found.rows.iter().map(row).collect();
    let total = |name: &str, change: &Change| {
        html! {
            th.key scope="row" { (name) }
            @for _ in keys.iter().skip(1) { td.key {} }
            (amount.cells(change))
        }
    };
    if found.other != Change::default() {
        rows.push(total("all others", &found.other));
    }
    if !keys.is_empty() && !rows.is_empty() {
        rows.push(total("all", &found.all));
    }
    let numbers = [
        ("Before", "The sum in the span before"),
        ("After", "The sum in the span that is shown"),
        ("Change", "After less before"),
        ("Calls", "From more calls, or fewer"),
        ("Per call", "From calls that took more each, or less"),
        ("New, gone", "From keys that only one of the spans has"),
    ];
    let numbers = numbers.map(|(title, hint)| Head::number(title).hint(hint));
    let heads = keys.iter().map(|key| Head::text(visible(&key.name)));
    let heads = heads.chain(keys.is_empty().then(|| Head::text("What"))).chain(numbers);
    let caption = html! {
        (visible(&query.report)) ", " (view.time.words(&spans[1])) ", compared with " (view.time.words(&spans[0]))
    };
    table("Changes", caption, heads, rows, "Nothing was counted in both spans.")
}
