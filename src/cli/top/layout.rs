//! Fits columns into a width: which are shown, how wide each is, and the text of a row.
//!
//! Numbers take what they need; names share the rest, down to a smallest width; columns that do not
//! fit are dropped from the right, but never the sorted one. Names that would look alike once they
//! are cut are shown from about where they differ. Used by the screen and by the plain output.
//! Pure.

use std::collections::{BTreeSet, HashMap};

use super::cell::Unit;
use super::table::{Column, Row, Table};
use crate::cli::format::{CUT, cut_name, cut_tags, fit, fit_right, width};
use crate::value::text::Scale;

/// Blanks between columns.
const GAP: usize = 2;
/// Smallest width of a column of names, unless an eighth of the terminal is more. The first, which
/// identifies rows, keeps two fifths of the width before others are dropped for it, other keys
/// excepted.
const NAME_MIN: usize = 12;
/// Rows that determine the widths.
const LOOKED_AT: usize = 200;

/// The columns to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Number and width of each.
    pub columns: Vec<(usize, usize)>,
    /// By number of the column: the scale that its numbers share.
    scales: Vec<Option<Scale>>,
    /// By number of the column: of names that look alike when cut, the beginning they share.
    begins: HashMap<usize, HashMap<String, String>>,
}

impl Layout {
    /// Lays a table out in this many columns of the terminal.
    pub fn new(table: &Table, columns: usize) -> Self {
        let scales = scales(table);
        let natural = natural(table, &scales);
        let mut first = NAME_MIN.max(columns * 2 / 5);
        let least = |at: usize, first: usize| match table.content.columns[at].unit {
            Unit::Text if at == 0 => natural[at].min(first),
            Unit::Text => natural[at].min(NAME_MIN.max(columns / 8)),
            _ => natural[at],
        };
        let needed = |chosen: &[usize], first: usize| {
            let gaps = GAP * chosen.len().saturating_sub(1);
            chosen.iter().map(|at| least(*at, first)).sum::<usize>() + gaps
        };
        let sorted = table.sort().0;
        let mut chosen: Vec<usize> = (0..natural.len()).collect();
        while chosen.len() > 1 && needed(&chosen, first) > columns {
            // The last that is neither sorted nor the first, which names the row.
            let Some(out) = chosen.iter().rposition(|at| *at != sorted && *at != 0) else { break };
            if chosen[out] < table.content.keys && first > NAME_MIN {
                first = NAME_MIN;
            } else {
                chosen.remove(out);
            }
        }
        let mut left = columns.saturating_sub(needed(&chosen, first));
        let widths = chosen.iter().map(|at| {
            let least = least(*at, first);
            let more = left.min(natural[*at] - least);
            left -= more;
            (*at, least + more)
        });
        let columns: Vec<(usize, usize)> = widths.collect();
        let cut = columns.iter().filter(|(at, width)| {
            table.content.columns[*at].unit == Unit::Text && *width < natural[*at]
        });
        let begins = cut.map(|(at, width)| (*at, shared_begins(table, *at, *width))).collect();
        Self { columns, scales, begins }
    }

    /// How many columns of a table are shown, if there is no room for all; to follow its title.
    pub fn left_out(&self, table: &Table) -> String {
        let (shown, all) = (self.columns.len(), table.content.columns.len());
        if shown < all { format!("  {shown} of {all} columns") } else { String::new() }
    }

    /// The headings, with a mark at the sorted one.
    pub fn heading(&self, table: &Table) -> String {
        let (sorted, descending) = table.sort();
        self.line(table, |at| {
            let title = &table.content.columns[at].title;
            match at == sorted {
                true => format!("{}{title}", if descending { '▼' } else { '▲' }),
                false => title.clone(),
            }
        })
    }

    /// The text of a row.
    pub fn row(&self, table: &Table, row: &Row) -> String {
        self.line(table, |at| {
            let column = &table.content.columns[at];
            let value = &row.values[&column.name];
            column.unit.format_in(self.scales[at], value)
        })
    }

    fn line(&self, table: &Table, text: impl Fn(usize) -> String) -> String {
        let part = |(at, columns): &(usize, usize)| match table.content.columns[*at].unit {
            Unit::Text => {
                let text = text(*at);
                let cut = cut_tags(&text, *columns);
                let begin = self.begins.get(at).and_then(|begins| begins.get(&*cut));
                match begin.and_then(|begin| text.strip_prefix(begin.as_str())) {
                    Some(end) => fit(&format!("{CUT}{}", cut_name(end, columns - 1)), *columns),
                    None => fit(&cut, *columns),
                }
            }
            _ => fit_right(&text(*at), *columns),
        };
        let parts: Vec<String> = self.columns.iter().map(part).collect();
        parts.join(&" ".repeat(GAP))
    }
}

/// The beginnings that different names of a column share, by what they all are when cut to that
/// width. The part of the path in which they differ is not in it, unless that is long.
fn shared_begins(table: &Table, at: usize, columns: usize) -> HashMap<String, String> {
    let column = &table.content.columns[at];
    let rows = table.rows().take(LOOKED_AT);
    let names: BTreeSet<String> =
        rows.map(|row| column.unit.format(&row.values[&column.name])).collect();
    let mut alike: HashMap<String, Vec<&str>> = HashMap::new();
    for name in names.iter().filter(|name| width(name) > columns) {
        alike.entry(cut_tags(name, columns).into_owned()).or_default().push(name);
    }
    let begin = |names: &[&str]| {
        let (first, last) = (names.first()?, names.last()?);
        let mut pairs = first.char_indices().zip(last.chars());
        // They are in order, so the outer ones share least.
        let ((differ, _), _) = pairs.find(|((_, a), b)| a != b)?;
        let begin = &first[..differ];
        let part = begin.rfind('/').filter(|part| width(&begin[*part..]) <= columns / 4);
        Some(begin[..part.unwrap_or(differ)].to_owned())
    };
    alike.into_iter().filter_map(|(cut, names)| Some((cut, begin(&names)?))).collect()
}

/// The scale of each column that has one.
fn scales(table: &Table) -> Vec<Option<Scale>> {
    let scale = |column: &Column| {
        let rows = table.rows().take(LOOKED_AT);
        let numbers = rows.filter_map(|row| row.values[&column.name].as_f64());
        column.unit.scale(numbers)
    };
    table.content.columns.iter().map(scale).collect()
}

/// The natural width of each column.
fn natural(table: &Table, scales: &[Option<Scale>]) -> Vec<usize> {
    let widest = |(column, scale): (&Column, &Option<Scale>)| {
        let rows = table.rows().take(LOOKED_AT);
        let text = |row: &Row| column.unit.format_in(*scale, &row.values[&column.name]);
        let widths = rows.map(|row| width(&text(row)));
        // Room for the mark of the sorted column.
        widths.fold(width(&column.title) + 1, usize::max)
    };
    table.content.columns.iter().zip(scales).map(widest).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::top::table::Content;

    fn table() -> Table {
        let mut table = Table::default();
        table.take(Content {
            columns: Column::known_but(
                &[],
                &[
                    ("script_name", "script", Unit::Text),
                    ("req_count", "count", Unit::Count),
                    ("req_time_total", "total", Unit::Seconds),
                    ("tags", "tags", Unit::Text),
                ],
            ),
            rows: vec![Row {
                values: json!({"script_name": "/catalog/a-long-name/search.php", "req_count": 1234,
                    "req_time_total": 1.5, "tags": "x"}),
                ..Row::default()
            }],
            sort: "req_time_total".to_owned(),
            ..Content::default()
        });
        table
    }

    fn shown(columns: usize) -> (String, String) {
        let table = table();
        let layout = Layout::new(&table, columns);
        let row = table.rows().next().unwrap();
        (layout.heading(&table), layout.row(&table, row))
    }

    #[test]
    fn all_of_it_where_there_is_room() {
        let (heading, row) = shown(100);
        assert_eq!(heading, "script                            count  ▼total  tags ");
        assert_eq!(row, "/catalog/a-long-name/search.php   1,234  1.50 s  x    ");
        let table = table();
        let left_out = |columns| Layout::new(&table, columns).left_out(&table);
        assert_eq!([100, 22].map(left_out), ["", "  2 of 4 columns"]);
    }

    #[test]
    fn names_that_look_alike_when_cut_show_where_they_differ() {
        let mut table = table();
        let mut content = table.content.clone();
        let row = content.rows.remove(0);
        for product in ["AAAA", "BBBB", "BBBBB"] {
            let name = format!("/shop/catalog/international/product-{product}/handler/of/two.php");
            let mut row = row.clone();
            row.values["script_name"] = json!(name);
            content.rows.push(row);
        }
        table.take(content);
        let layout = Layout::new(&table, 60);
        let shown = table.rows().map(|row| layout.row(&table, row));
        let mut shown: Vec<String> = shown.collect();
        assert!(shown.iter().all(|row| width(row) == 60), "{shown:#?}");
        assert!(shown[0].starts_with("…/product-AAAA"), "{shown:#?}");
        shown.dedup();
        assert_eq!(shown.len(), 3, "{shown:#?}");
    }

    #[test]
    fn a_column_has_one_unit() {
        let mut table = table();
        let mut content = table.content.clone();
        for secs in [0.001_02, 0.000_998] {
            content.rows[0].values["req_time_total"] = json!(secs);
            content.rows.push(content.rows[0].clone());
        }
        content.rows.remove(0);
        table.take(content);
        let layout = Layout::new(&table, 100);
        let shown: Vec<String> = table.rows().map(|row| layout.row(&table, row)).collect();
        assert_eq!(shown.len(), 2);
        assert!(shown.iter().all(|row| row.contains(" ms")), "{shown:?}");
    }

    #[test]
    fn a_wide_terminal_leaves_out_columns_before_it_cuts_names() {
        let counts: Vec<String> = (0..20).map(|at| format!("count_{at}")).collect();
        let mut columns =
            vec![("script_name", "script", Unit::Text), ("server_name", "server", Unit::Text)];
        columns.extend(counts.iter().map(|it| (it.as_str(), it.as_str(), Unit::Count)));
        let mut values = json!({"script_name": "/x", "server_name": "api.example.com"});
        for count in &counts {
            values[count.as_str()] = json!(1234);
        }
        let mut table = Table::default();
        table.take(Content {
            columns: Column::known_but(&[], &columns),
            rows: vec![Row { values, ..Row::default() }],
            sort: "count_0".to_owned(),
            ..Content::default()
        });
        let row = |columns| {
            let row = table.rows().next().unwrap();
            Layout::new(&table, columns).row(&table, row)
        };
        assert!(row(160).contains("api.example.com"), "{}", row(160));
        assert!(row(80).contains("api.example.com"), "{}", row(80));
        assert!(row(80).len() < row(160).len(), "{}", row(80));
    }

    #[test]
    fn the_first_key_gives_way_to_the_others() {
        let mut table = table();
        let keys = ["group", "operation", "server", "table"];
        let texts = keys.map(|key| (key, key, Unit::Text));
        table.content.columns.splice(1..1, Column::known_but(&[], &texts));
        for key in keys {
            table.content.rows[0].values[key] = json!("a value");
        }
        let shown = |table: &Table| Layout::new(table, 70).columns.len();
        assert_eq!(shown(&table), 5, "too few");
        table.content.keys = 5;
        assert_eq!(shown(&table), 6);
    }

    #[test]
    fn names_give_way_then_columns_but_not_the_sorted_one() {
        assert_eq!(shown(40).1, "/catalog…arch.php   1,234  1.50 s  x    ");
        assert_eq!(shown(30).1, "/catal…rch.php   1,234  1.50 s");
        assert_eq!(shown(22).1, "/catal…rch.php  1.50 s");
        for columns in 0..120 {
            let (heading, row) = shown(columns);
            assert_eq!(width(&heading), width(&row), "{columns}");
            assert!(columns < 20 || width(&row) <= columns, "{columns}: {row:?}");
            assert!(heading.contains("▼total"), "{columns}");
        }
    }
}
