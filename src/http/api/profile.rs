//! `GET /api/v1/profile`: what PHP was running, as stacks with their numbers of samples.
//!
//! For PHP code a stack has its script, function and line; for a built-in function its script,
//! caller and function. A sample has no deeper one. The page draws the same [`Tree`].

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::search::sample_conditions;
use crate::http::answer::format::{Answer, ok};
use crate::http::answer::json as write;
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::{Params, limited};
use crate::profile::definition::SampleKey;
use crate::query::answer::ReportAnswer;

/// Stacks listed by default, and most.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 10_000;

/// The keys of stacks.
pub(in crate::http) const STACK_KEYS: [SampleKey; 7] = [
    SampleKey::Type,
    SampleKey::Script,
    SampleKey::Scope,
    SampleKey::Function,
    SampleKey::File,
    SampleKey::Line,
    SampleKey::Caller,
];

/// `GET /api/v1/profile`
pub(in crate::http) async fn read(State(app): State<Arc<App>>, mut params: Params) -> Answer {
    let limit = limited(params.count("limit", LIMIT_DEFAULT)?, LIMIT_MAX, "", "")?;
    let filters = sample_conditions(&mut params);
    params.finish()?;
    let body = app.query(move |source| {
        let none = || Problem::not_found("no samples are taken: [[stat]] does that");
        let answer = source.samples(&STACK_KEYS, &filters)?.ok_or_else(none)?;
        let tree = Tree::of(&answer);
        let mut stacks = tree.stacks();
        stacks.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        let listed = stacks.iter().take(limit);
        let listed = listed.map(|(frames, samples)| json!({"frames": frames, "samples": samples}));
        Ok(json!({
            "window_seconds": write::number(answer.window_seconds),
            "covered_seconds": source.covered_secs(&answer),
            "samples": tree.root.samples,
            "idle": tree.idle,
            "total_stacks": stacks.len(),
            "stacks": listed.collect::<Vec<_>>(),
        }))
    });
    ok(body.await?)
}

/// Samples as a tree of three layers.
#[derive(Debug, Default)]
pub(in crate::http) struct Tree {
    pub(in crate::http) root: Node,
    /// Samples with nothing running, which are left out.
    pub(in crate::http) idle: u64,
}

#[derive(Debug, Default)]
pub(in crate::http) struct Node {
    pub(in crate::http) samples: u64,
    pub(in crate::http) below: BTreeMap<Frame, Node>,
}

/// The script, function or line of a node. Functions of different files may have one name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::http) struct Frame {
    pub(in crate::http) name: String,
    /// Whether it is a built-in function.
    pub(in crate::http) is_internal: bool,
    /// Conditions that of the samples of the node above only its own meet.
    pub(in crate::http) keys: Vec<(&'static str, String)>,
}

impl Tree {
    pub(in crate::http) fn of(answer: &ReportAnswer) -> Self {
        let mut tree = Self::default();
        let rows = &*answer.table;
        for row in 0..rows.len() {
            let text = |at: usize| rows.value(row, at).plain();
            let samples = rows.value(row, STACK_KEYS.len()).number().unwrap_or(0.0) as u64;
            let [kind, script, scope, function, file, line, caller] =
                [0, 1, 2, 3, 4, 5, 6].map(text);
            let name = match (scope.as_str(), function.as_str()) {
                ("", "{main}") => format!("{{main}} {file}"),
                ("", "") => "(unknown)".to_owned(),
                ("", function) => function.to_owned(),
                (scope, function) => format!("{scope}::{function}"),
            };
            let path = match kind.as_str() {
                "memory" => {
                    tree.idle += samples;
                    continue;
                }
                "internal" => {
                    let shown = if caller.is_empty() { "(unknown caller)" } else { &caller };
                    let (shown, caller) = (shown.to_owned(), ("caller", caller));
                    [
                        (shown, false, vec![("type", kind), caller]),
                        (name, true, vec![("scope", scope), ("function", function)]),
                    ]
                }
                _ => {
                    let (file, shown) = (("file", file), format!("line {line}"));
                    let keys = vec![("type", kind), ("scope", scope), ("function", function), file];
                    [(name, false, keys), (shown, false, vec![("line", line)])]
                }
            };
            tree.root.samples += samples;
            let script = (script.clone(), false, vec![("script", script)]);
            let mut node = &mut tree.root;
            for (name, is_internal, keys) in [script].into_iter().chain(path) {
                node = node.below.entry(Frame { name, is_internal, keys }).or_default();
                node.samples += samples;
            }
        }
        tree
    }

    /// The paths by name, in the order of their names, each with its number of samples.
    pub(in crate::http) fn stacks(&self) -> Vec<(Vec<&str>, u64)> {
        let mut stacks = BTreeMap::new();
        self.root.add_to(&mut Vec::new(), &mut stacks);
        stacks.into_iter().collect()
    }

    /// A line per path: frames separated by semicolons, and the number of samples.
    pub(in crate::http) fn folded(&self) -> String {
        let line = |(frames, samples): (Vec<&str>, u64)| {
            let frames = frames.iter().map(|it| it.replace([';', '\n', '\r'], ","));
            format!("{} {samples}\n", frames.collect::<Vec<_>>().join(";"))
        };
        self.stacks().into_iter().map(line).collect()
    }
}

impl Node {
    /// Adds the paths that begin with `path` and end below this node.
    fn add_to<'t>(&'t self, path: &mut Vec<&'t str>, stacks: &mut BTreeMap<Vec<&'t str>, u64>) {
        if self.below.is_empty() && !path.is_empty() {
            *stacks.entry(path.clone()).or_default() += self.samples;
        }
        for (frame, child) in &self.below {
            path.push(shown(&frame.name));
            child.add_to(path, stacks);
            path.pop();
        }
    }
}

/// The name of a node for people.
pub(in crate::http) fn shown(name: &str) -> &str {
    if name.is_empty() { "(no script)" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::table::Rows;
    use crate::value::{Column, ColumnType, Unit, Value};

    /// Samples with these keys, in the order of [`STACK_KEYS`].
    fn answer(samples: &[([&str; 7], i64)]) -> ReportAnswer {
        let keys = STACK_KEYS.map(|key| Column::new(key.name(), ColumnType::Text, Unit::None));
        let number = Column::new("samples", ColumnType::BigInt, Unit::None);
        let row = |(keys, samples): &([&str; 7], i64)| {
            let texts = keys.iter().map(|text| Value::Text((*text).to_owned().into()));
            texts.chain([Value::Int(*samples)]).collect()
        };
        let columns: Vec<Column> = keys.into_iter().chain([number]).collect();
        ReportAnswer {
            window_seconds: 60.0,
            covered_seconds: 60,
            as_of_ms: 0,
            key_columns: (0..STACK_KEYS.len()).collect(),
            table: Box::new(Rows {
                columns: columns.into(),
                rows: samples.iter().map(row).collect(),
            }),
            of_span: None,
            partial: Vec::new(),
        }
    }

    static SAMPLES: [([&str; 7], i64); 10] = [
        (["user", "/a", "", "{closure}", "/one.php", "3", ""], 1),
        (["user", "/a", "", "{closure}", "/two.php", "3", ""], 2),
        (["user", "/a", "", "", "", "", ""], 4),
        (["internal", "/a", "", "", "", "", ""], 8),
        (["internal", "/a", "", "total", "", "", "{main} /a"], 16),
        (["internal", "/a", "Cart", "total", "", "", "{main} /a"], 32),
        (["internal", "/a", "", "total", "", "", ""], 64),
        (["user", "", "Cart", "total", "/one.php", "3", ""], 128),
        (["user", "", "", "total", "/one.php", "3", ""], 256),
        (["memory", "/a", "", "(idle)", "", "", ""], 512),
    ];

    /// Asserts that the keys of each box below a node are those of its samples alone.
    fn assert_keys(node: &Node, above: &[(&'static str, String)], boxes: &mut usize) {
        for (frame, child) in &node.below {
            let keys = [above, &frame.keys].concat();
            let value = |row: &[&'static str; 7], name: &str| {
                let at = STACK_KEYS.iter().position(|key| key.name() == name);
                row[at.unwrap()]
            };
            let is_there = |row: &[&'static str; 7]| {
                row[0] != "memory" && keys.iter().all(|(name, text)| value(row, name) == text)
            };
            let there = SAMPLES.iter().filter(|(row, _)| is_there(row));
            let there: i64 = there.map(|(_, samples)| *samples).sum();
            assert_eq!(u64::try_from(there), Ok(child.samples), "{keys:?}");
            *boxes += 1;
            assert_keys(child, &keys, boxes);
        }
    }

    #[test]
    fn a_box_has_the_conditions_of_its_own_samples() {
        let tree = Tree::of(&answer(&SAMPLES));
        assert_eq!((tree.root.samples, tree.idle), (511, 512));
        let mut boxes = 0;
        assert_keys(&tree.root, &[], &mut boxes);
        assert_eq!(boxes, 2 + (3 + 2) + 2 + (3 + 4) + 2);
        // Names alone tell no two closures apart.
        let stacks = tree.stacks();
        assert_eq!(stacks.iter().map(|(_, samples)| samples).sum::<u64>(), 511);
        let closure = (vec!["/a", "{closure}", "line 3"], 3);
        assert!(stacks.contains(&closure), "{stacks:?}");
    }
}
