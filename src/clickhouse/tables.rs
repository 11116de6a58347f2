//! The tables in ClickHouse, and the statements that create them.
//!
//! Columns are only ever added: a table of an older pinbad gets the missing ones. Rows replace each
//! other by unit (store, minute, part) and key, so rows sent twice count once.

use super::rows::{self, Column};
use crate::history::Dataset;
use crate::value::text::joined;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name.
    pub(super) name: &'static str,
    about: &'static str,
    /// Name and type there, including the codec.
    columns: fn() -> Vec<(&'static str, &'static str)>,
    partition: &'static str,
    order: &'static str,
    /// Retention and settings.
    more: &'static str,
    /// The sharding key: always the same for a row.
    shard: &'static str,
}

/// Gains of report keys by minute.
pub(super) const ROLLUP: Table = Table {
    name: "rollup",
    about: "What keys of reports gained, by the minute",
    columns: || [&rows::REPORT[..], &rows::ROLLUP].map(names_and_types).concat(),
    partition: "toYYYYMM(t)",
    order: "report, definition, t, dc, collector, store, part, other, key",
    more: "SETTINGS non_replicated_deduplication_window = 1000",
    shard: "cityHash64(store, part)",
};

/// Seconds counted per minute, by report.
pub(super) const COVERAGE: Table = Table {
    name: "coverage",
    about: "In how many seconds of a minute which reports were counted, busy or idle, and what was missed",
    columns: || [&rows::REPORT[..], &rows::COVERAGE].map(names_and_types).concat(),
    order: "report, definition, t, dc, collector, store, part",
    ..ROLLUP
};

/// Raw requests with their timers.
pub(super) const REQUEST: Table = Table {
    name: "request",
    about: "Raw requests as history keeps them, each with its timers; it stands for `weight` of them",
    columns: || names_and_types(&rows::REQUEST),
    partition: "toDate(ts)",
    order: "server_name, script_name, toStartOfFiveMinutes(ts), hostname, store, run, id",
    more: "TTL toDate(ts) + 30\nSETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000",
    shard: "cityHash64(store, run, id)",
};

fn names_and_types<V>(of: &[Column<V>]) -> Vec<(&'static str, &'static str)> {
    of.iter().map(|column| (column.0, column.1)).collect()
}

/// All.
pub(super) const TABLES: [&Table; 3] = [&ROLLUP, &COVERAGE, &REQUEST];

impl Table {
    /// Whether it has the rows of a dataset; timers go with their requests.
    pub(super) fn has(&self, dataset: &Dataset) -> bool {
        // Those of no report have tables of their names.
        self.name == if dataset.hash.is_empty() { &*dataset.report } else { ROLLUP.name }
    }

    /// Names and types to send: plain ones, which the server converts.
    pub(super) fn sent(&self) -> impl Iterator<Item = (&'static str, String)> {
        (self.columns)().into_iter().map(|(name, type_name)| {
            let plain = type_name.split(" CODEC").next().unwrap_or_default();
            (name, plain.replace("LowCardinality(String)", "String").replace("('UTC')", ""))
        })
    }

    /// The statement before the rows.
    pub(super) fn insert(&self) -> String {
        let names: Vec<_> = self.sent().map(|(name, _)| identifier(name)).collect();
        format!("INSERT INTO {} ({}) FORMAT Native", self.name, names.join(", "))
    }
}

/// The statements that create the database and its tables, and add missing columns: for one server,
/// or for the cluster of this name.
pub(crate) fn statements(database: &str, cluster: Option<&str>) -> Vec<String> {
    let on = on_cluster(cluster);
    let mut all = vec![format!("CREATE DATABASE IF NOT EXISTS {database}{on}")];
    for Table { name, about, columns, partition, order, more, shard } in TABLES {
        let whole = format!("{database}.{name}");
        let (local, engine) = match cluster {
            None => (whole.clone(), "ReplacingMergeTree"),
            Some(_) => (
                format!("{whole}_local"),
                "ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}')",
            ),
        };
        let column = |(name, kind): &(&str, &str)| format!("{} {kind}", identifier(name));
        let columns = columns();
        let made = joined(columns.iter().map(column), ",\n    ");
        all.push(format!(
            "CREATE TABLE IF NOT EXISTS {local}{on}\n(\n    {made}\n)\nENGINE = {engine}\n\
             PARTITION BY {partition}\nORDER BY ({order})\n{more}\nCOMMENT '{about}'"
        ));
        // Columns in ORDER BY existed from the start.
        let is_key = |name: &str| order.split(", ").any(|it| it == name);
        let added = columns.iter().filter(|(name, _)| !is_key(name)).map(column);
        let added = joined(added.map(|it| format!("ADD COLUMN IF NOT EXISTS {it}")), ",\n    ");
        all.push(format!("ALTER TABLE {local}{on}\n    {added}"));
        if let Some(cluster) = cluster {
            let cluster = quoted(cluster);
            all.push(format!(
                "CREATE TABLE IF NOT EXISTS {whole}{on} AS {local}\n\
                 ENGINE = Distributed({cluster}, {database}, {name}_local, {shard})"
            ));
            all.push(format!("ALTER TABLE {whole}{on}\n    {added}"));
        }
    }
    all
}

/// The end of a statement's first line for a cluster, if there is one.
pub(super) fn on_cluster(cluster: Option<&str>) -> String {
    cluster.map_or_else(String::new, |it| format!(" ON CLUSTER {}", quoted(it)))
}

/// A name in a statement: those of keys may have any character.
pub(super) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

/// A text in a statement.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
