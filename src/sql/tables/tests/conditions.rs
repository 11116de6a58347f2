//! Compares conditions tested by a scan with the same conditions above it, over random statements.

use super::*;
use crate::dice::Dice;

/// The material of conditions: a table, its columns by kind, and existing values.
struct Ground {
    table: &'static str,
    ints: &'static [(&'static str, i64, i64)],
    floats: &'static [(&'static str, f64)],
    texts: &'static [(&'static str, &'static [&'static str])],
}

const HOSTS: &[&str] = &["web-004.fra1.dc.example.net", "web-001.fra1.dc.example.net", "web", ""];

const SERVERS: &[&str] =
    &["www.shop.example.com", "blog.shop.example.com", "shop.example.com", "x"];

const SCHEMAS: &[&str] = &["https", "http", "ftp"];

const TAGS: &[&str] = &["env=staging", "env=production", "env", ""];

const GROUNDS: [Ground; 5] = [
    Ground {
        table: "request",
        ints: &[
            ("id", 250, 610),
            ("timestamp", 1_700_000_001, 1_700_000_008),
            ("status", 199, 505),
            ("tags_cnt", 0, 2),
            ("timers_cnt", 2, 4),
            ("req_count", 0, 3),
        ],
        floats: &[
            ("req_time", 0.1),
            ("doc_size", 20.0),
            ("ru_utime", 0.02),
            ("mem_peak_usage", 9000.0),
        ],
        texts: &[
            ("hostname", HOSTS),
            ("server_name", SERVERS),
            ("schema", SCHEMAS),
            ("tags", TAGS),
        ],
    },
    Ground {
        table: "timer",
        ints: &[("id", 750, 1_850), ("request_id", 250, 610), ("hit_count", 0, 4)],
        floats: &[("value", 0.01)],
        texts: &[],
    },
    Ground {
        table: "timertag",
        ints: &[("timer_id", 750, 1_850), ("tag_id", 0, 60)],
        floats: &[],
        texts: &[("value", &["mysql", "www", "db-01", "memcache", "server-0001"])],
    },
    Ground {
        table: "tag",
        ints: &[("id", 0, 60)],
        floats: &[],
        texts: &[("name", &["group", "server", "env"])],
    },
    Ground {
        table: "request_tag",
        ints: &[("request_id", 250, 610)],
        floats: &[],
        texts: &[("name", &["env", "release"]), ("value", &["staging", "production", "p"])],
    },
];

fn condition(dice: &mut Dice, ground: &Ground) -> String {
    let kinds = [ground.ints.len(), ground.floats.len(), ground.texts.len()];
    let at = dice.index(kinds.iter().sum());
    if at < kinds[0] {
        let (column, low, high) = ground.ints[at];
        let mut number = || low + dice.index((high - low) as usize) as i64;
        let (a, b, c) = (number(), number(), number());
        return match dice.index(8) {
            0 => format!("{column} = {a}"),
            1 => format!("{column} <> {a}"),
            2 => format!("{a} <= {column}"),
            3 => format!("{column} < {a}"),
            4 => format!("{column} BETWEEN {} AND {}", a.min(b), a.max(b)),
            5 => format!("{column} IN ({a}, {b}, {c})"),
            6 => format!("{column} NOT IN ({a}, {b})"),
            _ => format!("({column} = {a} OR {column} > {b})"),
        };
    }
    if at < kinds[0] + kinds[1] {
        let (column, around) = ground.floats[at - kinds[0]];
        let bound = around * (dice.index(30) as f64 / 10.0);
        return match dice.index(4) {
            0 => format!("{column} > {bound}"),
            1 => format!("{column} <= {bound}"),
            2 => format!("{column} BETWEEN {} AND {bound}", bound / 2.0),
            _ => format!("NOT {column} < {bound}"),
        };
    }
    let (column, values) = ground.texts[at - kinds[0] - kinds[1]];
    let (a, b) = (*dice.pick(values), *dice.pick(values));
    match dice.index(11) {
        0 => format!("{column} = '{a}'"),
        1 => format!("{column} <> '{a}'"),
        2 => format!("{column} IN ('{a}', '{b}')"),
        3 => format!("{column} NOT IN ('{a}', '{b}')"),
        4 => format!("{column} LIKE '{a}%'"),
        5 => format!("{column} NOT LIKE '%{a}'"),
        6 => format!("{column} LIKE '%{a}%'"),
        7 => format!("{column} >= '{a}'"),
        8 => format!("{column} IS NULL"),
        9 => format!("{column} IS NOT NULL"),
        _ => format!("{column} LIKE '{a}_%'"),
    }
}

/// A scan passes exactly the rows that DataFusion's filter passes.
#[test]
fn conditions_in_the_scan_are_those_above_it() {
    let mut pools = Pools::new(400, 1_000);
    pools.fill(&traffic(), 600);
    for threads in [1, 3] {
        let asked = Asked::new(&pools, threads);
        let mut dice = Dice(threads as u64);
        let mut found = 0;
        for round in 0..100 {
            let ground = &GROUNDS[round % GROUNDS.len()];
            let conditions: Vec<String> =
                (0..1 + dice.index(3)).map(|_| condition(&mut dice, ground)).collect();
            let all = conditions.join(" AND ");
            let table = ground.table;
            let pushed = asked.lines(&format!("SELECT * FROM {table} WHERE {all}"));
            let above =
                format!("SELECT * FROM {table} WHERE CASE WHEN {all} THEN 1 ELSE 0 END = 1");
            assert_eq!(pushed, asked.lines(&above), "{table} WHERE {all}");
            let count = asked.lines(&format!("SELECT count(*) FROM {table} WHERE {all}"));
            assert_eq!(count, [format!("| {} |", pushed.len())], "{table} WHERE {all}");
            found += usize::from(!pushed.is_empty());
        }
        assert!(found > 30, "{found}");
    }
}
