//! One table of a page: caption, sortable heads, rows, and a line if there are none.

use std::iter;
use std::ops::RangeInclusive;

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
            true => ("descending", "\u{a0}\u{2193}"),
            false => ("ascending", "\u{a0}\u{2191}"),
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

/// A table with more columns than this has a block per row at any width.
const COLUMNS_MAX: usize = 15;
/// One with more than this has narrower gaps.
const DENSE: usize = 12;
/// The class of texts that may wrap.
pub(super) const PROSE: &str = "key text";
/// The class of a waterfall's bars.
pub(super) const FALL: &str = "fall";
/// Most cells with labels, or pages would be too large: those of as many rows as a page has, of a
/// report in its own columns.
const LABELS_MAX: usize = 2_200;

/// The cells of a row.
fn cells(row: &Markup) -> impl Iterator<Item = &str> {
    let mut rest = row.0.as_str();
    iter::from_fn(move || {
        // Text is escaped: anything like a cell is one.
        let next = |tag: &str| rest.get(1..).and_then(|it| it.find(tag)).map(|at| at + 1);
        let end = next("<td").into_iter().chain(next("<th")).min().unwrap_or(rest.len());
        let (cell, after) = rest.split_at(end);
        rest = after;
        (!cell.is_empty()).then_some(cell)
    })
}

/// The cells of a row, each with the title of its column, which the style sheet shows where a row
/// has several lines.
fn labelled(row: &Markup, heads: &[Head]) -> Markup {
    let mut labelled = String::with_capacity(row.0.len() + 24 * heads.len());
    let mut heads = heads.iter();
    for cell in cells(row) {
        let head = heads.next().filter(|head| !head.label.is_empty());
        match (head, cell.strip_prefix("<td")) {
            (Some(head), Some(rest)) => {
                // Escaped where the title was made. Names of columns may break between their words.
                let label = head.label.replace('"', "&quot;").replace('_', "_\u{200b}");
                labelled += &format!("<td data-l=\"{label}\"{rest}");
            }
            // The first cell of a row needs no label.
            _ => labelled += cell,
        }
    }
    PreEscaped(labelled)
}

/// The width of a letter of a cell, in the wider ones of the fonts of the style sheet.
const fn letter_px(letter: char) -> usize {
    match letter {
        ' ' | '.' | ',' | ':' | ';' | '/' | '|' | '\'' | '!' | 'i' | 'j' | 'l' => 5,
        '-' | 'f' | 'r' | 't' => 6,
        'c' | 'k' | 's' | 'v' | 'x'..='z' => 8,
        'm' | 'M' | 'W' | '%' | '#' | '=' | '+' | '&' | '@' | '<' | '>' | '~' => 14,
        'w' => 12,
        'A'..='Z' => 10,
        '\0'..='\x7f' => 9,
        '\u{80}'..'\u{1100}' => 10,
        // Of some scripts they are twice as wide.
        _ => 16,
    }
}

/// The width of smaller letters.
const fn small(px: usize) -> usize {
    px * 6 / 7
}

/// The width of escaped text.
fn text_px(text: &str) -> usize {
    let mut parts = text.split('&');
    let px = |text: &str| text.chars().map(letter_px).sum::<usize>();
    let first = parts.next().map_or(0, px);
    let others = parts.map(|it| letter_px('&') + px(it.split_once(';').map_or(it, |it| it.1)));
    first + others.sum::<usize>()
}

/// What a name needs: longer ones wrap.
const NAME_PX: usize = 110;
/// A text that wraps, and tags, in `page.css`.
const PROSE_PX: usize = 136;
/// The bars of a waterfall.
const FALL_PX: usize = 220;
/// The names of rows.
const FIRST_PX: usize = 140;

/// The width that the content of a cell needs: that of its longest line.
fn cell_px(cell: &str) -> usize {
    let (mut longest, mut line) = (0, 0);
    for part in cell.replace("<wbr>", "").split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or((part, ""));
        let class = tag.split_once("class=\"").map_or("", |(_, class)| class);
        match tag.split_once(' ').map_or(tag, |(name, _)| name) {
            "td" | "th" if class.starts_with(PROSE) => return PROSE_PX,
            "td" | "th" if class.starts_with(FALL) => return FALL_PX,
            // These stand below.
            "small" if class.starts_with("was") || class.starts_with("change") => line = 0,
            _ => {}
        }
        line += match tag {
            "bdi" => text_px(text).min(NAME_PX),
            _ if tag.starts_with("small") => small(text_px(text)),
            _ => text_px(text),
        };
        longest = longest.max(line);
    }
    longest
}

/// The width that a table needs, in pixels: whatever is in its cells stays on one line.
fn needed_px(heads: &[Head], rows: &[Markup]) -> usize {
    let gaps = if heads.len() > DENSE { 10 } else { 16 };
    let word_px = |head: &Head| {
        let words = head.label.split([' ', '\u{a0}']).map(|it| small(text_px(it)));
        words.max().unwrap_or(0)
    };
    let mut columns: Vec<usize> = heads.iter().map(word_px).collect();
    for row in rows {
        for (column, cell) in columns.iter_mut().zip(cells(row)) {
            *column = (*column).max(cell_px(cell));
        }
    }
    if let (Some(first), Some(Head { class: Some("key"), .. })) =
        (columns.first_mut(), heads.first())
    {
        *first = (*first).max(FIRST_PX);
    }
    columns.iter().map(|column| column + gaps).sum()
}

/// The style sheet has a class for each of these widths that a table may need, which makes a block
/// of each row where it has less.
const STEP_PX: usize = 40;
const STEPS: RangeInclusive<usize> = 12..=50;

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
    let steps = needed_px(&heads, &rows).div_ceil(STEP_PX).clamp(*STEPS.start(), *STEPS.end());
    html! {
        div.wide.many[is_many].fair[is_fair].dense[heads.len() > DENSE].{ "n" (heads.len()) }.{ "w" (steps) }
            tabindex="0" role="region" aria-label=(label) {
            div.fit {
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

/// Default and largest number of rows on one page, which keep it at about a hundred kilobytes.
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

/// A number as a cell; a dash if unknown.
pub(super) fn cell<N>(number: Option<N>, shown: impl Fn(N) -> String) -> Markup {
    html! { td { @match number { Some(number) => (shown(number)), None => span.none { (formatting::UNKNOWN) } } } }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &str) -> Markup {
        PreEscaped(cells.to_owned())
    }

    #[test]
    fn cells_are_found_and_labelled() {
        let heads = Head::list(&["A"], &["b_c", "d"]);
        let cells = "<th class=\"key\">a &lt;td</th><td>1</td><td class=\"bad\">2</td>";
        assert_eq!(super::cells(&row(cells)).collect::<String>(), cells);
        assert_eq!(super::cells(&row(cells)).count(), 3);
        let wanted = "<th class=\"key\">a &lt;td</th><td data-l=\"b_\u{200b}c\">1</td>\
                      <td data-l=\"d\" class=\"bad\">2</td>";
        assert_eq!(labelled(&row(cells), &heads).0, wanted);
    }

    #[test]
    fn a_cell_needs_its_longest_line_and_of_a_name_a_part() {
        for (cell, px) in [
            ("<td></td>", 0),
            ("<td>123</td>", 27),
            ("<td>&lt;3</td>", 14 + 9),
            ("<td>1<small class=\"was\">7777777</small></td>", 54),
            ("<td>1 <small>7 %</small></td>", 9 + 5 + 24),
            ("<td class=\"key text\">anything at all, however long it is</td>", PROSE_PX),
            (
                "<th class=\"key\"><a href=\"/\"><bdi>/<wbr>long/<wbr>way/<wbr>to/<wbr>where</bdi></a></th>",
                NAME_PX,
            ),
            ("<td class=\"key\"><bdi>aaa</bdi></td>", 27),
        ] {
            assert_eq!(cell_px(cell), px, "{cell}");
        }
    }

    /// Where it has less room, the style sheet makes a block of each row.
    #[test]
    fn the_style_sheet_knows_every_width_that_a_table_may_need() {
        let style = include_str!("page.css");
        for steps in STEPS {
            let rule = format!(".w{steps} {{ --need: {}px; }}", steps * STEP_PX);
            assert!(style.contains(&rule), "{rule}");
        }
        let class_of = |texts: &[&str], rows: usize| {
            let numbers = vec!["Requests"; rows];
            let shown = table("All", "all", Head::list(texts, &numbers), [], "").0;
            let mut classes = shown.split('"').nth(1).unwrap().split(' ');
            classes.find_map(|it| it.strip_prefix('w')?.parse::<usize>().ok()).unwrap()
        };
        assert_eq!(class_of(&["Name"], 1), *STEPS.start());
        let (few, many) = (class_of(&["Name"], 8), class_of(&["Name"], 14));
        assert!(few < many && many < *STEPS.end(), "{few} {many}");
    }
}
