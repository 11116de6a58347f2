//! One table of a page: caption, sortable heads, rows, and a line if there are none.

use maud::{Markup, PreEscaped, Render, html};

use super::formatting;
use crate::http::answer::order::Sort;
use crate::http::error::Problem;
use crate::http::params::Params;

/// The head of one column.
#[derive(Debug)]
pub(super) struct Head {
    title: Markup,
    /// The head as text, for each cell where a row has several lines.
    label: String,
    /// The class of its cells; none for numbers.
    class: Option<&'static str>,
    /// The meaning of the column, in full.
    hint: String,
    /// For a sortable column: the URL of its link, and whether rows are sorted by it now, and
    /// descending.
    sort: Option<(String, Option<bool>)>,
}

impl Head {
    /// A column of numbers.
    pub(super) fn number(title: impl Render) -> Self {
        let title = title.render();
        let mut label = title.0.as_str();
        // Without elements.
        let mut text = String::new();
        while let Some((before, rest)) = label.split_once('<') {
            text += before;
            label = rest.split_once('>').map_or("", |(_, rest)| rest);
        }
        text += label;
        Self { title, label: text, class: None, hint: String::new(), sort: None }
    }

    /// A column of texts.
    pub(super) fn text(title: impl Render) -> Self {
        Self::number(title).class("key")
    }

    /// Columns of texts, then columns of numbers.
    pub(super) fn list(texts: &[&str], numbers: &[&str]) -> Vec<Self> {
        let texts = texts.iter().map(Self::text);
        texts.chain(numbers.iter().map(Self::number)).collect()
    }

    /// A column of texts, under a heading for screen readers only.
    pub(super) fn hidden(title: &str) -> Self {
        Self { label: String::new(), ..Self::text(html! { span.hidden { (title) } }) }
    }

    /// Sets the class.
    pub(super) fn class(self, class: &'static str) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Adds the meaning in full.
    pub(super) fn hint(self, hint: &str) -> Self {
        Self { hint: hint.to_owned(), ..self }
    }

    /// Makes it sortable: the largest number or the first text first; a second click reverses the
    /// order. `path` is that of the page with these parameters.
    pub(super) fn sorts(mut self, column: &str, sort: &Sort, path: &str, params: &Params) -> Self {
        let is_this = sort.column == column;
        let is_number = self.class.is_none();
        let descending = if is_this { !sort.descending } else { is_number };
        let next = format!("{}{column}", if descending { "-" } else { "" });
        let address = params.link(path, &[("sort", Some(&next))]);
        self.sort = Some((address, is_this.then_some(sort.descending)));
        self
    }
}

impl Render for Head {
    fn render(&self) -> Markup {
        let (address, order) = self.sort.clone().unzip();
        let order = order.flatten().map(|descending| match descending {
            true => ("descending", " \u{2193}"),
            false => ("ascending", " \u{2191}"),
        });
        let (order, arrow) = order.unzip();
        let hint = (!self.hint.is_empty()).then_some(&self.hint);
        html! {
            th class=[self.class] scope="col" title=[hint] aria-sort=[order] {
                @if let Some(address) = address {
                    a href=(address) { (self.title) @if let Some(arrow) = arrow { span aria-hidden="true" { (arrow) } } }
                } @else { (self.title) }
            }
        }
    }
}

/// A table with more columns than this has a block per row, so that nothing needs sideways
/// scrolling.
const COLUMNS_MAX: usize = 15;
/// One with more than this has narrower gaps.
const DENSE: usize = 12;
/// The class of texts that may wrap.
pub(super) const PROSE: &str = "key text";
/// The class of a waterfall's bars.
pub(super) const FALL: &str = "fall";
/// Most cells with labels: larger tables rely on the heads above, or pages would be too large.
const LABELS_MAX: usize = 1_400;

/// The cells of a row, each with the title of its column, which the style sheet shows where a row
/// has several lines.
fn labelled(row: &Markup, heads: &[Head]) -> Markup {
    let mut cells = String::with_capacity(row.0.len() + 24 * heads.len());
    let mut rest = row.0.as_str();
    let mut heads = heads.iter();
    // Text is escaped: anything like a cell is one.
    while let Some(at) = rest.find("<td").into_iter().chain(rest.find("<th")).min() {
        let (before, cell) = rest.split_at(at + 3);
        cells += before;
        let head = heads.next().filter(|head| !head.label.is_empty());
        // The first cell of a row needs no label.
        if let Some(head) = head.filter(|_| before.ends_with("<td")) {
            // Escaped where the title was made. Names of columns may break between their words.
            let label = head.label.replace('"', "&quot;").replace('_', "_\u{200b}");
            cells += &format!(" data-l=\"{label}\"");
        }
        rest = cell;
    }
    PreEscaped(cells + rest)
}

/// A table as wide as its place; where that is narrow, a row has several lines. `rows` are the
/// cells of each; `empty` is shown if there are none.
pub(super) fn table(
    label: &str,
    caption: impl Render,
    heads: impl IntoIterator<Item = Head>,
    rows: impl IntoIterator<Item = Markup>,
    empty: &str,
) -> Markup {
    let heads: Vec<Head> = heads.into_iter().collect();
    let rows: Vec<Markup> = rows.into_iter().collect();
    let is_labelled = rows.len() * heads.len() <= LABELS_MAX;
    // Texts leave less room for others.
    let has_prose = heads.iter().any(|head| head.class == Some(PROSE));
    let most = if has_prose { DENSE } else { COLUMNS_MAX };
    let is_many = heads.len() > most;
    // A waterfall takes its share of the width.
    let is_fair = !is_many && !heads.iter().any(|head| head.class == Some(FALL));
    html! {
        div.wide.many[is_many].fair[is_fair].dense[heads.len() > DENSE].{ "n" (heads.len()) }
            tabindex="0" role="region" aria-label=(label) {
            table {
                caption { (caption) }
                thead { tr { @for head in &heads { (head) } } }
                tbody {
                    @for row in &rows { tr { @if is_labelled { (labelled(row, &heads)) } @else { (row) } } }
                    @if rows.is_empty() && !empty.is_empty() { tr { td.none colspan=(heads.len()) { (empty) } } }
                }
            }
        }
    }
}

/// A table under a heading; nothing if it has no rows.
pub(super) fn section(
    title: &str,
    caption: impl Render,
    heads: impl IntoIterator<Item = Head>,
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    let mut rows = rows.into_iter().peekable();
    html! {
        @if rows.peek().is_some() {
            h2 { (title) }
            (table(title, caption, heads, rows, ""))
        }
    }
}

/// A table as narrow as its column of the page.
pub(super) fn narrow_table(
    title: &str,
    heads: &[Head],
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    html! {
        table {
            @if !title.is_empty() { caption { (title) } } @else { caption.hidden { "Numbers" } }
            @if !heads.is_empty() { thead { tr { @for head in heads { (head) } } } }
            tbody { @for row in rows { tr { (row) } } }
        }
    }
}

/// Default and largest number of rows on one page, which keep it below a hundred kilobytes.
pub(super) const ROWS_DEFAULT: usize = 50;
pub(super) const ROWS_MAX: usize = 100;

/// The rows of a long table that a page shows, and their order.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) sort: Option<Sort>,
    pub(super) limit: usize,
    offset: usize,
}

impl Listing {
    /// Parses the parameters `sort`, `limit` and `offset`.
    pub(super) fn take(params: &mut Params) -> Result<Self, Problem> {
        Ok(Self {
            sort: params.text("sort").map(|text| Sort::parse(&text)),
            limit: params.rows(ROWS_DEFAULT, ROWS_MAX)?,
            offset: params.count("offset", 0)?,
        })
    }

    /// The number of rows before this page, and of those on a full one.
    pub(super) const fn page(&self) -> (usize, usize) {
        (self.offset, self.limit)
    }

    /// Whether the last of `total` rows is among the `shown` ones.
    pub(super) const fn is_last(&self, shown: usize, total: usize) -> bool {
        self.offset + shown >= total
    }

    /// Links to the other pages of the table at `path`.
    pub(super) fn pager(&self, shown: usize, total: usize, path: &str, params: &Params) -> Markup {
        pager(self.offset, shown, total, self.limit, |offset| {
            params.link(path, &[("offset", (offset != "0").then_some(offset))])
        })
    }
}

/// Links to the previous and next page, and the position of this one.
pub(super) fn pager(
    offset: usize,
    shown: usize,
    total: usize,
    limit: usize,
    address: impl Fn(&str) -> String,
) -> Markup {
    html! {
        nav.pager aria-label="Pages of the table" {
            @if offset > 0 {
                a rel="prev" href=(address(&offset.saturating_sub(limit).to_string())) { "\u{2190} previous" }
            }
            span {
                @if shown == 0 { "no rows" } @else {
                    (formatting::count(offset as u64 + 1)) "\u{2013}" (formatting::count((offset + shown) as u64))
                    " of " (formatting::count(total as u64))
                }
            }
            @if offset + shown < total {
                a rel="next" href=(address(&(offset + limit).to_string())) { "next \u{2192}" }
            }
        }
    }
}

/// The active conditions, each with a link to the page at `path` without it.
pub(super) fn conditions<'a>(
    label: &str,
    conditions: impl IntoIterator<Item = (&'a str, &'a str)>,
    path: &str,
    params: &Params,
) -> Markup {
    let mut conditions = conditions.into_iter().peekable();
    html! {
        @if conditions.peek().is_some() {
            ul.conditions aria-label=(label) {
                @for (name, value) in conditions {
                    @let shown = formatting::visible(name.strip_prefix("tag.").or(name.strip_prefix("t.")).unwrap_or(name));
                    li {
                        (shown) " = " (formatting::Name(value)) " "
                        a href=(params.link(path, &[(name, None)])) aria-label={ "Without the condition on " (shown) } { "\u{d7}" }
                    }
                }
            }
        }
    }
}

/// A bar behind a name, from 0 to 1. Decoration: its number is in the row.
pub(super) fn bar(part: f64) -> Markup {
    let width = (100.0 * part.clamp(0.0, 1.0)).round();
    html! {
        @if width > 0.0 {
            svg.bar aria-hidden="true" { rect width={ (width) "%" } {} }
        }
    }
}
