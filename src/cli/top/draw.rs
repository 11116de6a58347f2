//! The screen as lines of styled text, for whatever size it has.
//!
//! From the top: the daemon's health, the tabs, the tables, the keys. A small terminal shows fewer of them, the table longest.
//! Colours carry no information of their own. Called by the event loop, once for each change.

use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::cell::short;
use super::keys::HELP;
use super::layout::Layout;
use super::location::Tab;
use super::model::{Connection, Model};
use super::stats::{Stats, sparkline};
use super::table::{Severity, Table};
use crate::cli::format::{bytes, clock, cut, fit, grouped, seconds, width};
use crate::config::units::exact_duration;

/// Below this many lines only the table and the keys are drawn.
const TINY: usize = 8;
/// From here on there is room for everything.
const FULL: usize = 18;

/// The styles.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    /// Whether there may be colours.
    pub colour: bool,
}

impl Theme {
    fn colour(self, colour: Color) -> Style {
        match self.colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Normal => Style::new(),
            Severity::Warning => self.colour(Color::Yellow),
            Severity::Critical => self.colour(Color::Red),
        }
    }

    fn heading(self) -> Style {
        self.colour(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn alarm(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn dim(self) -> Style {
        match self.colour {
            true => Style::new().add_modifier(Modifier::DIM),
            false => Style::new(),
        }
    }

    fn selected_style() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model, theme: Theme) {
    let area = frame.area();
    let lines = lines(model, area.width.into(), area.height.into(), theme);
    frame.render_widget(Paragraph::new(lines), area);
}

/// The lines of a screen of that size.
pub fn lines(model: &mut Model, columns: usize, height: usize, theme: Theme) -> Vec<Line<'static>> {
    if height == 0 {
        return Vec::new();
    }
    let mut lines = head(model, columns, height, theme);
    let foot = usize::from(height > 2);
    let room = height.saturating_sub(lines.len() + foot);
    if model.help {
        lines.extend(help(theme).into_iter().take(room));
    } else {
        body(model, columns, room, theme, &mut lines);
    }
    lines.truncate(height - foot);
    lines.resize(height - foot, Line::default());
    if foot > 0 {
        lines.push(keys(model, columns, theme));
    }
    lines
}

/// The daemon's health, and the tabs.
fn head(model: &Model, columns: usize, height: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if height >= TINY {
        lines.push(title(model, columns, theme));
        if let Connection::Lost(why) = &model.connection {
            let text = format!("No answer: {why}; trying on.");
            lines.push(Line::styled(
                cut(&text, columns).into_owned(),
                theme.alarm(),
            ));
        } else {
            lines.push(traffic(&model.stats, columns, theme));
        }
    }
    if height >= FULL {
        lines.push(memory(&model.stats, columns, theme));
        lines.push(past(&model.stats, columns, theme));
    }
    if height >= TINY {
        lines.push(views(model, columns, theme));
    }
    lines
}

fn title(model: &Model, columns: usize, theme: Theme) -> Line<'static> {
    let right = match &model.stats.sample {
        Some(sample) => format!("{} UTC", clock(sample.unix_secs)),
        None => String::new(),
    };
    let every = match model.paused {
        true => "standing still".to_owned(),
        false => format!("every {}", exact_duration(model.interval)),
    };
    let right = format!("{every}  {right}");
    let left = format!("pinbad {}", model.url.trim_start_matches("http://"));
    let left = fit(&left, columns.saturating_sub(width(&right) + 1));
    let style = theme.heading();
    Line::styled(cut(&format!("{left} {right}"), columns).into_owned(), style)
}

fn traffic(stats: &Stats, columns: usize, theme: Theme) -> Line<'static> {
    let Some(sample) = &stats.sample else {
        return Line::styled("Waiting for the daemon.", theme.dim());
    };
    let rate = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), short);
    let rates = stats.rates.as_ref();
    let counters = sample.counters;
    let mut spans = vec![Span::raw(format!(
        "{} req/s  {} pkt/s  {}/s",
        rate(rates.map(|it| it.requests)),
        rate(rates.map(|it| it.datagrams)),
        rates.map_or_else(|| "-".to_owned(), |it| bytes(it.bytes)),
    ))];
    for (name, now, total) in [
        ("lost", rates.map(|it| it.lost), counters.lost()),
        ("refused", rates.map(|it| it.invalid), counters.invalid),
    ] {
        let text = format!("  {name} {}/s ({})", rate(now), grouped(total));
        let style = match (now.is_some_and(|now| now > 0.0), total > 0.0) {
            (true, _) => theme.alarm(),
            (false, true) => theme.severity(Severity::Warning),
            (false, false) => Style::new(),
        };
        spans.push(Span::styled(text, style));
    }
    spans.push(Span::raw(format!("  lag {}", seconds(sample.lag))));
    shortened(spans, columns)
}

fn memory(stats: &Stats, columns: usize, theme: Theme) -> Line<'static> {
    let Some(sample) = &stats.sample else {
        return Line::default();
    };
    let text = format!(
        "rows {} requests, {} timers, {} words; reports {} of {}; {} waiting",
        grouped(sample.request_rows),
        grouped(sample.timer_rows),
        grouped(sample.words),
        bytes(sample.report_bytes.0),
        bytes(sample.report_bytes.1),
        grouped(sample.ring_depth),
    );
    Line::styled(cut(&text, columns).into_owned(), theme.dim())
}

/// Two sparklines beside each other.
fn past(stats: &Stats, columns: usize, theme: Theme) -> Line<'static> {
    let last = |values: &std::collections::VecDeque<Option<f64>>| values.back().copied().flatten();
    let half = columns.saturating_sub(2) / 2;
    let part = |name: &str, values, now: String, style| {
        let text = fit(&format!(" {now}"), 10);
        let blocks = sparkline(values, half.saturating_sub(width(name) + 1 + 10));
        [
            Span::raw(format!("{name} ")),
            Span::styled(blocks, style),
            Span::raw(text),
        ]
    };
    let requests = last(stats.requests()).map_or_else(|| "-".to_owned(), short);
    let latency = last(stats.latency()).map_or_else(|| "-".to_owned(), seconds);
    let mut spans: Vec<Span<'static>> = part(
        "req/s",
        stats.requests(),
        requests,
        theme.colour(Color::Green),
    )
    .into();
    spans.push(Span::raw("  "));
    spans.extend(part(
        "p95",
        stats.latency(),
        latency,
        theme.colour(Color::Magenta),
    ));
    shortened(spans, columns)
}

fn views(model: &Model, columns: usize, theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, tab) in Tab::ALL.iter().enumerate() {
        let style = if at == model.tab {
            Theme::selected_style()
        } else {
            theme.dim()
        };
        spans.push(Span::styled(format!(" {} {} ", at + 1, tab.title()), style));
    }
    shortened(spans, columns)
}

/// The tables, or why there are none.
fn body(
    model: &mut Model,
    columns: usize,
    room: usize,
    theme: Theme,
    lines: &mut Vec<Line<'static>>,
) {
    let path = model.path();
    let typing = model.typing;
    let view = model.view_mut();
    let mut room = room;
    let mut push = |lines: &mut Vec<Line<'static>>, line| {
        if room > 0 {
            lines.push(line);
            room -= 1;
        }
    };
    if path.len() > 1 {
        let text = path.join(" > ");
        push(
            lines,
            Line::styled(cut(&text, columns).into_owned(), theme.heading()),
        );
    }
    if let Some(why) = &view.refused {
        push(
            lines,
            Line::styled(cut(why, columns).into_owned(), theme.alarm()),
        );
    }
    for (name, text) in &view.about {
        let text = format!("{name:>12}  {text}");
        push(lines, Line::raw(cut(&text, columns).into_owned()));
    }
    if view.tables.is_empty() {
        if view.refused.is_none() {
            push(lines, Line::styled("Waiting for rows.", theme.dim()));
        }
        return;
    }
    let count = view.tables.len();
    let focus = view.focus;
    let mut page_rows = 1;
    for (at, table) in view.tables.iter_mut().enumerate() {
        let share = room / (count - at);
        let focused = at == focus;
        let drawn = table_lines(table, columns, share, focused, typing && focused, theme);
        if focused {
            page_rows = share.saturating_sub(2).max(1);
        }
        room -= drawn.len().min(room);
        lines.extend(drawn);
    }
    model.page_rows = page_rows;
}

/// One table: what it is, its headings, its rows from the offset on.
fn table_lines(
    table: &mut Table,
    columns: usize,
    height: usize,
    focused: bool,
    typing: bool,
    theme: Theme,
) -> Vec<Line<'static>> {
    if height == 0 {
        return Vec::new();
    }
    let mut lines = Vec::with_capacity(height);
    // With few lines the rows are what counts.
    if height > 3 {
        lines.push(caption(table, columns, focused, typing, theme));
    }
    let layout = Layout::new(table, columns);
    if height > 1 {
        let text = layout.heading(table).concat();
        lines.push(Line::styled(
            cut(&text, columns).into_owned(),
            theme.heading(),
        ));
    }
    let rows = height - lines.len();
    let furthest = table.len().saturating_sub(rows);
    let (first, last) = (
        (table.selected() + 1).saturating_sub(rows),
        table.selected(),
    );
    table.offset = table.offset.clamp(first, last.max(first)).min(furthest);
    for (at, row) in table.rows().enumerate().skip(table.offset).take(rows) {
        let text = layout.row(table, row).concat();
        let mut style = theme.severity(row.severity);
        if focused && at == table.selected() {
            style = style.patch(Theme::selected_style());
        }
        lines.push(Line::styled(fit(&text, columns), style));
    }
    lines
}

fn caption(
    table: &Table,
    columns: usize,
    focused: bool,
    typing: bool,
    theme: Theme,
) -> Line<'static> {
    let mut text = format!("{} ({})", table.title(), table.counted());
    if let Some(sort) = table.unknown_sort() {
        let sort = crate::cli::format::visible(sort);
        text.push_str(&format!("  there is no column {sort}"));
    }
    if typing {
        text.push_str(&format!("  filter: {}_", table.filter()));
    } else if !table.filter().is_empty() {
        text.push_str(&format!("  filter: {}", table.filter()));
    }
    let style = if focused {
        Style::new().add_modifier(Modifier::BOLD)
    } else {
        theme.dim()
    };
    Line::styled(cut(&text, columns).into_owned(), style)
}

fn help(theme: Theme) -> Vec<Line<'static>> {
    let line = |(keys, meaning): &(&'static str, &'static str)| match keys.is_empty() {
        true => Line::styled(*meaning, theme.dim()),
        false => Line::raw(format!("{keys:>27}  {meaning}")),
    };
    HELP.iter().map(line).collect()
}

/// The keys that matter here.
fn keys(model: &Model, columns: usize, theme: Theme) -> Line<'static> {
    let view = model.view();
    let mut keys: Vec<(&str, &str)> = Vec::new();
    if model.typing {
        keys.extend([("Enter", "keep"), ("Esc", "drop"), ("Backspace", "erase")]);
    } else if model.help {
        keys.extend([("?", "back"), ("q", "end")]);
    } else {
        keys.extend([("q", "end"), ("?", "help")]);
        let opens = view.table().and_then(Table::selected_row);
        if opens.is_some_and(|row| row.target.is_some()) {
            keys.push(("Enter", "open"));
        }
        if model.path().len() > 1 {
            keys.push(("Esc", "back"));
        }
        keys.extend([("<>", "sort"), ("r", "turn"), ("/", "filter")]);
        if view.tables.iter().any(|table| !table.choices().is_empty()) {
            keys.push(("t", "tags"));
        }
        if view.tables.len() > 1 {
            keys.push(("Tab", "table"));
        }
        keys.extend([("p", "pause"), ("+-", "pace"), ("1-7", "view")]);
    }
    let mut spans = Vec::new();
    for (key, meaning) in keys {
        if !spans.is_empty() {
            spans.push(Span::raw("  "));
        }
        spans.push(Span::styled(key, Theme::selected_style()));
        spans.push(Span::styled(format!(" {meaning}"), theme.dim()));
    }
    shortened(spans, columns)
}

/// Cuts a line of several styles at the width.
fn shortened(spans: Vec<Span<'static>>, columns: usize) -> Line<'static> {
    let mut left = columns;
    let mut kept = Vec::with_capacity(spans.len());
    for span in spans {
        let text = cut(&span.content, left).into_owned();
        left -= width(&text).min(left);
        kept.push(Span::styled(text, span.style));
        if left == 0 {
            break;
        }
    }
    Line::from(kept)
}

#[cfg(test)]
mod tests;
