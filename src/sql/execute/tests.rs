//! Statements through the engine, against reports that have no rows.

use std::time::Instant;

use super::*;
use crate::sql::settings::SqlSettings;
use crate::sql::tests::pools::Pools;

fn engine(settings: SqlSettings) -> Engine {
    Engine::new(
        Pools::new(10, 10).catalog,
        SqlSettings {
            threads: 2,
            ..settings
        },
    )
    .expect("threads")
}

/// An answer as lines: names, then values.
async fn rows(reply: Reply) -> Result<Vec<String>, SqlError> {
    let Reply::Rows(mut rows) = reply else {
        return Ok(vec!["done".into()]);
    };
    let names: Vec<_> = rows
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    let mut lines = vec![names.join("|")];
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let cells: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| functions::value::Cells::new(column).expect("cells"))
            .collect();
        for row in 0..batch.num_rows() {
            let line: Vec<_> = cells
                .iter()
                .map(|cells| match cells.get(row) {
                    functions::value::Value::Null => "NULL".to_owned(),
                    other => other.to_text().into_owned(),
                })
                .collect();
            lines.push(line.join("|"));
        }
    }
    Ok(lines)
}

async fn ask(engine: &Engine, session: &mut Session, text: &str) -> Result<Vec<String>, SqlError> {
    rows(engine.run(session, text, &[]).await?).await
}

/// Statements and what they answer, values only.
async fn check(cases: &[(&str, &str)]) {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let mut wrong = Vec::new();
    for (text, wanted) in cases {
        let answer = match ask(&engine, &mut session, text).await {
            Ok(lines) => lines[1..].join("/"),
            Err(error) => error.to_string(),
        };
        if answer != *wanted {
            wrong.push(format!("{text}\n  is {answer}\n  not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn numbers() {
    check(&[
        ("SELECT 1+1, 7/2, 7 DIV 2, 7 % 2, 7 MOD 4, 1/0, 5.0 % 0", "2|3.5000|3|1|3|NULL|NULL"),
        ("SELECT 0.1+0.2, 1.5*2, '3abc'+1, '1.5'*2, 1e3, -'5', 2-5", "0.3|3.0|4|3|1000|-5|-3"),
        ("SELECT 100 DIV 60 * 60, 2+3*4, !1, NOT 0, 5 & 3, 5 | 3, 5 ^ 3, 1 << 4, 256 >> 4, ~0", "60|14|0|1|1|7|6|16|16|18446744073709551615"),
        ("SELECT ROUND(2.567, 1), ROUND(2.5), ROUND(-2.5), ROUND(1234, -2), TRUNCATE(2.567, 2), FLOOR(-1.5), CEIL(1.2), CEILING(3)", "2.6|3|-3|1200|2.56|-2|2|3"),
        ("SELECT FORMAT(1234567.891, 2), GREATEST(1, 2.5, 2), LEAST('b', 'a'), ABS(-3), SIGN(-2.5), POW(2, 3), SQRT(-1), MOD(5, 3)", "1,234,567.89|2.5|a|3|-1|8|NULL|2"),
        ("SELECT CONV('ff', 16, 10), CRC32('abc'), BIT_COUNT(7), HEX('a'), HEX(255), UNHEX('41')", "255|891568578|3|61|FF|A"),
        ("SELECT CAST('12abc' AS SIGNED), CAST(-1 AS UNSIGNED), CAST('1.555' AS DECIMAL(10,2)), CAST(1.5 AS CHAR), CAST('abcd' AS CHAR(2)), CAST('1e2x' AS DOUBLE), CONVERT('7', UNSIGNED INTEGER)", "12|18446744073709551615|1.56|1.5|ab|100|7"),
        ("SELECT sum(a), avg(a), count(*), min(a), max(a), sum(b), avg(b) FROM (SELECT 1 a, '1.5' b UNION ALL SELECT 2, '2x') t", "3|1.5000|2|1|2|3.5|1.75"),
        ("SELECT 10 / 4 / 2, (1 + 2) / 3, 1 / 3.0, 2 / '4'", "1.25000000|1.0000|0.3333|0.5"),
    ])
    .await;
}

#[tokio::test]
async fn texts() {
    check(&[
        ("SELECT \"a\", 'it''s', CONCAT('a', 1, NULL), CONCAT('a', 1.50, 'é'), CONCAT_WS('-', 'a', NULL, 'b')", "a|it's|NULL|a1.50é|a-b"),
        ("SELECT LEFT('abc', 2), RIGHT('abc', 2), SUBSTRING('abcdef', 2, 3), SUBSTRING('abc' FROM -2), MID('abc', 2, 1), SUBSTRING_INDEX('a.b.c', '.', 2)", "ab|bc|bcd|bc|b|a.b"),
        ("SELECT LOCATE('b', 'abc'), INSTR('abc', 'c'), POSITION('x' IN 'abc'), UCASE('aé'), LCASE('AB'), LENGTH('é'), CHAR_LENGTH('é')", "2|3|0|AÉ|ab|2|1"),
        ("SELECT TRIM('  a '), LTRIM(' a'), TRIM(LEADING 'x' FROM 'xxa'), TRIM(BOTH 'x' FROM 'xax'), REPLACE('aXbX', 'X', '-'), REVERSE('abc'), REPEAT('ab', 2), LPAD('a', 3, 'xy'), RPAD('abc', 2, '')", "a|a|a|a|a-b-|cba|abab|xya|ab"),
        ("SELECT 'abc' LIKE 'a%', 'a_c' LIKE 'a\\_c', 'abc' LIKE 'A%', 'a%' LIKE 'a!%' ESCAPE '!', 'abc' REGEXP '^a.c$', 'abc' NOT REGEXP 'b', 'x' RLIKE 'y'", "1|1|0|1|1|0|0"),
        ("SELECT IF(1 > 2, 'a', 'b'), IFNULL(NULL, 5), NULLIF(1, 1), COALESCE(NULL, 'x'), ISNULL(NULL), CASE 2 WHEN 1 THEN 'a' WHEN '2' THEN 'b' END, ELT(2, 'a', 'b'), FIELD('b', 'a', 'b')", "b|5|NULL|x|1|b|b|2"),
        ("SELECT GROUP_CONCAT(a ORDER BY a DESC SEPARATOR '+'), GROUP_CONCAT(DISTINCT b) FROM (SELECT 1 a, 'x' b UNION ALL SELECT 2, 'x') t", "2+1|x"),
        ("SELECT REPEAT('x', 100000000), SPACE(3), LPAD('', 999999999, 'x')", "NULL|   |NULL"),
        ("SELECT 'a' 'b', _utf8mb4'c', N'd', x'41', 'a\\'b'", "ab|c|d|A|a'b"),
    ])
    .await;
}

#[tokio::test]
async fn percentiles() {
    const FIVE: &str = "(SELECT 'a' g, 10 x UNION ALL SELECT 'a', 20 UNION ALL SELECT 'a', 30 UNION ALL SELECT 'a', 40 UNION ALL SELECT 'b', 7) t";
    let ten = (1..=10).map(|n| format!("SELECT {n} x"));
    let ten = format!("({}) t", ten.collect::<Vec<_>>().join(" UNION ALL "));
    for (select, from, wanted) in [
        (
            "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x), MEDIAN(x), percentile_cont(0.75) within group (order by x)",
            ten.as_str(),
            "5.5|5.5|7.75",
        ),
        (
            "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY x DESC), PERCENTILE_CONT(0) WITHIN GROUP (ORDER BY x), PERCENTILE_CONT(1) WITHIN GROUP (ORDER BY x)",
            &ten,
            "7.75|1|10",
        ),
        (
            "PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY x), PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x), PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x DESC)",
            &ten,
            "10|5|6",
        ),
        (
            "percentile(x, 95), percentile(x, 50), percentile(x, 0), percentile(x, 100), percentile(x, 7.0 * 10)",
            &ten,
            "10|5|1|10|7",
        ),
        (
            "APPROX_PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) BETWEEN 5 AND 6, APPROX_PERCENTILE_CONT(x, 0.5) BETWEEN 5 AND 6",
            &ten,
            "1|1",
        ),
        (
            "COUNT(*), MEDIAN(x), percentile(x, 50) IS NULL, MEDIAN('3x')",
            "(SELECT 1 x) t WHERE x > 1",
            "0|NULL|1|NULL",
        ),
        (
            "g, MEDIAN(x), percentile(x, 50) + 1",
            &format!("{FIVE} GROUP BY g ORDER BY g"),
            "a|25|21/b|7|8",
        ),
        (
            "g, x, MEDIAN(x) OVER (PARTITION BY g), percentile(x, 75) OVER (PARTITION BY g), PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) OVER (PARTITION BY g)",
            &format!("{FIVE} WHERE x IN (10, 40, 7) ORDER BY g, x"),
            "a|10|25|40|25/a|40|25|40|25/b|7|7|7|7",
        ),
        (
            "MEDIAN(x), percentile(x, 50)",
            "(SELECT 1.5 x UNION ALL SELECT '2.5x' UNION ALL SELECT NULL) t",
            "2|1.5",
        ),
    ] {
        check(&[(&format!("SELECT {select} FROM {from}"), wanted)]).await;
    }
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(1, "test", false);
    for (text, code) in [
        ("SELECT percentile(1)", 1210),
        ("SELECT percentile(1, 101)", 1210),
        ("SELECT percentile_cont(1, -0.1)", 1210),
        ("SELECT percentile(x, x) FROM (SELECT 1 x) t", 1210),
        ("SELECT SUM(1) WITHIN GROUP (ORDER BY 1)", 1064),
        ("SELECT UPPER('a') WITHIN GROUP (ORDER BY 1)", 1064),
    ] {
        let error = ask(&engine, &mut session, text).await.expect_err(text);
        assert_eq!(error.code, code, "{text}: {error}");
    }
}

/// The values of a percentile count with the memory of queries, in groups and in windows.
#[tokio::test]
async fn percentiles_take_no_more_than_they_may() {
    let digits = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let from = format!("{digits} a, {digits} b, {digits} c, {digits} d, {digits} e");
    let mut session = Session::new(1, "test", false);
    for (memory_max, fits) in [(1 << 20, false), (64 << 20, true)] {
        let engine = engine(SqlSettings {
            memory_max,
            ..SqlSettings::default()
        });
        let text = format!("SELECT MEDIAN(a.d + b.d) FROM {from}");
        let answer = ask(&engine, &mut session, &text).await;
        assert_eq!(answer.is_ok(), fits, "{answer:?}");
        assert_eq!(answer.err().map_or(1041, |error| error.code), 1041);
        at_rest(&engine).await;
    }
}

#[tokio::test]
async fn comparisons() {
    check(&[
        ("SELECT 1 = '1', '1.0' = 1, 'abc' = 0, '10' > 9, 'b' > 'a', NULL = 1, NULL <=> NULL, 1 <=> NULL", "1|1|1|1|1|NULL|1|0"),
        ("SELECT 5 BETWEEN '1' AND 9, 2 IN (1, '2'), '2' IN (1, 2), 3 NOT IN (1, 2), 1 XOR 1, 1 AND 'x', 0 OR '1', 2 AND 3", "1|1|1|1|0|0|1|1"),
        ("SELECT count(*) FROM (SELECT 1 a) t WHERE a", "1"),
        ("SELECT (1, 2) = (1, 2), (1, 2) IN ((3, 4), (1, 2)), 1 IS TRUE, 'a' || 'b', 1 && 0", "1|1|1|0|0"),
        ("SELECT a FROM (SELECT 1 a UNION ALL SELECT NULL UNION ALL SELECT 0) t ORDER BY a", "NULL/0/1"),
        ("SELECT a FROM (SELECT 1 a UNION ALL SELECT NULL UNION ALL SELECT 0) t ORDER BY a DESC", "1/0/NULL"),
    ])
    .await;
}

#[tokio::test]
async fn times() {
    check(&[
        ("SELECT DATE_FORMAT('2026-11-21 09:05:07', '%Y-%m-%d %H:%i:%s %W %j %p'), YEAR('2026-11-21'), HOUR('09:05:07'), DAYOFWEEK('2026-11-21'), LAST_DAY('2026-02-03')", "2026-11-21 09:05:07 Saturday 325 AM|2026|9|7|2026-02-28"),
        ("SELECT '2026-01-31' + INTERVAL 1 MONTH, DATE_SUB('2026-01-01', INTERVAL 1 DAY), DATEDIFF('2026-01-02', '2026-01-01'), TIMESTAMPDIFF(MINUTE, '2026-01-01 00:00', '2026-01-01 01:30'), DATE('2026-01-01 05:00')", "2026-02-28 00:00:00|2025-12-31 00:00:00|1|90|2026-01-01"),
        ("SELECT STR_TO_DATE('21.11.2026 05', '%d.%m.%Y %H')", "2026-11-21 05:00:00"),
        ("SELECT EXTRACT(HOUR FROM '2026-01-01 05:06:07'), STR_TO_DATE('21.11.2026', '%d.%m.%Y'), SEC_TO_TIME(3661), TIME_TO_SEC('01:01:01'), UNIX_TIMESTAMP() > 1700000000, NOW() = CURRENT_TIMESTAMP", "5|2026-11-21|01:01:01|3661|1|1"),
    ])
    .await;
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (zone, wanted) in [
        ("+00:00", "1970-01-01 00:00:00"),
        ("+02:30", "1970-01-01 02:30:00"),
        ("Europe/Berlin", "1970-01-01 01:00:00"),
    ] {
        ask(&engine, &mut session, &format!("SET time_zone = '{zone}'"))
            .await
            .expect("a zone");
        let answer = ask(
            &engine,
            &mut session,
            "SELECT FROM_UNIXTIME(0), UNIX_TIMESTAMP(FROM_UNIXTIME(86400))",
        )
        .await;
        assert_eq!(
            answer.expect("times")[1],
            format!("{wanted}|86400"),
            "{zone}"
        );
    }
    let error = ask(&engine, &mut session, "SET time_zone = 'Nowhere/At_all'")
        .await
        .expect_err("no zone");
    assert_eq!(error.code, 1298);
}

#[tokio::test]
async fn sessions() {
    let engine = engine(SqlSettings {
        variables: vec![("pinba_port".into(), "30002".into())],
        ..SqlSettings::default()
    });
    let mut session = Session::new(5, "me@here", false);
    for (text, wanted) in [
        (
            "SELECT @@version_comment limit 1",
            "@@version_comment/pinbad",
        ),
        (
            "SELECT @@max_allowed_packet,@@system_time_zone,@@session.time_zone AS tz,@@pinba_port",
            "@@max_allowed_packet|@@system_time_zone|tz|@@pinba_port/67108864|UTC|SYSTEM|30002",
        ),
        (
            "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci, autocommit = OFF, @a := 1 + 1, sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
            "done",
        ),
        (
            "SELECT @a, @b, @@autocommit, @@sql_mode",
            "@a|@b|@@autocommit|@@sql_mode/2|NULL|0|,STRICT_TRANS_TABLES",
        ),
        ("SET autocommit = DEFAULT", "done"),
        (
            "select DATABASE(), USER() limit 1",
            "DATABASE()|USER()/pinba|me@here",
        ),
        ("USE INFORMATION_SCHEMA", "done"),
        (
            "SELECT schema(), connection_id(), version()",
            "schema()|connection_id()|version()/information_schema|5|10.11.14-MariaDB-pinba",
        ),
        ("START TRANSACTION", "done"),
        ("DO 1, SLEEP(0.01)", "done"),
        ("SELECT SLEEP(0.01)", "SLEEP(0.01)/0"),
    ] {
        let answer = ask(&engine, &mut session, text).await.expect(text);
        assert_eq!(answer.join("/"), wanted, "{text}");
    }
    assert!(session.autocommit() && session.in_transaction);
    assert_eq!(
        session
            .variables
            .get("character_set_results")
            .map(String::as_str),
        Some("utf8mb4")
    );
    for (text, code) in [
        ("SELECT @@nope", 1193),
        ("USE nope", 1049),
        ("SELECT nope FROM pinba.status", 1054),
        ("SELECT * FROM pinba.nope", 1146),
        ("SELECT * FROM nope.nope", 1146),
        ("SELECT nope(1)", 1305),
        ("SELECT substring('x')", 1582),
        ("SELECT 1 FROM", 1064),
        ("SELECT 'x", 1064),
        ("INSERT INTO request VALUES (1)", 1290),
        ("SELECT 'a' REGEXP '('", 1139),
    ] {
        let error = ask(&engine, &mut session, text).await.expect_err(text);
        assert_eq!(error.code, code, "{text}: {error}");
    }
}

#[tokio::test]
async fn settings_are_honoured_or_refused() {
    const THREE: &str = "SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 ORDER BY n";
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (text, wanted) in [
        ("SET SQL_SELECT_LIMIT=2", "done"),
        (THREE, "n/1/2"),
        (
            "SELECT * FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) t ORDER BY n LIMIT 3",
            "n/1/2/3",
        ),
        (
            "SELECT COUNT(*) AS c FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) t",
            "c/3",
        ),
        (
            "(SELECT 1 AS n UNION SELECT 2 UNION SELECT 3 ORDER BY n LIMIT 3)",
            "n/1/2/3",
        ),
        (
            "SHOW DATABASES",
            "Database/information_schema/performance_schema/pinba",
        ),
        (
            "SET STATEMENT sql_select_limit=DEFAULT, max_statement_time=5 FOR SELECT @@max_statement_time AS t UNION SELECT 1 UNION SELECT 2 ORDER BY t",
            "t/1/2/5",
        ),
        (
            "SELECT @@sql_select_limit AS l, @@max_statement_time AS t",
            "l|t/2|0",
        ),
        ("SET sql_select_limit = DEFAULT", "done"),
        (THREE, "n/1/2/3"),
        ("SET sql_mode = 'ANSI'", "done"),
        ("SELECT 'a' || 'b' AS \"x\"", "x/ab"),
        ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "done"),
        (r"SELECT 'a\n' AS x", r"x/a\n"),
        (
            "SET sql_mode = DEFAULT, time_zone = '+01:00', timestamp = 1800000000",
            "done",
        ),
        (
            "SELECT NOW() AS n, UNIX_TIMESTAMP() AS u",
            "n|u/2027-01-15 09:00:00|1800000000",
        ),
        ("SET timestamp = DEFAULT, group_concat_max_len = 5", "done"),
        (
            "SELECT GROUP_CONCAT(n ORDER BY n) AS g FROM (SELECT 'abc' AS n UNION SELECT 'é') t",
            "g/abc,",
        ),
        (
            "SET div_precision_increment = 4, lc_time_names = 'en_US', SQL_AUTO_IS_NULL = 0",
            "done",
        ),
        (
            "SET sql_log_bin = off, innodb_lock_wait_timeout = 10, sql_safe_updates = 1",
            "done",
        ),
        (
            "SELECT @@sql_safe_updates AS s, @@sql_log_bin AS l",
            "s|l/1|0",
        ),
    ] {
        let answer = ask(&engine, &mut session, text).await.expect(text);
        assert_eq!(answer.join("/"), wanted, "{text}");
    }
    for (text, code) in [
        ("SET nope = 1", 1193),
        ("SET @@session.nope = DEFAULT", 1193),
        ("SET STATEMENT nope = 1 FOR SELECT 1", 1193),
        ("SET sql_select_limit = 'many'", 1231),
        ("SET max_statement_time = -1", 1231),
        ("SET autocommit = 2", 1231),
        ("SET sql_mode = 'NOPE'", 1231),
        ("SET sql_mode = 'ORACLE'", 1235),
        ("SET div_precision_increment = 6", 1235),
        ("SET lc_time_names = 'de_DE'", 1235),
        ("SET max_connections = 5", 1229),
        ("SET version = '8.0'", 1238),
        ("SET time_zone = 'nowhere'", 1298),
        (
            "SET STATEMENT max_statement_time = 0.05 FOR SELECT SLEEP(20)",
            1969,
        ),
        (
            "SET STATEMENT max_execution_time = 50 FOR SELECT SLEEP(20)",
            3024,
        ),
    ] {
        let error = ask(&engine, &mut session, text).await.expect_err(text);
        assert_eq!(error.code, code, "{text}: {error}");
    }
    // A `?` of a prepared statement counts through it.
    let text = "SET STATEMENT max_statement_time = 5 FOR SELECT ? AS a";
    let prepared = engine.prepare(&session, text).await.expect("prepared");
    assert_eq!((prepared.parameters, prepared.columns.len()), (1, 1));
    let values = [Literal::Int(7)];
    let reply = engine
        .run(&mut session, text, &values)
        .await
        .expect("a row");
    assert_eq!(rows(reply).await.expect("rows"), ["a", "7"]);
    let set = "SET max_statement_time = 0.05, max_execution_time = 5000";
    ask(&engine, &mut session, set).await.expect(set);
    let error = ask(&engine, &mut session, "SELECT SLEEP(20)").await;
    assert_eq!(error.expect_err("late").code, 1969);
}

#[tokio::test]
async fn names_are_as_they_were_written() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (text, wanted) in [
        (
            "SELECT count(*), COUNT( * ), 1 , 1",
            "count(*)|COUNT( * )|1|1",
        ),
        (
            "SELECT R.Script_Name, req_time_total/req_count, req_count AS `N N` FROM report_by_script_name R",
            "Script_Name|req_time_total/req_count|N N",
        ),
        (
            "SELECT req_count, req_count, t.req_count FROM report_by_script_name t",
            "req_count|req_count|req_count",
        ),
        ("SELECT x.a FROM (SELECT 1 AS A, 2 b) X", "a"),
        ("SELECT *, a FROM (SELECT 1 AS A, 2 b) X", "A|b|a"),
        ("SELECT 'x' UNION SELECT 'y'", "x"),
    ] {
        let answer = ask(&engine, &mut session, text).await.expect(text);
        assert_eq!(answer[0], wanted, "{text}");
    }
}

#[tokio::test]
async fn values_and_preparing() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let text = "SELECT ? + 1, ?, a FROM (SELECT 7 a) t WHERE a = ? AND a > ? LIMIT ?";
    let prepared = engine.prepare(&session, text).await.expect("prepared");
    assert_eq!(prepared.parameters, 5);
    let names: Vec<_> = prepared
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names, ["? + 1", "?", "a"]);
    let values = [
        Literal::Int(-2),
        Literal::Text("it's \\".into()),
        Literal::Text("7".into()),
        Literal::Float(0.5),
        Literal::Text("3".into()),
    ];
    let reply = engine.run(&mut session, text, &values).await.expect("rows");
    assert_eq!(rows(reply).await.expect("rows")[1], "-1|it's \\|7");
    let few = engine
        .run(&mut session, text, &values[..2])
        .await
        .expect_err("too few");
    assert_eq!(few.code, 1210);
    assert_eq!(
        engine
            .prepare(&session, "SELECT nope FROM status")
            .await
            .expect_err("column")
            .code,
        1054
    );
    assert_eq!(
        engine
            .prepare(&session, "SELECT 1 FROM nope")
            .await
            .expect_err("table")
            .code,
        1146
    );
}

#[tokio::test]
async fn shapes() {
    const T: &str =
        "(SELECT 'a' k, 1 v, 'x' o UNION ALL SELECT 'a', 2, 'x' UNION ALL SELECT 'B', 3, 'y') t";
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (text, wanted) in [
        (
            "SELECT k, o, count(*) c FROM T GROUP BY k HAVING c > 1",
            "a|x|2",
        ),
        (
            "SELECT k, o, sum(v) FROM T GROUP BY 1 ORDER BY 3 DESC, o LIMIT 1,1",
            "B|y|3",
        ),
        ("SELECT v * 2 AS d FROM T HAVING d > 4", "6"),
        (
            "SELECT LEFT(k, 1) AS g, max(v) FROM T GROUP BY g ORDER BY g",
            "B|3/a|2",
        ),
        ("SELECT o, max(v) FROM T WHERE k = 'a'", "x|2"),
        ("SELECT k FROM T GROUP BY k ORDER BY max(v) DESC", "B/a"),
        (
            "SELECT count(DISTINCT k, o), count(DISTINCT o) FROM T",
            "2|2",
        ),
        (
            "SELECT rn FROM (SELECT ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn, v FROM T) q WHERE rn = 1 AND v = 3",
            "1",
        ),
        ("SELECT a.v FROM T JOIN (SELECT 3 v) a USING (v)", "3"),
        ("WITH Q AS (SELECT max(v) AS m FROM T) SELECT M FROM q", "3"),
        (
            "SELECT v FROM T WHERE v IN (SELECT 2) OR EXISTS (SELECT 1 WHERE v = 1) ORDER BY v",
            "1/2",
        ),
    ] {
        let text = text.replace(" T", &format!(" {T}"));
        let answer = ask(&engine, &mut session, &text).await.expect(&text);
        assert_eq!(answer[1..].join("/"), wanted, "{text}");
    }
    let folding = self::engine(SqlSettings {
        case_insensitive: true,
        ..SqlSettings::default()
    });
    for (text, wanted) in [
        (
            "SELECT count(*) FROM T WHERE k = 'b ' AND k LIKE 'B%' AND k IN ('b') AND k REGEXP '^b'",
            "1",
        ),
        (
            "SELECT count(*) FROM (SELECT k FROM (SELECT 'a' k UNION ALL SELECT 'A') u GROUP BY k) w",
            "1",
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT k FROM (SELECT 'a' k UNION ALL SELECT 'A') u) w",
            "1",
        ),
    ] {
        let text = text.replace(" T", &format!(" {T}"));
        let answer = ask(&folding, &mut session, &text).await.expect(&text);
        assert_eq!(answer[1..].join("/"), wanted, "{text}");
    }
}

#[tokio::test]
async fn lists() {
    let engine = engine(SqlSettings {
        variables: vec![("pinba_port".into(), "30002".into())],
        ..SqlSettings::default()
    });
    let mut session = Session::new(5, "me@here", true);
    let mut wrong = Vec::new();
    for (text, wanted) in [
        (
            "SHOW DATABASES",
            "Database/information_schema/performance_schema/pinba",
        ),
        ("SHOW TABLES LIKE 'ti%'", "Tables_in_pinba/timer/timertag"),
        (
            "SHOW FULL TABLES WHERE Tables_in_pinba = 'tag'",
            "Tables_in_pinba|Table_type/tag|BASE TABLE",
        ),
        (
            "SHOW VARIABLES LIKE 'pinba\\_%'",
            "Variable_name|Value/pinba_port|30002",
        ),
        (
            "SHOW SESSION VARIABLES WHERE Variable_name IN ('autocommit', 'SQL_MODE')",
            "Variable_name|Value/autocommit|ON",
        ),
        ("SHOW WARNINGS", "Level|Code|Message"),
        ("SHOW COUNT(*) WARNINGS", "@@session.warning_count/0"),
        (
            "DESCRIBE `pinba`.`timertag`",
            "Field|Type|Null|Key|Default|Extra/timer_id|bigint(20)|NO|MUL|NULL|/tag_id|int(11)|NO||NULL|/value|varchar(255)|YES||NULL|",
        ),
        (
            "SHOW INDEX FROM tag",
            "Table|Non_unique|Key_name|Seq_in_index|Column_name|Collation|Cardinality|Sub_part|Packed|Null|Index_type|Comment|Index_comment|Ignored/tag|0|PRIMARY|1|id|A|NULL|NULL|NULL||HASH|||NO/tag|0|name|1|name|A|NULL|NULL|NULL||HASH|||NO",
        ),
        (
            "SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' ORDER BY TABLE_SCHEMA",
            "TABLE_SCHEMA/performance_schema/pinba",
        ),
        (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = database() AND table_name LIKE 't%' ORDER BY table_name",
            "table_name/tag/timer/timertag",
        ),
        (
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'pinba' AND table_name = 'timer' AND data_type IN ('float') ORDER BY column_name",
            "column_name|data_type/value|float",
        ),
        (
            "SELECT COUNT(*) FROM information_schema.ENGINES WHERE ENGINE='PINBA' AND SUPPORT IN ('YES','DEFAULT')",
            "COUNT(*)/1",
        ),
        (
            "SELECT * FROM information_schema.CHARACTER_SETS WHERE maxlen > 3",
            "CHARACTER_SET_NAME|DEFAULT_COLLATE_NAME|DESCRIPTION|MAXLEN/utf8mb4|utf8mb4_general_ci|UTF-8 Unicode|4",
        ),
        (
            "SELECT variable_value > 0 FROM information_schema.global_status WHERE variable_name = 'PINBA_UPTIME'",
            "variable_value > 0/1",
        ),
        (
            "SELECT LOGFILE_GROUP_NAME, FILE_NAME, TOTAL_EXTENTS, INITIAL_SIZE, ENGINE, EXTRA FROM INFORMATION_SCHEMA.FILES WHERE FILE_TYPE = 'UNDO LOG' AND FILE_NAME IS NOT NULL AND LOGFILE_GROUP_NAME IS NOT NULL AND LOGFILE_GROUP_NAME IN (SELECT DISTINCT LOGFILE_GROUP_NAME FROM INFORMATION_SCHEMA.FILES WHERE FILE_TYPE = 'DATAFILE' AND TABLESPACE_NAME IN (SELECT DISTINCT TABLESPACE_NAME FROM INFORMATION_SCHEMA.PARTITIONS WHERE TABLE_SCHEMA IN ('pinba'))) GROUP BY LOGFILE_GROUP_NAME, FILE_NAME, ENGINE, TOTAL_EXTENTS, INITIAL_SIZE ORDER BY LOGFILE_GROUP_NAME",
            "LOGFILE_GROUP_NAME|FILE_NAME|TOTAL_EXTENTS|INITIAL_SIZE|ENGINE|EXTRA",
        ),
        (
            "SELECT A.TABLE_NAME FROM INFORMATION_SCHEMA.COLUMNS A, INFORMATION_SCHEMA.STATISTICS B WHERE A.COLUMN_KEY in ('PRI') AND B.INDEX_NAME = 'PRIMARY' AND A.TABLE_SCHEMA = B.TABLE_SCHEMA AND A.TABLE_NAME = B.TABLE_NAME AND A.COLUMN_NAME = B.COLUMN_NAME AND A.TABLE_NAME = 'request'",
            "TABLE_NAME/request",
        ),
        (
            "CREATE TABLE mine (x int) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report6:::90,95'",
            "done",
        ),
        (
            "CREATE TABLE IF NOT EXISTS mine (x int) ENGINE=PINBA COMMENT='report6:::90,95'",
            "done",
        ),
        ("SELECT count(*) FROM MINE", "count(*)/0"),
        (
            "SELECT TABLE_COMMENT, ENGINE, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_NAME = 'mine'",
            "TABLE_COMMENT|ENGINE|TABLE_TYPE/report6:::90,95|PINBA|BASE TABLE",
        ),
        ("DROP TABLE mine", "done"),
        ("DROP TABLE IF EXISTS mine", "done"),
        (
            "SHOW TRIGGERS",
            "Trigger|Event|Table|Statement|Timing|Created|sql_mode|Definer|character_set_client|collation_connection|Database Collation",
        ),
    ] {
        let answer = match ask(&engine, &mut session, text).await {
            Ok(lines) => lines.join("/"),
            Err(error) => error.to_string(),
        };
        if answer != wanted {
            wrong.push(format!(
                "{text}
  is {answer}
  not {wanted}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let status = ask(
        &engine,
        &mut session,
        "SHOW TABLE STATUS FROM pinba LIKE 'report\\_by\\_server\\_name'",
    )
    .await
    .expect("status");
    assert_eq!(status[0].split('|').count(), 20);
    assert_eq!(status.len(), 2, "{status:?}");
    let statement = ask(&engine, &mut session, "SHOW CREATE TABLE `timertag`")
        .await
        .expect("statement");
    assert!(
        statement[1].contains("\n) ENGINE=PINBA DEFAULT CHARSET="),
        "{statement:?}"
    );
    ask(&engine, &mut session, "SET SQL_MODE=NO_TABLE_OPTIONS")
        .await
        .expect("mode");
    let statement = ask(&engine, &mut session, "SHOW CREATE TABLE `timertag`")
        .await
        .expect("statement");
    assert!(statement[1].ends_with("\n)"), "{statement:?}");
    assert!(
        ask(&engine, &mut session, "EXPLAIN SELECT 1 FROM request")
            .await
            .expect("plan")
            .len()
            > 2
    );
    for (text, code) in [
        ("DESCRIBE `pinba`.`SELECT * FROM request`", 1146),
        ("SHOW CREATE TABLE nope", 1146),
        ("SHOW TABLES FROM nope", 1049),
        (
            "CREATE TABLE request (x int) ENGINE=PINBA COMMENT='report1'",
            1050,
        ),
        (
            "CREATE TABLE bad (x int) ENGINE=PINBA COMMENT='report77'",
            1210,
        ),
        ("DROP TABLE nope", 1051),
        ("DROP TABLE info", 1290),
        ("SHOW VARIABLES WHERE nope = 1", 1054),
    ] {
        let error = ask(&engine, &mut session, text).await.expect_err(text);
        assert_eq!(error.code, code, "{text}: {error}");
    }
    session.admin = false;
    let error = ask(&engine, &mut session, "DROP TABLE x")
        .await
        .expect_err("no admin");
    assert_eq!(error.code, 1227);
}

#[tokio::test]
async fn one_row_of_an_order_for_each_row() {
    const R: &str = "(SELECT 'a' k, 1 v UNION ALL SELECT 'a', 5 UNION ALL SELECT 'a', 3 UNION ALL SELECT 'b', 7)";
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (text, wanted) in [
        (
            "SELECT q.k, q.v, (SELECT r.v FROM R r WHERE r.k = q.k ORDER BY r.v DESC LIMIT 1, 1) AS second FROM R q ORDER BY 1, 2",
            "a|1|3/a|3|3/a|5|3/b|7|NULL",
        ),
        (
            r#"SELECT "srv" AS server_name, (SELECT r.v FROM R r WHERE r.k = r2.k ORDER BY r.v DESC LIMIT 1, 1) as p, (SELECT r.v FROM R r WHERE r.k = r2.k ORDER BY r.v LIMIT 1) as q, max(r2.v), r2.k FROM R r2 WHERE r2.k = "a""#,
            "srv|3|1|5|a",
        ),
        (
            "SELECT r2.k, (SELECT r.v FROM R r WHERE r.k = r2.k ORDER BY r.v DESC LIMIT 1, 1) p, max(r2.v) m FROM R r2 GROUP BY r2.k HAVING m > 1 ORDER BY m DESC",
            "b|NULL|7/a|3|5",
        ),
        (
            "SELECT (SELECT r.v FROM R r WHERE r.k = q.k ORDER BY r.v LIMIT 1) f, count(*) c FROM R q JOIN R p ON p.k = q.k GROUP BY p.k ORDER BY c",
            "7|1/1|9",
        ),
        (
            "SELECT (SELECT r.v FROM R r ORDER BY r.v DESC LIMIT 2, 1)",
            "3",
        ),
        (
            "SELECT q.k, (SELECT max(r.v) FROM R r WHERE r.k = q.k) m FROM R q WHERE q.v = 3",
            "a|5",
        ),
    ] {
        let text = text.replace(" R ", &format!(" {R} "));
        let answer = ask(&engine, &mut session, &text).await.expect(&text);
        assert_eq!(answer[1..].join("/"), wanted, "{text}");
    }
    let text = format!("SELECT (SELECT r.v FROM {R} r WHERE r.k = q.k LIMIT 2) FROM {R} q");
    let error = ask(&engine, &mut session, &text)
        .await
        .expect_err("two rows");
    assert_eq!(error.code, 1235);
}

/// Waits until nothing is held for any statement.
async fn at_rest(engine: &Engine) {
    let wait = async {
        while !engine.is_at_rest() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
    waited.expect("nothing is left of the statements");
}

fn nested(before: &str, after: &str, often: usize) -> String {
    format!("{}1{}", before.repeat(often), after.repeat(often))
}

#[tokio::test]
async fn what_grows_when_it_is_written_out_is_refused() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let doubled = |often: usize| {
        let (mut text, from) = ("SELECT id x FROM request".to_owned(), "SELECT x + x AS x");
        for at in 0..often {
            text = format!("{from} FROM ({text}) t{at}");
        }
        format!("SELECT x FROM ({text}) t WHERE x > 1")
    };
    let conditions = |often: usize| {
        let tests = nested("IF(", " = 2, b, b)", often);
        format!("SELECT {tests} FROM (SELECT 1 = 1 AS b) t")
    };
    type Made<'a> = &'a dyn Fn(usize) -> String;
    let cases: [(&str, Made<'_>); 6] = [
        ("tables", &doubled),
        ("conditions", &conditions),
        ("conditions of columns that may be NULL", &|often| {
            let tests = nested("IF(", " = 2, req_time, req_time)", often);
            format!("SELECT {tests} FROM request")
        }),
        ("NULLIF", &|often| {
            format!("SELECT {}", nested("NULLIF(", ", 2)", often))
        }),
        ("COALESCE", &|often| {
            let calls = nested("COALESCE(", ", 2)", often);
            format!("SELECT {calls} + id FROM request")
        }),
        ("IFNULL", &|often| {
            format!("SELECT {}", nested("IFNULL(", ", x)", often))
                + " FROM (SELECT id x FROM request) t"
        }),
    ];
    // Many beside one another are no matter.
    let flags = vec!["IF(req_time > 1, 1, 0)"; 30].join(" + ");
    let text = format!("SELECT IF({flags} > 3, 1, 0) FROM request");
    assert!(ask(&engine, &mut session, &text).await.is_ok());
    for (what, made) in cases {
        let answer = ask(&engine, &mut session, &made(4)).await;
        assert!(answer.is_ok(), "{what}: {answer:?}");
        let error = ask(&engine, &mut session, &made(20)).await;
        let error = error.expect_err(what);
        assert_eq!(error.code, 1064, "{what}: {error}");
        assert!(error.message.contains("grows"), "{what}: {error}");
    }
    at_rest(&engine).await;
}

#[tokio::test]
async fn texts_take_no_more_than_they_may() {
    let engine = engine(SqlSettings {
        memory_max: 64 << 20,
        ..SqlSettings::default()
    });
    let mut session = Session::new(5, "me@here", false);
    let many = |each: &str, often: usize| {
        let calls = (0..often).map(|at| each.replace('#', &(900_000 + at).to_string()));
        calls.collect::<Vec<_>>().join(", ")
    };
    for (text, wanted) in [
        ("LENGTH(REPEAT('a', 10000000))", Ok("10000000")),
        // What would be 400 MB, but for that.
        (
            "REGEXP_REPLACE(REPEAT('a', 20000), 'a', REPEAT('b', 20000))",
            Ok("NULL"),
        ),
        (
            r"REGEXP_REPLACE(REPEAT('a', 20000), '^(.*)$', REPEAT('\\1', 20000))",
            Ok("NULL"),
        ),
        (r"REGEXP_REPLACE('abc', '(b)|(x)', '[\\1$]')", Ok("a[b$]c")),
        (r"QUOTE('a\'b\\')", Ok(r"'a\'b\\'")),
        (
            "INSERT('aéiou', 2, 2, 'XYZ'), INSERT('abc', 4, 1, 'x'), INSERT('abc', 0, 1, 'x'), INSERT('abc', 3, 9, 'x'), INSERT('abc', 2, -1, 'x')",
            Ok("aXYZou|abc|abc|abx|ax"),
        ),
        (&many("REPEAT('a', #)", 300), Err(1041)),
        (
            &format!("LENGTH(CONCAT({}))", many("REPEAT('a', #)", 300)),
            Err(1041),
        ),
    ] {
        let text = format!("SELECT {text}");
        let answer = ask(&engine, &mut session, &text).await;
        let answer = answer.map(|lines| lines[1..].join("/"));
        let answer = answer.map_err(|error| error.code);
        assert_eq!(answer, wanted.map(str::to_owned), "{text}");
    }
    // Each is twice as long as the one in it.
    let quotes = format!("SELECT LENGTH({})", nested("QUOTE(", ")", 26));
    let length = ask(&engine, &mut session, &quotes).await;
    let length = length.expect("a length")[1].parse::<usize>();
    assert!(length.is_ok_and(|length| length <= functions::TEXT_MAX));
    let columns = "SELECT SUM(LENGTH(REPEAT(column_name, 20000))) FROM information_schema.columns";
    let error = ask(&engine, &mut session, columns).await;
    let error = error.expect_err("two hundred MB");
    assert!(
        error.code == 1041 && error.message.contains("sql.memory"),
        "{error}"
    );
    let few = columns.replace("20000", "100");
    assert!(ask(&engine, &mut session, &few).await.is_ok());
    // What is collected of many rows was counted before.
    let all =
        "SELECT LENGTH(GROUP_CONCAT(REPEAT(column_name, 20000))) FROM information_schema.columns";
    let error = ask(&engine, &mut session, all).await;
    assert_eq!(error.expect_err("two hundred MB").code, 1041);
    at_rest(&engine).await;
}

/// Long before it would be over if nothing ended it, however busy the machine is.
#[track_caller]
fn assert_soon(start: Instant) {
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[tokio::test]
async fn what_takes_too_long_ends_while_it_calculates() {
    let engine = engine(SqlSettings {
        time_max: Duration::from_millis(100),
        ..SqlSettings::default()
    });
    let mut session = Session::new(5, "me@here", false);
    // A table's every column is looked for in many megabytes, many times: one batch, minutes.
    let looks = (0..10).map(|at| format!("LOCATE(column_name, REPEAT('a', {}))", 1_000_000 + at));
    let looks: Vec<_> = looks.collect();
    let text = format!(
        "SELECT SUM({}) FROM information_schema.columns",
        looks.join(" + ")
    );
    let start = Instant::now();
    let error = ask(&engine, &mut session, &text).await.expect_err("long");
    assert_eq!(error.code, 1969, "{error}");
    // It ends, too, and does not only leave its client.
    at_rest(&engine).await;
    assert_soon(start);
    // Nor does what makes its own rows.
    let start = Instant::now();
    for next in ["x + 1", "1"] {
        let text = format!(
            "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT {next} FROM t) SELECT COUNT(*) FROM t"
        );
        let error = ask(&engine, &mut session, &text).await.expect_err(&text);
        assert_eq!(error.code, 1969, "{error}");
        at_rest(&engine).await;
    }
    assert_soon(start);
    // What cannot be interrupted keeps its client no longer than it may.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let watch = engine.guard(&Session::new(1, "me@here", false));
    let stuck = engine.on_own_threads(&watch, async move {
        let _released = held.recv();
        Ok(())
    });
    let left = tokio::time::timeout(Duration::from_secs(60), stuck).await;
    assert_eq!(left.expect("no end").expect_err("late").code, 1969);
    drop(release);
}

#[tokio::test]
async fn planning_takes_a_place() {
    let engine = engine(SqlSettings {
        queries_max: 1,
        ..SqlSettings::default()
    });
    let mut session = Session::new(5, "me@here", false);
    let place = engine.place().await.expect("a place");
    let error = engine.prepare(&session, "SELECT 1").await;
    assert_eq!(error.expect_err("no place").code, 1040);
    for text in ["SELECT 1", "EXPLAIN SELECT 1", "SHOW TABLES WHERE 1"] {
        let error = ask(&engine, &mut session, text).await;
        assert_eq!(error.expect_err(text).code, 1040);
    }
    drop(place);
    assert!(ask(&engine, &mut session, "SELECT 1").await.is_ok());
}

#[tokio::test]
async fn functions_of_nobody_are_not_there() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for name in [
        "levenshtein('a', 'b')",
        "nvl2(1, 2, 3)",
        "arrow_cast(1, 'Int8')",
        "regexp_like('a', 'a')",
        "levenshtein(1) OVER ()",
    ] {
        let error = ask(&engine, &mut session, &format!("SELECT {name}")).await;
        let error = error.expect_err(name);
        assert_eq!(error.code, 1305, "{name}: {error}");
        assert!(error.message.contains("FUNCTION pinba."), "{error}");
    }
    let known = "SELECT COALESCE(NULL, 1), ROUND(COT(1), 3), ROW_NUMBER() OVER (), LAG(1) OVER (), RAND() < 1, LENGTH(UUID())";
    let answer = ask(&engine, &mut session, known).await.expect(known);
    assert_eq!(answer[1], "1|0.642|1|NULL|1|36");
}
