//! Rows of reports as tables: the same columns for every report, with errors and percentiles.
//!
//! The source gives any report in the columns of the native form ([`Source::ranking`]); what is shown of them, under which
//! heading and in which unit is listed here, once for requests and once for timers. Used by the overview, by a report's page and
//! by the page of one row. A table shows at most a page of rows, so its size does not grow with the report.

use maud::{Markup, html};

use super::show::{self, Name, link};
use crate::http::error::Problem;
use crate::http::order::{SortBy, choose};
use crate::http::params::encode;
use crate::query::source::{ReportAnswer, Source};
use crate::query::table::Table;
use crate::value::Value;

/// The percentiles beside the median.
pub(super) const PERCENTILES: [f64; 2] = [95.0, 99.0];

/// The part of requests from which on failing is shown in red.
const FAILING: f64 = 0.01;

/// A column that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// Its name in the report.
    pub(super) name: &'static str,
    title: &'static str,
    /// What it means, in full.
    hint: &'static str,
    show: Show,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Count,
    /// A count, and what part of the requests it is.
    Errors,
    Rate,
    Secs,
    /// A part of all, with a bar.
    Share,
    Bytes,
}

const fn column(name: &'static str, title: &'static str, hint: &'static str, show: Show) -> Column {
    Column {
        name,
        title,
        hint,
        show,
    }
}

/// What is shown of requests.
const REQUESTS: [Column; 12] = [
    column("req_count", "Requests", "Requests", Show::Count),
    column("req_per_sec", "Req/s", "Requests per second", Show::Rate),
    column(
        "error_count",
        "Errors",
        "Requests with an error status",
        Show::Errors,
    ),
    column(
        "req_time_total",
        "Total time",
        "Time of all requests together",
        Show::Secs,
    ),
    column(
        "req_time_percent",
        "Share",
        "Share of the time of all rows",
        Show::Share,
    ),
    column(
        "req_time_median",
        "p50",
        "Median of the request time",
        Show::Secs,
    ),
    column(
        "p95",
        "p95",
        "95th percentile of the request time",
        Show::Secs,
    ),
    column(
        "p99",
        "p99",
        "99th percentile of the request time",
        Show::Secs,
    ),
    column(
        "ru_utime_total",
        "User CPU",
        "CPU time in user code",
        Show::Secs,
    ),
    column(
        "ru_stime_total",
        "System CPU",
        "CPU time in the kernel",
        Show::Secs,
    ),
    column(
        "traffic_total",
        "Traffic",
        "Size of all documents together",
        Show::Bytes,
    ),
    column(
        "timer_count",
        "Timers",
        "Timers in these requests",
        Show::Count,
    ),
];

/// What is shown of timers.
const TIMERS: [Column; 10] = [
    column("hit_count", "Hits", "Hits of these timers", Show::Count),
    column("hit_per_sec", "Hits/s", "Hits per second", Show::Rate),
    column(
        "req_count",
        "Requests",
        "Requests with such timers",
        Show::Count,
    ),
    column(
        "timer_value",
        "Total time",
        "Time of all hits together",
        Show::Secs,
    ),
    column(
        "timer_value_percent",
        "Share",
        "Share of the time of all rows",
        Show::Share,
    ),
    column(
        "timer_median",
        "p50",
        "Median of the time per hit",
        Show::Secs,
    ),
    column(
        "p95",
        "p95",
        "95th percentile of the time per hit",
        Show::Secs,
    ),
    column(
        "p99",
        "p99",
        "99th percentile of the time per hit",
        Show::Secs,
    ),
    column(
        "ru_utime_total",
        "User CPU",
        "CPU time in user code",
        Show::Secs,
    ),
    column(
        "ru_stime_total",
        "System CPU",
        "CPU time in the kernel",
        Show::Secs,
    ),
];

/// A report as the source gave it.
#[derive(Debug)]
pub(super) struct Ranking {
    pub(super) answer: ReportAnswer,
    /// Whether it counts timers.
    pub(super) timers: bool,
}

/// Some rows of it, in order.
#[derive(Debug)]
pub(super) struct Chosen {
    /// Numbers of rows.
    pub(super) rows: Vec<usize>,
    /// How many there are before the cut.
    pub(super) total: usize,
}

impl Ranking {
    /// Asks for a report.
    pub(super) fn ask(source: &dyn Source, name: &str) -> Result<Self, Problem> {
        Ok(Self::of(source.ranking(name, &PERCENTILES)?))
    }

    /// Asks for several, which costs little more than one.
    pub(super) fn ask_all<const N: usize>(
        source: &dyn Source,
        names: [&str; N],
    ) -> Result<[Self; N], Problem> {
        let answers = source.rankings(&names, &PERCENTILES)?;
        let all: Vec<Self> = answers.into_iter().map(Self::of).collect();
        Ok(all.try_into().expect("there is an answer for each name"))
    }

    fn of(answer: ReportAnswer) -> Self {
        let timers = answer.table.column("timer_value").is_some();
        Self { answer, timers }
    }

    pub(super) fn table(&self) -> &dyn Table {
        self.answer.table.as_ref()
    }

    /// The columns that can be shown.
    pub(super) fn columns(&self) -> &'static [Column] {
        if self.timers { &TIMERS } else { &REQUESTS }
    }

    /// Those of these names, in this order.
    pub(super) fn columns_named(&self, names: &[&str]) -> Vec<Column> {
        let named = |name: &&str| self.columns().iter().find(|it| it.name == *name).copied();
        names.iter().filter_map(named).collect()
    }

    /// The name of the column with the time of all together.
    pub(super) fn time(&self) -> &'static str {
        if self.timers {
            "timer_value"
        } else {
            "req_time_total"
        }
    }

    /// The names of the key columns.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        let columns = self.table().columns();
        self.answer
            .key_columns
            .iter()
            .map(|key| columns[*key].name.as_str())
    }

    /// The keys of a row, as parameters of an address.
    pub(super) fn keys_of(&self, row: usize) -> Vec<(&str, String)> {
        let value = |key: &usize| show::plain(&self.table().value(row, *key));
        self.keys()
            .zip(self.answer.key_columns.iter().map(value))
            .collect()
    }

    /// The rows that `keep` lets through, by one column.
    pub(super) fn choose(
        &self,
        keep: Option<&dyn Fn(usize) -> bool>,
        sort: &str,
        descending: bool,
        (offset, limit): (usize, usize),
    ) -> Result<Chosen, Problem> {
        let table = self.table();
        let by = |name: &str, descending| {
            table
                .column(name)
                .map(|column| SortBy { column, descending })
        };
        let Some(first) = by(sort, descending) else {
            let names = table.columns().iter().map(|column| column.name.as_str());
            return Err(
                Problem::parameter("sort", format!("there is no column {sort:?}")).accepting(names),
            );
        };
        // Rows that are equal there stand in the order of their time, so that the order does not flicker.
        let sort: Vec<SortBy> = [Some(first), by(self.time(), true)]
            .into_iter()
            .flatten()
            .collect();
        let (rows, total) = choose(table, keep, &sort, offset, limit);
        Ok(Chosen {
            rows: (0..rows.len()).filter_map(|at| rows.get(at)).collect(),
            total,
        })
    }

    /// The address of a row's own page.
    pub(super) fn row_link(&self, report: &str, row: usize) -> String {
        let keys = self.keys_of(row);
        let path = format!("/reports/{}/row", encode(report));
        link(
            &path,
            keys.iter().map(|(name, value)| (*name, value.as_str())),
        )
    }

    /// The first key of a row as text.
    pub(super) fn first_key(&self, row: usize) -> Markup {
        let key = self.answer.key_columns.first();
        html! { @if let Some(key) = key { (key_text(&self.table().value(row, *key))) } }
    }

    /// The keys of a row as text, over a bar that is as long as the row is `heavy`, from 0 to 1.
    pub(super) fn key_cells(&self, report: &str, row: usize, heavy: f64) -> Markup {
        let table = self.table();
        html! {
            @for (at, key) in self.answer.key_columns.iter().enumerate() {
                @if at == 0 {
                    th.key scope="row" { (bar(heavy)) a href=(self.row_link(report, row)) { (key_text(&table.value(row, *key))) } }
                } @else {
                    td.key { (key_text(&table.value(row, *key))) }
                }
            }
            @if self.answer.key_columns.is_empty() {
                th.key scope="row" { a href=(self.row_link(report, row)) { "all requests" } }
            }
        }
    }

    /// What is [`heavy`](Self::key_cells) about each of these rows: the column's number, against the largest among them.
    pub(super) fn weights(&self, rows: &[usize], column: &str) -> Vec<f64> {
        let numbers = self.numbers(column);
        let number = |row: &usize| numbers(*row).unwrap_or(0.0);
        against_largest(rows.iter().map(number).collect())
    }

    /// One number of a row as a cell.
    pub(super) fn cell(&self, column: &Column, row: usize) -> Markup {
        let Some(number) = self.number(column.name, row) else {
            return html! { td { span.none { "\u{2013}" } } };
        };
        match column.show {
            Show::Errors if number == 0.0 => html! { td.zero { "0" } },
            Show::Errors => html! { td.bad[self.fails(row)] { (self.shown(column, row)) } },
            Show::Count | Show::Rate | Show::Secs | Show::Share | Show::Bytes => {
                html! { td { (self.shown(column, row)) } }
            }
        }
    }

    /// One number of a row with its name, for a list of facts.
    pub(super) fn fact(&self, column: &Column, row: usize) -> Markup {
        let bad = column.show == Show::Errors && self.fails(row);
        html! {
            div title=(column.hint) { dt { (column.title) } dd.big.bad[bad] { (self.shown(column, row)) } }
        }
    }

    /// A number as it is shown, without what is around it.
    fn shown(&self, column: &Column, row: usize) -> Markup {
        let Some(number) = self.number(column.name, row) else {
            return html! { "\u{2013}" };
        };
        match column.show {
            Show::Count => html! { (show::count(number as u64)) },
            Show::Rate => html! { (show::number(number)) },
            Show::Secs => html! { (show::secs(number)) },
            Show::Bytes => html! { (show::bytes(number)) },
            Show::Share => html! { (show::percent(number)) },
            Show::Errors => html! {
                (show::count(number as u64)) " "
                @if number > 0.0 { small { (show::percent(100.0 * self.failing(row))) } }
            },
        }
    }

    /// Which part of the requests of a row failed.
    fn failing(&self, row: usize) -> f64 {
        let errors = self.number("error_count", row).unwrap_or(0.0);
        errors / self.number("req_count", row).unwrap_or(0.0).max(1.0)
    }

    /// Whether so many fail that it should catch the eye.
    fn fails(&self, row: usize) -> bool {
        self.failing(row) >= FAILING
    }

    /// A number of a row; `None` when it is not known.
    pub(super) fn number(&self, column: &str, row: usize) -> Option<f64> {
        self.numbers(column)(row)
    }

    /// The numbers of a column, by row: for who looks at many.
    pub(super) fn numbers(&self, column: &str) -> impl Fn(usize) -> Option<f64> {
        let table = self.table();
        let column = table.column(column);
        move |row| match table.value(row, column?) {
            Value::Int(number) => Some(number as f64),
            Value::Micros(us) => Some(us as f64 / 1e6),
            Value::Float(number) => Some(number),
            Value::Null | Value::Text(_) => None,
        }
    }
}

/// A key as text; a number that is not there stands for all others.
pub(super) fn key_text(value: &Value<'_>) -> Markup {
    match value {
        Value::Null => html! { "(other)" },
        Value::Text(text) => html! { (Name(text)) },
        other => html! { (show::plain(other)) },
    }
}

/// Numbers as parts of the largest of them.
pub(super) fn against_largest(mut numbers: Vec<f64>) -> Vec<f64> {
    let largest = numbers.iter().copied().fold(0.0, f64::max);
    for number in &mut numbers {
        *number = if largest > 0.0 {
            *number / largest
        } else {
            0.0
        };
    }
    numbers
}

/// A bar behind a name, from 0 to 1. Decoration: the number by which it goes stands in the row.
pub(super) fn bar(part: f64) -> Markup {
    let width = (100.0 * part.clamp(0.0, 1.0)).round();
    html! {
        @if width > 0.0 {
            svg.bar viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true" { rect width=(width) height="1" {} }
        }
    }
}

/// The head of a column by which rows can be sorted. `sorted`: the column they are sorted by now, and whether the largest comes
/// first; `address` is where a click leads, for a sort parameter.
pub(super) fn sort_head(
    column: &Column,
    sorted: (&str, bool),
    address: impl Fn(&str) -> String,
) -> Markup {
    let (by, descending) = sorted;
    let is_this = by == column.name;
    // The largest first at first; a second click turns the order.
    let next = if is_this && descending {
        column.name.to_owned()
    } else {
        format!("-{}", column.name)
    };
    let order = match (is_this, descending) {
        (false, _) => None,
        (true, true) => Some("descending"),
        (true, false) => Some("ascending"),
    };
    html! {
        th scope="col" title=(column.hint) aria-sort=[order] {
            a href=(address(&next)) {
                (column.title)
                @if let Some(order) = order {
                    span aria-hidden="true" { @if order == "descending" { " \u{2193}" } @else { " \u{2191}" } }
                }
            }
        }
    }
}

/// The head of a column by which nothing is sorted.
pub(super) fn plain_head(column: &Column) -> Markup {
    html! { th scope="col" title=(column.hint) { (column.title) } }
}
