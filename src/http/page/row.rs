//! `/reports/{name}/row?KEY=VALUE...`: one row of a report, with its charts, its distribution, its
//! timers and its slowest requests.
//!
//! The parameters are the key columns of the report, as in `/reports/{name}/{chart}.svg`; a key
//! named like a parameter (`span`, `theme`) needs the prefix `key.`, which any may have. The keys
//! determine a search for raw requests ([`conditions`]); for a timer report, whose keys are timer
//! tags, the longest single timers are shown instead.

use std::collections::HashMap;

use maud::{Markup, html};

use super::chart::{self, Theme};
use super::formatting::{self, Name, named, visible};
use super::frame;
use super::history::{self, Counted, History};
use super::ranking::{Ranking, remarks};
use super::render::View;
use super::requests::{self, SEARCHED_MAX};
use super::table::{Head, table};
use super::time::Time;
use super::timer_groups::{self, small_table};
use super::{profile, timers};
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::http::params::{Params, encode, owned, pairs};
use crate::profile::definition::SampleKey;
use crate::query::answer::{Distribution, DistributionBucket, ReportSummary};
use crate::query::error::QueryError;
use crate::query::question::RequestSearch;
use crate::query::table::Table;
use crate::query::tables::SAMPLES;
use crate::query::timer_groups::TimerSearch;

pub(super) mod conditions;

use conditions::Conditions;

/// Slowest requests, or longest timers, shown.
const SLOWEST: usize = 12;

/// By report: its key, the report that tells its rows apart by another key, that key and a title.
const OTHERS: [(&str, &str, &str, &str, &str); 2] = [
    ("report_by_script_name", "script_name", "report_by_hostname_and_script", "hostname", "Hosts"),
    ("report_by_hostname", "hostname", "report_by_hostname_and_script", "script_name", "Scripts"),
];
/// Rows of that report that are shown.
const OTHERS_MAX: usize = 12;

/// `GET /reports/{name}/row`
pub(super) fn page(view: &View<'_>) -> Result<Markup, Problem> {
    let mut params = view.params()?;
    let span = history::span(&mut params)?;
    Row::read(view, &params)?.page(view, span)
}

/// `GET /reports/{name}/{chart}`: one stand-alone chart, such as `traffic.svg`, or `spread.svg`.
pub(super) fn picture(view: &View<'_>) -> Result<Markup, Problem> {
    let file = view.path.get(1).map_or("", String::as_str);
    let names = || history::names().chain(["spread", "heat"]);
    let chart = names().find(|name| file.strip_suffix(".svg") == Some(*name)).ok_or_else(|| {
        let all = names().map(|name| format!("{name}.svg")).chain(["row".to_owned()]);
        Problem::not_found("a report has no such page").accepting(all)
    })?;
    let mut params = view.params()?;
    let is_dark = params.word("theme", &["light", "dark"])? == "dark";
    let theme = if is_dark { Theme::Dark } else { Theme::Light };
    let span = history::span(&mut params)?;
    let row = Row::read(view, &params)?;
    if chart == "spread" {
        return row.histogram_alone(view, theme);
    }
    let history = History::of_row(view, &row.summary.name, &row.keys, row.counted(), span);
    let off = || Problem::not_found("no history is kept: series.memory is 0");
    let history = history.ok_or_else(off)?;
    match chart {
        "heat" => history.heat_alone(&row.title(), theme),
        _ => history.picture(chart, &row.title(), theme),
    }
}

/// One row of a report.
#[derive(Debug)]
struct Row {
    summary: ReportSummary,
    ranking: Ranking,
    /// Its keys, in the order of the report's columns.
    keys: Vec<(String, String)>,
    /// Its number; `None` if nothing in the window has these keys.
    at: Option<usize>,
}

impl Row {
    /// Reads the row with the keys in the parameters.
    fn read(view: &View<'_>, params: &Params) -> Result<Self, Problem> {
        let summary = view.source.listed(view.name())?;
        let mut ranking = match summary.kind == SAMPLES {
            true => Ranking::read_own(view, &summary, &[])?,
            false => Ranking::read(view, &summary)?.brief(),
        };
        let keys = params.row(&ranking.answer.keys())?;
        let table = ranking.table();
        let is_it = |row: &usize| {
            let mut wanted = ranking.answer.key_columns.iter().zip(&keys);
            wanted.all(|(column, (_, wanted))| table.value(*row, *column).plain() == *wanted)
        };
        let at = (0..table.len()).find(is_it);
        ranking.load(at.as_slice())?;
        Ok(Self { summary, ranking, keys, at })
    }

    /// The keys as the title of a window.
    fn title(&self) -> String {
        let values: Vec<String> = self.keys.iter().map(|(_, value)| named(value)).collect();
        if values.is_empty() { "all requests".to_owned() } else { values.join(" \u{b7} ") }
    }

    fn page(&self, view: &View<'_>, span: Option<&'static str>) -> Result<Markup, Problem> {
        let (time, name) = (&view.time, self.summary.name.as_str());
        let report = &time.link(&format!("/reports/{}", encode(name)), []);
        let spread = self.spread(view)?.zip(self.at);
        let history = History::of_row(view, name, &self.keys, self.counted(), span);
        // Right after the row: raw requests may take seconds.
        let drawn = history.as_ref().map(|history| (history.figures(), history.heat()));
        let (timer_groups, slowest) =
            if self.is_sampled() { (None, html! {}) } else { self.raw(view)? };
        let main = html! {
            (frame::crumbs(&[(&time.link("/reports", []), "Reports"), (report, &visible(name))], "row"))
            h1 { @if self.keys.is_empty() { "All requests" } @for (at, (_, value)) in self.keys.iter().enumerate() {
                @if at > 0 { span.sep { " \u{b7} " } } (Name(value))
            } }
            p.about { @for (at, (key, value)) in self.keys.iter().enumerate() {
                @if at > 0 { ", " } (visible(key)) " = " (Name(value))
            } }
            (self.profile(view))
            div #row data-live {
                @if let Some(at) = self.at {
                    p.over { (self.ranking.about) }
                    dl.facts { @for column in &self.ranking.columns { (self.ranking.fact(column, at)) } }
                } @else {
                    p.note { @if time.spans.is_some() { "Nothing with these keys was counted in this span. " } @else { "Nothing with these keys is in the report's window now. " } @if let Some(meant) = self.ranking.answer.meant(&self.keys) { (frame::sentence(&meant)) " " } a href=(report) { "All rows of the report" } }
                }
            }
            (self.ranking.remarks(time))
            @if let Some((history, (figures, _))) = history.as_ref().zip(drawn.as_ref()) {
                (history.spans(|span| time.row_link(name, "row", pairs(&self.keys), Some(("span", span)))))
                div.charts.four { (figures) }
            }
            div.beside {
                @if let Some((_, heat)) = &drawn { (heat) }
                div.charts.pair {
                    @if let Some((spread, at)) = &spread {
                        div #spread data-live { (self.histogram(*at, spread, time)) }
                    }
                    @if let Some(table) = timer_groups {
                        section.panel #row-timers data-live aria-label="Timers" { (table) }
                    }
                }
                (self.others(view)?)
            }
            (slowest)
        };
        view.page("/reports", &self.title(), &main)
    }

    /// The hosts of a script, or the scripts of a host.
    fn others(&self, view: &View<'_>) -> Result<Markup, Problem> {
        let found = OTHERS.iter().find(|it| it.0 == self.summary.name);
        let Some((_, key, report, other, title)) = found else { return Ok(html! {}) };
        let [Ok(mut ranking)] = Ranking::read_all(view, [*report])? else { return Ok(html! {}) };
        let of_row = pairs(&self.keys).find_map(|(name, value)| (name == *key).then_some(value));
        let at = ranking.table().column(key);
        let (Some(value), Some(at)) = (of_row, at) else { return Ok(html! {}) };
        let is_it = |table: &dyn Table, row| table.value(row, at).plain() == value;
        let sort = Sort::largest("req_time_total");
        let (rows, total) = ranking.choose(&is_it, &sort, (0, OTHERS_MAX))?;
        let links: HashMap<usize, String> =
            rows.iter().map(|row| (*row, ranking.row_link(report, *row, &view.time))).collect();
        // The row's own key is the same in all of them.
        ranking.answer.key_columns.retain(|column| *column != at);
        let columns = ranking.columns_named(
            "req_time_total req_time_median p95 p99 req_count req_per_sec error_count",
        );
        let cells = ranking.cells(&rows, &columns, &sort, |row, _| links.get(&row).cloned());
        let all = view.time.link(&format!("/reports/{report}"), [(*key, value)]);
        // The row's own report has said what both lack.
        let own = &self.ranking.answer.partial;
        let more = ranking.answer.partial.iter().filter(|it| !own.contains(it)).cloned();
        let more: Vec<String> = more.collect();
        let lacks = ranking.answer.of_span.is_none() && !more.is_empty();
        let about = Some(&ranking.about).filter(|_| lacks && ranking.answer.covered_seconds > 0);
        let nothing = if lacks { "Nothing since the start." } else { ranking.nothing() };
        let caption = html! {
            a href=(all) { (title) }
            " " small { @if let Some(about) = about { (about) ", " } @if total > rows.len() { (rows.len()) " of " (formatting::count(total as u64)) ", " } "by total time" }
        };
        let mut heads = ranking.heads(&columns, None);
        heads[0] = Head::text(*other);
        let table = table(title, caption, heads, cells, nothing);
        let more = remarks(&more, &view.time);
        Ok(html! {
            div.panels { section.panel.large #others data-live aria-label=(title) { (table) (more) } }
        })
    }

    /// Whether it belongs to a report over samples.
    fn is_sampled(&self) -> bool {
        self.summary.kind == SAMPLES
    }

    /// Links from requests to the samples of their script, and from samples to the profile and to
    /// the requests.
    fn profile(&self, view: &View<'_>) -> Markup {
        let given = |wanted: &str| self.keys.iter().find(|(key, _)| key == wanted);
        if self.is_sampled() {
            let filters = self.summary.definition["filters"].as_array().into_iter().flatten();
            let filters = filters.filter_map(|it| it.as_str()?.split_once('='));
            let filters = filters.map(|(key, text)| (key.trim(), text.trim()));
            // Only conditions of this kind have a place in the URL.
            let is_exact = |(key, text): &(&str, &str)| {
                SampleKey::named(key).is_some() && !text.ends_with('*') && given(key).is_none()
            };
            let keys = pairs(&self.keys).chain(filters.filter(is_exact)).map(owned);
            let keys: Vec<(String, String)> = keys.collect();
            let requests = given("script").filter(|(_, script)| !script.is_empty());
            return html! {
                p {
                    a href=(profile::samples_of(view, &keys)) { "In the profile" }
                    @if let Some((_, script)) = requests { " \u{b7} " a href=(profile::requests_of(view, script, given("host").map(|(_, host)| host.as_str()))) { "Requests of the script" } }
                }
            };
        }
        let profile = profile::link_to(view, &self.keys);
        html! { @if let Some(profile) = profile { p { a href=(profile) { "Profile: which of its functions run" } } } }
    }

    /// Its raw timers, summed up, and its slowest requests.
    fn raw(&self, view: &View<'_>) -> Result<(Option<Markup>, Markup), Problem> {
        let conditions = Conditions::of(&self.summary.definition, &self.keys);
        let mut search = conditions.search()?;
        view.time.narrow(&mut search);
        let timer_groups = match self.ranking.timers || view.time.whose.is_fleet() {
            true => None,
            false => small_table(view, &search, "time", &conditions.requests)?,
        };
        let timer_groups = timer_groups.map(|table| html! { (table) (conditions.note()) });
        let slowest = self.slowest(view, search, &conditions)?;
        Ok((timer_groups, html! { (view.time.only_here()) (slowest) }))
    }

    /// The distribution of its times; samples have none.
    fn spread(&self, view: &View<'_>) -> Result<Option<Distribution>, QueryError> {
        if self.is_sampled() {
            return Ok(None);
        }
        let asked = (&view.time.spans.clone().into(), &view.time.whose);
        view.source.distribution(&self.summary.name, &self.keys, asked)
    }

    /// What it counts.
    fn counted(&self) -> Counted {
        match (self.is_sampled(), self.ranking.timers) {
            (true, _) => Counted::Samples(self.ranking.answer.covered_seconds),
            (false, true) => Counted::Timers,
            (false, false) => Counted::Requests,
        }
    }

    fn histogram(&self, at: usize, spread: &[DistributionBucket], time: &Time) -> Markup {
        let address = time.row_link(&self.summary.name, "spread.svg", pairs(&self.keys), None);
        let (what, counted) = self.counted().words();
        let count = spread.iter().map(|bucket| bucket.count).sum();
        html! {
            figure.chart {
                figcaption {
                    a href=(address) { "Distribution of the " (what) }
                    span.legend { (formatting::counted(count, counted)) }
                }
                (self.drawn("spread-svg", Theme::Page, what, at, spread))
            }
        }
    }

    fn drawn(
        &self,
        id: &str,
        theme: Theme,
        title: &str,
        at: usize,
        spread: &[DistributionBucket],
    ) -> Markup {
        let number = |column| self.ranking.number(column, at);
        let median = number("timer_median").or(number("req_time_median"));
        let marks = [("p50", median), ("p95", number("p95")), ("p99", number("p99"))];
        let marks = marks.map(|(name, secs)| (name, secs.unwrap_or(f64::NAN)));
        chart::histogram(id, theme, title, spread, &marks)
    }

    /// The histogram as a stand-alone picture.
    fn histogram_alone(&self, view: &View<'_>, theme: Theme) -> Result<Markup, Problem> {
        let spread = self.spread(view)?;
        let gone = || Problem::not_found("there is no such row now");
        let (spread, at) = spread.zip(self.at).ok_or_else(gone)?;
        if spread.is_empty() {
            return Err(Problem::not_found("no times are known"));
        }
        Ok(self.drawn("spread", theme, &self.title(), at, &spread))
    }

    /// The slowest raw requests of the row, or the longest of its timers; or why there are none.
    fn slowest(
        &self,
        view: &View<'_>,
        mut search: RequestSearch,
        conditions: &Conditions,
    ) -> Result<Markup, Problem> {
        let found = if self.ranking.timers {
            let search = TimerSearch {
                requests: search,
                tags: conditions.timers.clone(),
                scanned_max: SEARCHED_MAX,
                groups_max: 1,
                slowest_max: SLOWEST,
                ..TimerSearch::default()
            };
            timer_groups::find(view, search).map(|found| {
                let (remarks, time) = (remarks(&found.partial, &view.time), &view.time);
                let table = html! { (remarks) (timers::slow_table(&found, time)) };
                (html! { "Longest timers" }, table)
            })
        } else {
            search.limit = SLOWEST;
            let all = view.time.link("/requests", pairs(&conditions.requests));
            let title =
                html! { "Slowest requests " a.more href=(all) { "all requests, newest first" } };
            requests::find(view, search, true, None).map(|(rows, _)| (title, rows))
        };
        let (title, table) = match found {
            Ok(found) => found,
            Err(why @ QueryError::RawDataOff) => return Ok(html! { p.note { (why) } }),
            Err(error) => return Err(error.into()),
        };
        Ok(html! {
            section aria-labelledby="slowest-h" {
                h2 #slowest-h { (title) }
                (conditions.note())
                div #slowest data-live { (table) }
            }
        })
    }
}
