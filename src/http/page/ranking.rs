//! Rows of a report as a table: the same columns for every report, with errors and percentiles.
//!
//! The read model returns any report in the columns of the native form ([`Catalog::report`]);
//! `columns.toml` selects columns, headings and units, once for requests and once for timers. A
//! table shows at most a page of rows, so its size does not grow with the report.
//!
//! [`Catalog::report`]: crate::query::catalog::Catalog::report

use maud::{Markup, html};

use super::columns::{Column, Show, columns};
use super::formatting::{self, visible};
use super::frame;
use super::render::View;
use super::table::{Head, PROSE, bar};
use super::time::Time;
use crate::grammar::percentile::percentile_of_name;
use crate::http::answer::order::Sort;
use crate::http::api::reports::lost_remark;
use crate::http::error::Problem;
use crate::http::params::{Params, pairs};
use crate::query::answer::{INDEX_VALUE, ReportAnswer, ReportSummary};
use crate::query::error::QueryError;
use crate::query::question::{ReportQuestion, When, Whose};
use crate::query::table::Table;
use crate::query::tables::KIND;
use crate::report::read::selection::{RowSelection, select};
use crate::value::{self, Value};

/// The percentiles in addition to the median.
const PERCENTILES: [f64; 2] = [95.0, 99.0];

/// Most remarks shown on incomplete data.
const REMARKS: usize = 3;
/// Rows of the past whose percentiles are read for sorting, if not all are.
const HEAVIEST: usize = 250;

/// Relative change that is highlighted.
const CHANGED: f64 = 0.1;

/// Fraction of failed requests that is shown in red.
const FAILING: f64 = 0.01;

/// The current order, and the URL for a sort parameter.
type Sorting<'a> = (&'a Sort, &'a str, &'a Params);

/// A report from the read model, and how to show it.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) answer: ReportAnswer,
    /// Whether it counts timers.
    pub(super) timers: bool,
    /// The columns in addition to the keys.
    pub(super) columns: Vec<Column>,
    /// The column with the total time.
    pub(super) time: &'static str,
    /// The text for a key that a row does not have, if it has a meaning.
    missing: Option<&'static str>,
    /// The time of the page, for the zone of moments.
    page_time: Time,
    /// The time and data it covers, in words.
    pub(super) about: String,
    /// Whether a change stands next to its number instead of in a column of its own.
    is_brief: bool,
    /// The column whose numbers are lower bounds, as the largest of a sample is; "" if none.
    pub(super) at_least: &'static str,
    /// Percentiles from here on, in seconds, are lower bounds too.
    open_from: Option<f64>,
    /// Whether, for the past, only rows with the most time are sorted by percentiles, with the
    /// others after them: reading all histograms takes long.
    pub(super) heaviest_only: bool,
}

/// Remarks on incomplete data.
pub(super) fn remarks(remarks: &[String], time: &Time) -> Markup {
    html! {
        @for remark in remarks.iter().take(REMARKS) { p.note { "Incomplete: " (visible(&time.in_zone(remark))) "." } }
        @if remarks.len() > REMARKS { p.note { "And " (remarks.len() - REMARKS) " more like these." } }
    }
}

/// A question without the span to compare with.
fn alone(mut question: ReportQuestion) -> ReportQuestion {
    if let When::Span(spans) = &mut question.when {
        spans.before = None;
    }
    question
}

/// The change of a number, behind it.
pub(super) fn changed(change: &str) -> Markup {
    html! { small.change title="change against before" { (change) } }
}

impl Ranking {
    /// Reads a report in the columns that all reports have.
    pub(super) fn read(view: &View<'_>, report: &ReportSummary) -> Result<Self, Problem> {
        let (name, question) = (&report.name, view.time.question(Some(&PERCENTILES), &[]));
        let native = Self::native(view.source.report(name, &question)?);
        Ok(Self { open_from: report.open_from, ..native.in_words(view, name) })
    }

    /// Reads a report likewise, without the span to compare with.
    pub(super) fn read_uncompared(view: &View<'_>, name: &str) -> Result<Self, Problem> {
        let question = alone(view.time.question(Some(&PERCENTILES), &[]));
        Ok(Self::native(view.source.report(name, &question)?).in_words(view, name))
    }

    /// The rows of this daemon's report, in brief, that a selection picks by its own columns, given
    /// the numbers of its keys. Percentiles of other rows are not read, nor columns left out.
    pub(super) fn select<'s>(
        view: &View<'_>,
        name: &str,
        selection: impl FnOnce(&[value::Column], &[usize]) -> RowSelection<'s>,
    ) -> Result<(Self, Vec<usize>), QueryError> {
        let question = ReportQuestion { whose: Whose::Own, ..view.time.question(None, &[]) };
        let selection = |columns: &[_], keys: &[_]| Ok::<_, QueryError>(selection(columns, keys));
        let selected = view.source.select(name, &question, selection)?;
        Ok((Self::native(selected.answer).in_words(view, name).brief(), selected.rows))
    }

    /// Reads several reports in brief, which costs little more than one; or says why one of them
    /// has no past.
    pub(super) fn read_all<const N: usize>(
        view: &View<'_>,
        names: [&str; N],
    ) -> Result<[Result<Self, QueryError>; N], Problem> {
        let question = view.time.question(Some(&PERCENTILES), &[]);
        let answers = view.source.reports_in(&names, &question)?;
        let brief = |(answer, name): (Result<_, _>, _)| {
            answer.map(|answer| Self::native(answer).in_words(view, name).brief())
        };
        let all: Vec<_> = answers.into_iter().zip(names).map(brief).collect();
        Ok(all.try_into().expect("there is an answer for each name"))
    }

    /// Adds the time of the page, what the answer covers, and what a live report lacks after a
    /// kill.
    fn in_words(mut self, view: &View<'_>, name: &str) -> Self {
        let (source, time, answer) = (view.source, &view.time, &mut self.answer);
        let about = match &answer.of_span {
            Some(of_span) => time.about(of_span, answer.covered_seconds),
            None => frame::span_of(source, name, answer),
        };
        if answer.of_span.is_none() {
            let lost = lost_remark(source, name, answer);
            let again = source.counted_again(answer.window_seconds);
            answer.partial.extend(lost.into_iter().chain(again));
        }
        Self { page_time: time.clone(), about, ..self }
    }

    fn native(answer: ReportAnswer) -> Self {
        let has = |column| answer.table.column(column).is_some();
        let compared = if has("req_count_before") { "_compared" } else { "" };
        let (table, time) = match has("timer_value") {
            true => ("timers", "timer_value"),
            false => ("requests", "req_time_total"),
        };
        Self::of(answer, columns(&format!("{table}{compared}")), time)
    }

    fn of(answer: ReportAnswer, columns: &[Column], time: &'static str) -> Self {
        Self {
            columns: declared(columns, answer.table.as_ref()),
            answer,
            timers: time == "timer_value",
            time,
            missing: Some("(other)"),
            page_time: Time::default(),
            about: String::new(),
            is_brief: false,
            at_least: "",
            open_from: None,
            heaviest_only: false,
        }
    }

    /// Rows of keys and numbers computed here: sums over raw timers, or raw requests. Columns
    /// missing in `table` are not shown.
    pub(super) fn made(
        rows: Box<dyn Table>,
        key_columns: Vec<usize>,
        table: &str,
        time: &'static str,
    ) -> Self {
        let is_there = |column: &&Column| rows.column(&column.name).is_some();
        let columns: Vec<Column> = columns(table).iter().filter(is_there).cloned().collect();
        let answer = ReportAnswer {
            window_seconds: 0.0,
            covered_seconds: 0,
            as_of_ms: 0,
            key_columns,
            table: rows,
            of_span: None,
            partial: Vec::new(),
        };
        Self { missing: Some("without"), ..Self::of(answer, &columns, time) }
    }

    /// Reads a report in its own columns; for a histogram view, the row with these keys.
    pub(super) fn read_own(
        view: &View<'_>,
        report: &ReportSummary,
        keys: &[(String, String)],
    ) -> Result<Self, Problem> {
        let mut question = view.time.question(None, keys);
        if report.is_view() {
            // Its rows are the segments of one span.
            question = alone(question);
        }
        let answer = view.source.report(&report.name, &question)?;
        if answer.table.column("samples_percent").is_some() {
            return Ok(Self::sampled(answer).in_words(view, &report.name));
        }
        let columns = answer.table.columns().iter().enumerate();
        let others = columns.filter(|(at, _)| !answer.key_columns.contains(at));
        let column = |(_, column): (usize, &value::Column)| Column {
            name: column.name.clone(),
            title: visible(&column.name),
            // Names of reports differ in their middles: they wrap and are not cut there.
            show: if column.name == "name" { Show::Prose } else { Show::Any },
            ..Column::default()
        };
        let columns: Vec<Column> = others.map(column).collect();
        let own = Self::of(answer, &columns, "");
        // Only reports have a row of the keys that did not fit.
        let missing = own.missing.filter(|_| report.kind != KIND);
        Ok(Self { missing, ..own }.in_words(view, &report.name))
    }

    /// A ranking of samples.
    pub(super) fn sampled(answer: ReportAnswer) -> Self {
        Self { missing: None, ..Self::of(answer, columns("samples"), "samples") }
    }

    pub(super) fn table(&self) -> &dyn Table {
        self.answer.table.as_ref()
    }

    /// Whether its only row is the total.
    fn is_total(&self) -> bool {
        self.answer.key_columns.is_empty() && !self.time.is_empty()
    }

    /// Limits it to the columns of one span; when two are compared, changes stand next to the
    /// numbers.
    pub(super) fn brief(self) -> Self {
        let table = if self.timers { "timers" } else { "requests" };
        let columns = declared(columns(table), self.table());
        Self { columns, is_brief: true, heaviest_only: true, ..self }
    }

    /// Why it has no rows.
    pub(super) fn nothing(&self) -> &'static str {
        match (&self.answer.of_span, self.answer.covered_seconds) {
            (None, _) => "Nothing yet.",
            (Some(_), 0) => "No data is kept of this time.",
            (Some(_), _) => "Nothing was counted in this span.",
        }
    }

    /// Remarks on incomplete data.
    pub(super) fn remarks(&self, time: &Time) -> Markup {
        remarks(&self.answer.partial, time)
    }

    /// The default order: for two compared spans, by how much slower rows became.
    pub(super) fn sort(&self) -> Sort {
        let slower = self.columns.iter().find(|column| column.name == "p95_change");
        Sort::largest(slower.map_or(self.time, |column| &column.name))
    }

    /// The columns of these names, separated by blanks, in this order.
    pub(super) fn columns_named(&self, names: &str) -> Vec<Column> {
        let named = |name| self.columns.iter().find(|it| it.name == name).cloned();
        names.split(' ').filter_map(named).collect()
    }

    /// The rows that `keep` accepts, sorted and cut; and how many there were before the cut. Their
    /// data is loaded then.
    pub(super) fn choose(
        &mut self,
        keep: &dyn Fn(&dyn Table, usize) -> bool,
        sort: &Sort,
        page: (usize, usize),
    ) -> Result<(Vec<usize>, usize), Problem> {
        let table = self.table();
        let by = |name: &str, descending| Some((table.column(name)?, descending));
        let first = by(&sort.column, sort.descending);
        if first.is_none() && !sort.column.is_empty() {
            let names = table.columns().iter().map(|column| column.name.as_str());
            let why = format!("there is no column {:?}", sort.column);
            return Err(Problem::none_of("sort", why, &sort.column, names));
        }
        // Ties are ordered by time, so that rows do not jump.
        let sort: Vec<_> = first.into_iter().chain(by(self.time, true)).collect();
        let columns: Vec<usize> = sort.iter().map(|(column, _)| *column).collect();
        let is_cut = self.heaviest_only && self.answer.of_span.is_some();
        let value = |row, column| table.value(row, column);
        let heaviest = |by| select(table.len(), &value, &|_| true, &[by], (0, HEAVIEST)).0;
        let heaviest = by(self.time, true).filter(|_| is_cut).map(heaviest);
        self.answer.table.load(&columns, heaviest.as_deref())?;
        let table = self.table();
        let value = |row, column| table.value(row, column);
        let chosen = select(table.len(), &value, &|row| keep(table, row), &sort, page);
        self.load(&chosen.0)?;
        self.fit(&chosen.0);
        Ok(chosen)
    }

    /// Chooses the scale of each column for these rows.
    pub(super) fn fit(&mut self, rows: &[usize]) {
        let scale = |column: &Column| {
            let numbers = self.numbers(&column.name);
            let numbers = rows.iter().filter_map(|row| numbers(*row));
            column.show.scale(numbers.map(|it| self.bound(&column.name, it).unwrap_or(it)))
        };
        let scales: Vec<_> = self.columns.iter().map(scale).collect();
        for (column, scale) in self.columns.iter_mut().zip(scales) {
            column.scale = scale;
        }
    }

    /// Loads the displayed data of some rows.
    pub(super) fn load(&mut self, rows: &[usize]) -> Result<(), QueryError> {
        let table = self.answer.table.as_mut();
        let columns = self.columns.iter().filter_map(|column| table.column(&column.name));
        let columns: Vec<usize> = columns.collect();
        table.load(&columns, Some(rows))
    }

    /// The keys of a row, by name.
    pub(super) fn row_keys(&self, row: usize) -> Vec<(String, String)> {
        let keys = self.answer.keys().into_iter().zip(&self.answer.key_columns);
        let keys = keys.filter(|(name, _)| *name != INDEX_VALUE);
        let value = |key: &usize| self.table().value(row, *key).plain();
        keys.map(|(name, key)| (name.to_owned(), value(key))).collect()
    }

    /// The URL of a row's own page.
    pub(super) fn row_link(&self, report: &str, row: usize, time: &Time) -> String {
        time.row_link(report, "row", pairs(&self.row_keys(row)), None)
    }

    /// A value of the only row, by column name, as the text by which it can be searched for.
    pub(super) fn plain(&self, column: &str) -> String {
        let at = self.table().column(column);
        at.map_or_else(String::new, |at| self.table().value(0, at).plain())
    }

    /// A key of a row as text.
    pub(super) fn key(&self, row: usize, column: usize) -> Markup {
        let name = &self.table().columns()[column].name;
        match (as_shown(name, self.table().value(row, column)), self.missing) {
            (Value::Null, None) if name == "function" => html! { "(unknown)" },
            (Value::Null, Some(missing)) => html! { span.none { (missing) } },
            (value @ (Value::Null | Value::Text(_)), _) => formatting::value(&value),
            (other, _) => html! { (other.plain()) },
        }
    }

    /// The heads of the keys and of `columns`; with `sort`, they sort.
    pub(super) fn heads(&self, columns: &[Column], sort: Option<Sorting<'_>>) -> Vec<Head> {
        let sorting = |head: Head, name: &str| match sort {
            Some((sort, path, params)) => head.sorts(name, sort, path, params),
            None => head,
        };
        let keys = self.answer.keys();
        let keys = keys.into_iter().map(|name| sorting(Head::text(visible(name)), name));
        let total = self.is_total().then(|| Head::text("What"));
        let columns = columns.iter().map(|column| {
            let head = match column.show {
                Show::Prose => Head::text(&column.title).class(PROSE),
                Show::Text | Show::Tags => Head::text(&column.title),
                _ => Head::number(&column.title),
            };
            sorting(head.hint(&column.hint), &column.name)
        });
        keys.chain(total).chain(columns).collect()
    }

    /// Rows as cells: the keys, the first over a bar as long as the number in `sort`, and
    /// `columns`. `address` returns the URL for a key of a row, by the key's index.
    pub(super) fn cells(
        &self,
        rows: &[usize],
        columns: &[Column],
        sort: &Sort,
        address: impl Fn(usize, usize) -> Option<String>,
    ) -> Vec<Markup> {
        let numbers = self.numbers(&sort.column);
        let number = |row: usize| numbers(row).unwrap_or(0.0);
        let largest = rows.iter().map(|row| number(*row)).fold(f64::MIN_POSITIVE, f64::max);
        let linked = |row, key, text: Markup| match address(row, key) {
            Some(address) => html! { a href=(address) { (text) } },
            None => text,
        };
        let cells = |row: &usize| {
            html! {
                @for (at, key) in self.answer.key_columns.iter().enumerate() {
                    @let shown = linked(*row, at, self.key(*row, *key));
                    @if at == 0 { th.key scope="row" { (bar(number(*row) / largest)) (shown) } } @else { td.key { (shown) } }
                }
                @if self.is_total() { th.key scope="row" { (linked(*row, 0, html! { "all requests" })) } }
                @for column in columns { (self.cell(column, *row)) }
            }
        };
        rows.iter().map(cells).collect()
    }

    /// One number of a row as a cell.
    pub(super) fn cell(&self, column: &Column, row: usize) -> Markup {
        let number = self.number(&column.name, row).unwrap_or(0.0);
        let class = match column.show {
            Show::Text => Some("key"),
            Show::Prose => Some(PROSE),
            Show::Tags => Some("key text pairs"),
            Show::Errors if number == 0.0 => Some("zero"),
            Show::Status if number >= 500.0 => Some("bad"),
            Show::Worse if number > CHANGED => Some("bad"),
            Show::Worse if number < -CHANGED => Some("good"),
            _ => self.news(column, row),
        };
        // Some names are longer than others as a rule.
        let kind = (column.show == Show::Text).then_some(column.name.as_str());
        let kind = kind.filter(|name| ["hostname", "server_name", "script_name"].contains(name));
        html! { td class=[class.map(|class| format!("{class} {}", kind.unwrap_or_default()).trim_end().to_owned())] { (self.shown(column, row)) (self.before(column, row)) } }
    }

    /// The change of a number that is shown next to it.
    pub(super) fn change(&self, column: &Column, row: usize) -> Option<f64> {
        self.number(&format!("{}_change", column.name), row).filter(|_| self.is_brief)
    }

    /// The number in the comparison span.
    fn before(&self, column: &Column, row: usize) -> Markup {
        let before = self.number(&format!("{}_before", column.name), row);
        html! {
            @if let Some(before) = before.filter(|_| !self.is_brief) { small.was { "was " (self.text(column, before)) } }
        }
    }

    /// One number of a row with its name, for a list of facts.
    pub(super) fn fact(&self, column: &Column, row: usize) -> Markup {
        // Without requests there is no time, which is not a time of 0.
        let is_unknown = column.show == Show::Secs && self.number("req_count", row) == Some(0.0);
        let class = format!("big {}", self.news(column, row).unwrap_or_default());
        html! {
            div title=(column.hint) {
                dt { (column.title) } dd class=(class.trim_end()) {
                    @if is_unknown { (formatting::UNKNOWN) } @else { (self.shown(&Column { scale: None, ..column.clone() }, row)) }
                }
            }
        }
    }

    /// A value as shown, without its surroundings.
    pub(super) fn shown(&self, column: &Column, row: usize) -> Markup {
        let at = self.table().column(&column.name);
        let value = at.map_or(Value::Null, |at| self.table().value(row, at));
        match (column.show, self.number(&column.name, row)) {
            (Show::Tags, _) => {
                let count = self.number("tags_cnt", row).unwrap_or(0.0);
                formatting::pairs(&value.plain(), count as usize)
            }
            (Show::Moment, Some(number)) => self.page_time.moment(number as u64),
            (Show::Any | Show::Text | Show::Prose, _) | (_, None) => {
                formatting::value(&as_shown(&column.name, value))
            }
            _ if self.is_unmeasured(&column.name, row) => formatting::value(&Value::Null),
            (how, Some(number)) => html! {
                (self.text(column, number))
                @if how == Show::Errors && number > 0.0 { " " small { (formatting::percent(100.0 * self.failing(row))) } }
                @if let Some(change) = self.change(column, row) {
                    @let before = self.number(&format!("{}_before", column.name), row);
                    " " (match before.filter(|_| how == Show::Share) {
                        Some(before) => changed(&formatting::points(number - before)),
                        None => changed(&formatting::change(change)),
                    })
                }
            },
        }
    }

    /// The lower bound that is all one knows of a percentile.
    fn bound(&self, column: &str, number: f64) -> Option<f64> {
        let is_percentile = || column.ends_with("_median") || percentile_of_name(column).is_some();
        self.open_from.filter(|from| number >= *from && is_percentile())
    }

    /// A number of a column as shown.
    fn text(&self, column: &Column, number: f64) -> String {
        let bound = self.bound(&column.name, number);
        let text = column.show.text_in(column.scale, bound.unwrap_or(number));
        match bound.is_some() || column.name == self.at_least && number > 0.0 {
            true => format!("\u{2265}\u{a0}{text}"),
            false => text,
        }
    }

    /// The fraction of failed requests of a row.
    fn failing(&self, row: usize) -> f64 {
        let errors = self.number("error_count", row).unwrap_or(0.0);
        errors / self.number("req_count", row).unwrap_or(0.0).max(1.0)
    }

    /// Whether failures have become fewer, or else are frequent enough to highlight.
    fn news(&self, column: &Column, row: usize) -> Option<&'static str> {
        if column.show != Show::Errors {
            return None;
        }
        let has_fallen = self.change(column, row).is_some_and(|change| change < -CHANGED);
        let fails = self.failing(row) >= FAILING;
        has_fallen.then_some("good").or(fails.then_some("bad"))
    }

    /// Whether it is a column of CPU times or memory, which none of the row's requests told.
    pub(super) fn is_unmeasured(&self, column: &str, row: usize) -> bool {
        let events = self.number(if self.timers { "hit_count" } else { "req_count" }, row);
        (column.starts_with("ru_") || column.starts_with("memory_"))
            && events.is_some_and(|all| all > 0.0)
            && self.number("unmeasured_count", row) >= events
    }

    /// A number of a row; `None` if unknown.
    pub(super) fn number(&self, column: &str, row: usize) -> Option<f64> {
        self.numbers(column)(row)
    }

    /// The numbers of a column by row, for many of them.
    pub(super) fn numbers(&self, column: &str) -> impl Fn(usize) -> Option<f64> {
        let table = self.table();
        let column = table.column(column);
        move |row| table.value(row, column?).number()
    }
}

/// A value of a table as pages show it: names of reports without the folder that Pinba puts before
/// them, and no flags as no value.
fn as_shown<'v>(column: &str, value: Value<'v>) -> Value<'v> {
    match (column, value) {
        ("name" | "table_name", Value::Text(text)) => match text.strip_prefix("./pinba/") {
            Some(name) => Value::Text(name.to_owned().into()),
            None => Value::Text(text),
        },
        ("flags", Value::Text(text)) if text.is_empty() => Value::Null,
        (_, value) => value,
    }
}

/// Shows each column that does not say how as `table` declares it.
fn declared(columns: &[Column], table: &dyn Table) -> Vec<Column> {
    let mut columns = columns.to_vec();
    for column in columns.iter_mut().filter(|it| it.show == Show::Any) {
        if let Some(at) = table.column(&column.name) {
            column.show = Show::of(&table.columns()[at]);
        }
    }
    columns
}
