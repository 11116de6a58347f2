//! The tables in ClickHouse, and the statements that create them.
//!
//! Columns are only ever added: a table of an older pinbad gets the missing ones. Rows replace each
//! other by unit (store, minute, part) and key, so rows sent twice count once.

use std::sync::LazyLock;

use crate::history::Dataset;
use crate::report::layout::Measure;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// Its name.
    pub(super) name: &'static str,
    about: &'static str,
    /// Name and type there, including the codec.
    columns: &'static [(&'static str, &'static str)],
    partition: &'static str,
    order: &'static str,
    /// Retention and settings.
    more: &'static str,
    /// The sharding key: always the same for a row.
    shard: &'static str,
}

const REPORT: (&str, &str) = ("report", "LowCardinality(String)");
const DEFINITION: (&str, &str) = ("definition", "LowCardinality(String)");
const TIME: (&str, &str) = ("t", "DateTime('UTC') CODEC(Delta, ZSTD(1))");
const DC: (&str, &str) = ("dc", "LowCardinality(String)");
const COLLECTOR: (&str, &str) = ("collector", "LowCardinality(String)");
const STORE: (&str, &str) = ("store", "UUID");
const PART: (&str, &str) = ("part", "UInt32");

const SUM: &str = "UInt128 CODEC(ZSTD(1))";
const COUNT: &str = "UInt64 CODEC(T64, ZSTD(1))";
const OPTIONAL: &str = "Nullable(UInt64) CODEC(ZSTD(1))";

/// Gains of report keys by minute.
pub(super) const ROLLUP: Table = Table {
    name: "rollup",
    about: "What keys of reports gained, by the minute",
    columns: &[
        REPORT,
        DEFINITION,
        TIME,
        DC,
        COLLECTOR,
        STORE,
        PART,
        ("key", "Array(LowCardinality(String))"),
        ("other", "Bool"),
        ("req_count", COUNT),
        ("hit_count", SUM),
        ("error_count", COUNT),
        ("time_total_us", SUM),
        ("ru_utime_total_us", SUM),
        ("ru_stime_total_us", SUM),
        ("traffic_total", COUNT),
        ("memory_footprint_total", COUNT),
        ("unmeasured_count", SUM),
        ("time_min_us", OPTIONAL),
        ("time_max_us", OPTIONAL),
        ("memory_peak_max", OPTIONAL),
        ("has_histogram", "Bool"),
        ("histogram", "Map(UInt32, UInt64) CODEC(ZSTD(1))"),
    ],
    partition: "toYYYYMM(t)",
    order: "report, definition, t, dc, collector, store, part, other, key",
    more: "SETTINGS non_replicated_deduplication_window = 1000",
    shard: "cityHash64(store, part)",
};

/// The measures in column order, and whether these have 128 bits.
pub(super) static MEASURES: LazyLock<Vec<(Measure, bool)>> = LazyLock::new(|| {
    let measure = |(name, kind): &(&str, &str)| {
        let known = Measure::ALL.into_iter().find(|it| it.stored() == *name);
        known.map(|measure| (measure, *kind == SUM))
    };
    ROLLUP.columns.iter().filter_map(measure).collect()
});

/// Seconds counted per minute, by report.
pub(super) const COVERAGE: Table = Table {
    name: "coverage",
    about: "In how many seconds of a minute which reports were counted, busy or idle, and what was missed",
    columns: &[
        REPORT,
        DEFINITION,
        TIME,
        DC,
        COLLECTOR,
        STORE,
        PART,
        ("seconds", COUNT),
        ("missed_requests", COUNT),
        ("histograms_dropped", COUNT),
        ("keys_folded", COUNT),
        ("rows_lost", COUNT),
    ],
    order: "report, definition, t, dc, collector, store, part",
    ..ROLLUP
};

const NAME: &str = "LowCardinality(String)";
const TAGS: &str = "Map(LowCardinality(String), String) CODEC(ZSTD(1))";
const SIZE: &str = "UInt64 CODEC(T64, ZSTD(1))";
const TIMES: &str = "Array(UInt64) CODEC(ZSTD(1))";

/// Raw requests with their timers.
pub(super) const REQUEST: Table = Table {
    name: "request",
    about: "Raw requests as history keeps them, each with its timers; it stands for `weight` of them",
    columns: &[
        ("ts", "DateTime('UTC') CODEC(Delta, ZSTD(1))"),
        DC,
        COLLECTOR,
        STORE,
        PART,
        ("run", "UInt32"),
        ("id", "UInt64 CODEC(Delta, ZSTD(1))"),
        ("hostname", NAME),
        ("server_name", NAME),
        ("script_name", NAME),
        ("schema", NAME),
        ("status", "UInt32"),
        ("req_count", "UInt32"),
        ("req_time_us", SIZE),
        ("ru_utime_us", SIZE),
        ("ru_stime_us", SIZE),
        ("doc_size", SIZE),
        ("mem_peak", SIZE),
        ("memory_footprint", SIZE),
        ("weight", "Float64 CODEC(ZSTD(1))"),
        ("tags", TAGS),
        ("timers.value_us", TIMES),
        ("timers.hits", "Array(UInt32) CODEC(ZSTD(1))"),
        ("timers.ru_utime_us", TIMES),
        ("timers.ru_stime_us", TIMES),
        ("timers.tags", "Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1))"),
        ("unmeasured", "Bool"),
        ("timers.unmeasured", "Array(Bool) CODEC(ZSTD(1))"),
    ],
    partition: "toDate(ts)",
    order: "server_name, script_name, toStartOfFiveMinutes(ts), hostname, store, run, id",
    more: "TTL toDate(ts) + 30\nSETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 1000",
    shard: "cityHash64(store, run, id)",
};

/// All.
pub(super) const TABLES: [&Table; 3] = [&ROLLUP, &COVERAGE, &REQUEST];

impl Table {
    /// Whether it has the rows of a dataset; timers go with their requests.
    pub(super) fn has(&self, dataset: &Dataset) -> bool {
        let table = match dataset.is_raw() {
            _ if dataset.is_coverage() => COVERAGE.name,
            true => &dataset.report,
            false => ROLLUP.name,
        };
        self.name == table
    }

    /// Names and types to send: plain ones, which the server converts.
    pub(super) fn sent(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.columns.iter().map(|(name, type_name)| {
            let plain = type_name.split(" CODEC").next().unwrap_or_default();
            let plain = plain.replace("LowCardinality(String)", "String");
            (*name, plain.replace("('UTC')", ""))
        })
    }

    /// The statement before the rows.
    pub(super) fn insert(&self) -> String {
        let names: Vec<_> = self.columns.iter().map(|(name, _)| identifier(name)).collect();
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
        let made: Vec<_> = columns.iter().map(column).collect();
        all.push(format!(
            "CREATE TABLE IF NOT EXISTS {local}{on}\n(\n    {}\n)\nENGINE = {engine}\n\
             PARTITION BY {partition}\nORDER BY ({order})\n{more}\nCOMMENT '{about}'",
            made.join(",\n    ")
        ));
        // Columns in ORDER BY existed from the start.
        let is_key = |name: &str| order.split(", ").any(|it| it == name);
        let added = columns.iter().filter(|(name, _)| !is_key(name));
        let added = added.map(|it| format!("ADD COLUMN IF NOT EXISTS {}", column(it)));
        let added = added.collect::<Vec<_>>().join(",\n    ");
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

/// A name in a statement.
pub(super) fn identifier(name: &str) -> String {
    format!("`{name}`")
}

/// A text in a statement.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
