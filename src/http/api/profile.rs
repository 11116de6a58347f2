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
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::Params;
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
    let limit = match params.count("limit", LIMIT_DEFAULT)? {
        0 => LIMIT_MAX,
        limit if limit <= LIMIT_MAX => limit,
        limit => {
            let accepted = format!("up to {LIMIT_MAX} (0 means that many)");
            let why = format!("{limit} is too many; accepted: {accepted}");
            return Err(Problem::parameter("limit", why));
        }
    };
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
            "window_seconds": answer.window_seconds,
            "covered_seconds": answer.covered_seconds.max(1),
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
    /// Children by name, and whether it is a built-in function.
    pub(in crate::http) below: BTreeMap<(String, bool), Node>,
    /// The conditions for this node.
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
                    let caller = (shown.to_owned(), false, vec![("caller", caller.clone())]);
                    [caller, (name, true, vec![("function", function)])]
                }
                _ => {
                    let keys = vec![("scope", scope), ("function", function), ("file", file)];
                    let line_keys = vec![("line", line.clone())];
                    [(name, false, keys), (format!("line {line}"), false, line_keys)]
                }
            };
            tree.root.samples += samples;
            let script = (script.clone(), false, vec![("script", script)]);
            let mut node = &mut tree.root;
            for (name, own, keys) in [script].into_iter().chain(path) {
                node = node.below.entry((name, own)).or_default();
                node.samples += samples;
                node.keys = keys;
            }
        }
        tree
    }

    /// The paths, in the order of their names, each with its number of samples.
    pub(in crate::http) fn stacks(&self) -> Vec<(Vec<&str>, u64)> {
        let mut stacks = Vec::new();
        self.root.add_to(&mut Vec::new(), &mut stacks);
        stacks
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
    fn add_to<'t>(&'t self, path: &mut Vec<&'t str>, stacks: &mut Vec<(Vec<&'t str>, u64)>) {
        if self.below.is_empty() && !path.is_empty() {
            stacks.push((path.clone(), self.samples));
        }
        for ((name, _), child) in &self.below {
            path.push(shown(name));
            child.add_to(path, stacks);
            path.pop();
        }
    }
}

/// The name of a node for people.
pub(in crate::http) fn shown(name: &str) -> &str {
    if name.is_empty() { "(no script)" } else { name }
}
