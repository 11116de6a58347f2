//! Random texts: sequences of SQL's words, and users' statements, cut and mixed.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::cli::load::TrafficOptions;
use crate::config::{Config, SqlConfig};
use crate::sql::tests::pools::Pools;

/// The statements that are compared with MariaDB's answers, without their marks.
const CORPUS: &str = include_str!("../../../sql/corpus.sql");

fn corpus() -> impl Iterator<Item = &'static str> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let statements = lines.map(|line| line.trim_start_matches(['~', '!']));
    statements.filter(|statement| !statement.is_empty())
}

/// Statements that succeed.
const STATEMENTS: [&str; 16] = [
    "SELECT server_name, script_name, status, max(hostname) AS hostname, count(*) AS count FROM request WHERE status >= 500 GROUP BY server_name, script_name, status",
    "SELECT \"srv\" AS s, (SELECT r.req_time FROM request r WHERE r.server_name = r2.server_name ORDER BY r.req_time DESC LIMIT 3, 1) as p, max(req_time) FROM request r2 WHERE r2.hostname = \"h\"",
    "SELECT LEFT(hostname,64), CASE WHEN TRIM(CONVERT(p90, CHAR)) REGEXP '^[0-9.]+$' AND ABS(CAST(TRIM(CONVERT(p90, CHAR)) AS DOUBLE)) < 3.4e38 THEN LEAST(GREATEST(p90, 0), 1) ELSE NULL END AS p90 FROM report_by_hostname",
    "SELECT * FROM (SELECT ROW_NUMBER() OVER (PARTITION BY r.server_name ORDER BY r.req_time DESC, r.id DESC) AS rn, r.* FROM request r) q WHERE rn = 1 ORDER BY req_time DESC LIMIT 10",
    "SELECT t.id, tag.name as tag_name, tt.value FROM timer t JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id WHERE t.request_id IN (1, 2, '3')",
    "SELECT timestamp DIV 60 * 60 AS \"time\", avg(req_time) FROM request WHERE timestamp >= 1 AND timestamp <= 2 GROUP BY 1 ORDER BY 1",
    "select script, req_time_total/req_count as time_avg from pinba.report_by_script_name HAVING time_avg > 0.1",
    "SELECT @@session.auto_increment_increment AS a, @@character_set_client, @x",
    "SELECT GROUP_CONCAT(DISTINCT a ORDER BY a DESC SEPARATOR '-') FROM t LOCK IN SHARE MODE",
    "SELECT DATE_FORMAT(FROM_UNIXTIME(timestamp), '%Y-%m-%d') d, UNIX_TIMESTAMP(d + INTERVAL 5 MINUTE) FROM request USE INDEX (a, b)",
    "SELECT `a``b`, 'it''s', \"q\\\"\", x'41', 1.5e3, .5, -1, !a, ~b, a <=> NULL FROM DUAL",
    "WITH x AS (SELECT 1 a UNION ALL SELECT 2) SELECT a, sum(a) OVER w FROM x WINDOW w AS (ORDER BY a)",
    "SELECT (1, 2) IN ((1, 2), (3, 4)), a BETWEEN 1 AND 2, b NOT LIKE 'a!%' ESCAPE '!', EXTRACT(HOUR FROM x) LIMIT ?, ?",
    "SHOW FULL COLUMNS FROM `t` FROM pinba LIKE 'a%'",
    "SET NAMES 'utf8mb4', autocommit = 1, @x := (1 + 2)",
    "/*!40001 SELECT */ SQL_NO_CACHE * FROM t WHERE EXISTS (SELECT 1) ; ; -- end",
];

const WORDS: [&str; 60] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "UNION ALL",
    "JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "(",
    ")",
    ",",
    "*",
    "+",
    "-",
    "/",
    "DIV",
    "%",
    "=",
    "<=>",
    "<",
    "'",
    "\"",
    "`",
    "a",
    "b.c",
    "1",
    "2.5",
    "1e9",
    "'x'",
    "?",
    "@v",
    "@@sql_mode",
    "count(*)",
    "max(a)",
    "IN",
    "BETWEEN",
    "LIKE",
    "REGEXP",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST(",
    "AS CHAR",
    "INTERVAL",
    "DAY",
    "/*!",
    "*/",
    "--",
    "#",
    ";",
    "é",
    "\\",
    "\0",
];

/// Texts from one seed.
fn texts(seed: u64, count: usize) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(seed);
    let known: Vec<&str> = STATEMENTS.into_iter().chain(corpus()).collect();
    let mut texts = Vec::with_capacity(count);
    while texts.len() < count {
        let text = match random.random_range(0..3) {
            0 => {
                let words = random.random_range(1..40);
                let soup = (0..words).map(|_| WORDS[random.random_range(0..WORDS.len())]);
                format!("SELECT {}", soup.collect::<Vec<_>>().join(" "))
            }
            1 => {
                let from = known[random.random_range(0..known.len())];
                let mut signs: Vec<char> = from.chars().collect();
                for _ in 0..random.random_range(1..6) {
                    let at = random.random_range(0..signs.len());
                    match random.random_range(0..3) {
                        0 => {
                            signs.remove(at);
                        }
                        1 => signs.insert(at, char::from(random.random_range(32..127_u8))),
                        _ => signs.truncate(at.max(8)),
                    }
                }
                signs.into_iter().collect()
            }
            _ => {
                let piece = |random: &mut StdRng| {
                    let words: Vec<&str> =
                        known[random.random_range(0..known.len())].split(' ').collect();
                    let start = random.random_range(0..words.len());
                    let end = random.random_range(start..words.len());
                    words[start..=end].join(" ")
                };
                let (left, right) = (piece(&mut random), piece(&mut random));
                let word = WORDS[random.random_range(0..WORDS.len())];
                format!("SELECT {left} {word} {right}")
            }
        };
        texts.push(text);
    }
    texts
}

#[test]
fn statements_of_users_are_fit() {
    for statement in STATEMENTS {
        let fit = fuzz_text(statement);
        let is_query =
            !["SHOW", "SET", "/*!40001 SELECT"].iter().any(|start| statement.starts_with(start));
        assert!(fit > 0 || !is_query, "{statement}");
    }
}

#[test]
fn no_text_does_harm() {
    let mut fit = 0;
    for text in texts(1, 5_000) {
        let start = Instant::now();
        fit += fuzz_text(&text);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(120), "{took:?} {text}");
    }
    assert!(fit > 25, "{fit} of them are statements");
}

/// Runs texts over pools with some rows; afterwards nothing is running or held.
#[test]
fn no_text_that_is_run_does_harm() {
    let mut pools = Pools::new(2_000, 5_000);
    let options = TrafficOptions { timers: 2, ..TrafficOptions::default() };
    pools.fill(&options, 200);
    let limits = SqlConfig {
        threads: 2,
        time_max: Duration::from_secs(5),
        memory: 32 << 20,
        ..Config::default().sql
    };
    let engine = Engine::new(pools.catalog, limits.into()).expect("threads");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let run = |text: &str| match runtime.block_on(fuzz_run(&engine, text)) {
        Ok(answered) => answered,
        Err(harm) => panic!("{harm}"),
    };
    let known: usize = corpus().map(run).sum();
    assert!(known > 80, "{known} of the corpus were answered");
    let answered: usize = texts(2, 1_500).iter().map(|text| run(text)).sum();
    assert!(answered > 20, "{answered} were answered");
}

#[test]
fn neither_does_much_of_one_thing() {
    for piece in [
        "(",
        "((",
        "1+",
        "-",
        "!",
        "NOT ",
        "a.",
        "a,",
        "SELECT ",
        "(SELECT ",
        "CASE WHEN ",
        "f(",
        "1 IN (",
        "x AND ",
        "'",
        "`",
        "/*",
        "/*!",
        "? ",
        "INTERVAL ",
        "CAST(",
        " UNION SELECT 1",
        " JOIN t",
        "@",
        "1 DIV ",
        "a COLLATE b ",
        "1 IS NULL IS NULL ",
        "[",
        "::a",
        "{",
        "a->",
        "BINARY ",
        "EXISTS (",
        "WITH x AS (",
        "1e",
        "\\",
        "0x",
        "x'",
    ] {
        for before in ["SELECT ", "SELECT a FROM t WHERE a"] {
            let text = format!("{before}{}", piece.repeat(100_000));
            let start = Instant::now();
            let _ = fuzz_text(&text);
            let took = start.elapsed();
            assert!(took < Duration::from_secs(120), "{took:?} of {before}{piece}");
        }
    }
}
