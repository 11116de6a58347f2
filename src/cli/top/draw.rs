//! Draws the screen as lines of styled text, for any size.
//!
//! From the top: the daemon's health, the tabs, the tables, the keys. A small terminal shows fewer
//! of them, the table longest. Colours carry no information of their own. Called by the event loop
//! after each change.

use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::layout::Layout;
use super::location::{Location, TABS};
use super::model::{Model, View};
use super::stats::{Sample, Stats, sparkline};
use super::table::Table;
use crate::cli::format::{bytes, clock, cut, fit, grouped, number, secs, visible, width};
use crate::config::units::exact_duration;
use crate::value::text::{by, counted};

/// The text of the help: all keys.
const KEYS: &str = include_str!("../help/top_keys.txt");

/// Below this height only the table and the keys are drawn.
const TINY: usize = 8;
/// From this height on everything is drawn.
const FULL: usize = 18;

const HEADING: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws everything, with or without colours.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model, colour: bool) {
    let area = frame.area();
    let lines = lines(model, area.width.into(), area.height.into());
    frame.render_widget(Paragraph::new(lines), area);
    if !colour {
        for cell in &mut frame.buffer_mut().content {
            (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
            cell.modifier.remove(Modifier::DIM);
        }
    }
}

/// The lines of a screen of this size.
fn lines(model: &mut Model, columns: usize, height: usize) -> Vec<Line<'static>> {
    if height == 0 {
        return Vec::new();
    }
    let mut lines = head(model, columns, height);
    let foot = usize::from(height > 2);
    let room = height.saturating_sub(lines.len() + foot);
    if model.help {
        lines.extend(KEYS.lines().map(Line::raw));
    } else {
        let page_rows = body(model, columns, room, &mut lines);
        model.page_rows = page_rows.unwrap_or(model.page_rows);
    }
    lines.resize(height - foot, Line::default());
    if foot > 0 {
        lines.push(keys(model));
    }
    lines
}

/// The daemon's health, and the tabs.
fn head(model: &Model, columns: usize, height: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if height < TINY {
        return lines;
    }
    lines.push(title(model, columns));
    lines.push(match (&model.lost, &model.stats().sample) {
        (Some(why), _) => Line::styled(format!("No answer: {why}; retrying."), ALARM),
        (_, None) => Line::styled("Waiting for the daemon.", DIM),
        (_, Some(sample)) => traffic(model.stats(), sample, columns),
    });
    if height >= FULL {
        lines.extend(match &model.stats().sample {
            None => [Line::default(), Line::default()],
            Some(sample) => {
                let [rows, words, reports] = held(sample);
                let waiting = grouped(sample.number("ring_depth"));
                let mut text = format!("rows {rows}; {reports}; {waiting} waiting");
                // What matters least goes where there is room.
                let words = format!("; {words}");
                if width(&text) + width(&words) <= columns {
                    text += &words;
                }
                let text = cut(&text, columns).into_owned();
                [Line::styled(text, DIM), past(sample, columns)]
            }
        });
    }
    let tab = |(at, tab): (usize, &Location)| {
        let style = if at == model.tab { SELECTED } else { DIM };
        Span::styled(format!(" {} {} ", at + 1, tab.title()), style)
    };
    lines.push(TABS.iter().enumerate().map(tab).collect());
    lines
}

fn title(model: &Model, columns: usize) -> Line<'static> {
    let every = match model.paused {
        Some(_) => "standing still".to_owned(),
        None => format!("every {}", exact_duration(model.interval)),
    };
    let now = model.stats().sample.as_ref();
    let now = now.map_or_else(String::new, |now| format!("{} UTC", clock(now.unix_secs)));
    let right = format!(" {every}  {now}");
    let left = format!("pinbad {}", model.url.trim_start_matches("http://"));
    let left = fit(&left, columns.saturating_sub(width(&right)));
    Line::styled(left + &right, HEADING)
}

/// The rates of the last poll.
fn traffic(stats: &Stats, sample: &Sample, columns: usize) -> Line<'static> {
    let over = stats.before.as_ref();
    let over = over.map_or_else(String::new, |(_, over)| format!("last {}: ", secs(*over)));
    let shown =
        |rate: Option<f64>, format: fn(f64) -> String| rate.map_or_else(|| "-".to_owned(), format);
    let counter = |name: &'static str| stats.rate(move |sample| sample.number(name));
    let mut spans = vec![Span::raw(format!(
        "{over}{} req/s  {} pkt/s  {}/s",
        shown(stats.rate(Sample::merged), number),
        shown(counter("datagrams_received"), number),
        shown(counter("received_bytes"), bytes),
    ))];
    for (name, of) in [("lost", Sample::lost as fn(&Sample) -> f64), ("refused", Sample::refused)] {
        let (now, total) = (stats.rate(of), of(sample));
        let style = match (now.is_some_and(|now| now > 0.0), total > 0.0) {
            (true, _) => ALARM,
            (false, true) => Style::new().fg(Color::Yellow),
            (false, false) => Style::new(),
        };
        let text = format!("  {name} {}/s ({})", shown(now, number), grouped(total));
        spans.push(Span::styled(text, style));
    }
    let (mut line, lag) = (Line::from(spans), sample.number("merge_lag_us") / 1e6);
    let lag = format!("  lag {}", secs(lag));
    // What matters least goes where there is room.
    if line.width() + width(&lag) <= columns {
        line.push_span(lag);
    }
    line
}

/// The contents and size of the daemon's memory: rows, words, reports.
pub(super) fn held(sample: &Sample) -> [String; 3] {
    let counted = |name: &'static str, what| counted(sample.number(name) as u64, what);
    [
        [counted("request_rows", "request"), counted("timer_rows", "timer")].join(", "),
        counted("dictionary_size", "word"),
        format!(
            "reports {} of {}",
            bytes(sample.number("report_memory_bytes")),
            bytes(sample.number("report_memory_bytes_max"))
        ),
    ]
}

/// Two sparklines side by side, by steps of the same length.
fn past(sample: &Sample, columns: usize) -> Line<'static> {
    const NOW_COLUMNS: usize = 10;
    let step = format!("{}: ", by(sample.step_secs));
    let half = columns.saturating_sub(2 + width(&step)) / 2;
    let part = |name: &'static str, values: &[Option<f64>], format: fn(f64) -> String, colour| {
        // The newest step of several seconds may not be over.
        let unfinished = usize::from(sample.step_secs > 1);
        let values = &values[..values.len().saturating_sub(unfinished)];
        let now = values.last().copied().flatten().map_or_else(|| "-".to_owned(), format);
        let blocks = half.saturating_sub(width(name) + 1 + NOW_COLUMNS);
        [
            Span::raw(format!("{name} ")),
            Span::styled(sparkline(values, blocks), Style::new().fg(colour)),
            Span::raw(fit(&format!(" {now}"), NOW_COLUMNS)),
        ]
    };
    let requests = part("req/s", &sample.requests, number, Color::Green);
    let latency = part("p95", &sample.latency, secs, Color::Magenta);
    let (step, gap) = ([Span::raw(step)], [Span::raw("  ")]);
    step.into_iter().chain(requests).chain(gap).chain(latency).collect()
}

/// The tables, or why there are none, in at most `room` lines. Also returns the number of rows of
/// the table in focus.
fn body(
    model: &mut Model,
    columns: usize,
    room: usize,
    lines: &mut Vec<Line<'static>>,
) -> Option<usize> {
    let above = lines.len();
    let (path, typing) = (model.path(), model.typing);
    let view = model.view_mut();
    if path.len() > 1 {
        lines.push(Line::styled(path.join(" > "), HEADING));
    }
    if let Some(why) = &view.refused {
        lines.push(Line::styled(why.clone(), ALARM));
    }
    let about = view.about.iter();
    lines.extend(about.map(|(name, text)| Line::raw(format!("{name:>12}  {text}"))));
    if view.tables.is_empty() && view.refused.is_none() {
        lines.push(Line::styled("Waiting for rows.", DIM));
    }
    lines.truncate(above + room);
    let mut room = room - (lines.len() - above);
    let View { tables, focus, .. } = view;
    let count = tables.len();
    let mut page_rows = None;
    for (at, table) in tables.iter_mut().enumerate() {
        let share = room / (count - at);
        let focused = at == *focus;
        let drawn = table_lines(table, columns, share, focused, typing && focused);
        if focused {
            page_rows = Some(share.saturating_sub(2).max(1));
        }
        room -= drawn.len();
        lines.extend(drawn);
    }
    page_rows
}

/// The lines of one table: title, headings, and rows from the offset on.
fn table_lines(
    table: &mut Table,
    columns: usize,
    height: usize,
    focused: bool,
    typing: bool,
) -> Vec<Line<'static>> {
    if height == 0 {
        return Vec::new();
    }
    let mut lines = Vec::with_capacity(height);
    let layout = Layout::new(table, columns);
    // With few lines the rows come first.
    if height > 3 {
        lines.push(caption(table, &layout, focused, typing));
    }
    if height > 1 {
        lines.push(Line::styled(layout.heading(table), HEADING));
    }
    let rows = height - lines.len();
    let furthest = table.rows().len().saturating_sub(rows);
    let first = (table.selected + 1).saturating_sub(rows);
    let last = table.selected.max(first);
    table.offset = table.offset.clamp(first, last).min(furthest);
    for (at, row) in table.rows().enumerate().skip(table.offset).take(rows) {
        let mut style = Style::new().fg(row.colour);
        if focused && at == table.selected {
            style = style.patch(SELECTED);
        }
        lines.push(Line::styled(fit(&layout.row(table, row), columns), style));
    }
    lines
}

fn caption(table: &Table, layout: &Layout, focused: bool, typing: bool) -> Line<'static> {
    let mut text = table.caption();
    if let Some(sort) = table.unknown_sort() {
        text.push_str(&format!("  there is no column {}", visible(sort)));
    }
    if typing || !table.filter.is_empty() {
        let cursor = if typing { "_" } else { "" };
        text.push_str(&format!("  filter: {}{cursor}", table.filter));
    }
    text += &layout.left_out(table);
    let style = if focused { Style::new().add_modifier(Modifier::BOLD) } else { DIM };
    Line::styled(text, style)
}

/// The keys that matter here.
fn keys(model: &Model) -> Line<'static> {
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
        let mut tables = view.tables.iter();
        if tables.any(|table| !table.content.choices.is_empty()) {
            keys.push(("t", "tags"));
        }
        if view.tables.len() > 1 {
            keys.push(("Tab", "table"));
        }
        keys.extend([("p", "pause"), ("+-", "pace"), ("1-7", "view")]);
    }
    let mut line = Line::default();
    for (at, (key, meaning)) in keys.into_iter().enumerate() {
        let gap = if at > 0 { "  " } else { "" };
        line.push_span(gap);
        line.push_span(Span::styled(key, SELECTED));
        line.push_span(Span::styled(format!(" {meaning}"), DIM));
    }
    line
}

#[cfg(test)]
mod tests;
