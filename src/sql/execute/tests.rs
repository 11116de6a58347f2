//! Runs statements through the engine, against reports that have no rows.

use std::time::Instant;

use super::*;
use crate::cli::load::TrafficOptions;
use crate::config::{Config, SqlConfig};
use crate::sql::functions;
use crate::sql::settings::SqlSettings;
use crate::sql::tests::pools::Pools;

fn engine(settings: impl Into<SqlSettings>) -> Engine {
    engine_over(Pools::new(10, 10), settings)
}

fn engine_over(pools: Pools, settings: impl Into<SqlSettings>) -> Engine {
    let mut settings = settings.into();
    settings.limits.threads = 2;
    Engine::new(pools.catalog, settings).expect("threads")
}

/// An answer as lines: names, then values.
async fn rows(reply: Reply) -> Result<Vec<String>, SqlError> {
    let Reply::Rows(mut rows) = reply else {
        return Ok(vec!["done".into()]);
    };
    let names: Vec<_> = rows.columns.iter().map(|column| column.name.clone()).collect();
    let mut lines = vec![names.join("|")];
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let cells: Vec<_> =
            batch.columns().iter().map(functions::value::Cells::new).collect::<Result<_, _>>()?;
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

/// Runs a script in sqllogictest's format, in one session: `query`, whose answer begins with the
/// names of its columns if it is `query names`; `statement ok`; `statement error CODE`. `$NAME`
/// stands for the value of `define NAME`.
async fn run_script(engine: &Engine, session: &mut Session, script: &str) {
    let mut defined: Vec<(String, &str)> = Vec::new();
    let mut wrong = Vec::new();
    for block in script.split("\n\n").map(str::trim_end) {
        if block.starts_with('#') {
            continue;
        }
        if let Some((name, text)) = block.strip_prefix("define ").and_then(|it| it.split_once(' '))
        {
            defined.push((format!("${name}"), text));
            continue;
        }
        let (kind, rest) = block.split_once('\n').expect(block);
        let (text, wanted) = rest.split_once("\n----").unwrap_or((rest, ""));
        let text = defined.iter().fold(text.to_owned(), |text, (name, by)| text.replace(name, by));
        let answer = ask(engine, session, &text).await;
        let (found, wanted) = match kind {
            "query" => (answer.map(|lines| lines[1..].join("\n")), wanted.trim_start_matches('\n')),
            "query names" => {
                (answer.map(|lines| lines.join("\n")), wanted.trim_start_matches('\n'))
            }
            "statement ok" => (answer.map(|_| String::new()), ""),
            _ => {
                let code = kind.strip_prefix("statement error ").expect(block);
                (
                    answer
                        .map_or_else(|error| Ok(error.code.to_string()), |_| Ok("done".to_owned())),
                    code,
                )
            }
        };
        let found = found.unwrap_or_else(|error| error.to_string());
        if found != wanted {
            wrong.push(format!("{text}\n  is {found}\n  not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn scripts_answer_as_they_say() {
    let with_port = || SqlSettings {
        variables: vec![("pinba_port".into(), "30002".into())],
        ..SqlSettings::default()
    };
    let folding = SqlSettings::from(SqlConfig { case_insensitive: true, ..Config::default().sql });
    for (script, settings) in cases![
        include_str!("tests/values.slt") => SqlSettings::default();
        include_str!("tests/percentiles.slt") => SqlSettings::default();
        include_str!("tests/queries.slt") => SqlSettings::default();
        include_str!("tests/case_insensitive.slt") => folding;
        include_str!("tests/settings.slt") => SqlSettings::default();
        include_str!("tests/information_schema.slt") => with_port();
    ] {
        let mut session = Session::new(5, "me@here", true);
        run_script(&engine(settings), &mut session, script).await;
    }
    let mut session = Session::new(5, "me@here", false);
    run_script(&engine(with_port()), &mut session, include_str!("tests/sessions.slt")).await;
    assert!(session.autocommit() && session.in_transaction);
    let results = session.variables.get("character_set_results");
    assert_eq!(results.map(String::as_str), Some("utf8mb4"));
}

/// A variable has all digits of a FLOAT, and finds the row again that it is from.
#[tokio::test]
async fn variables_keep_floats() {
    let mut pools = Pools::new(100, 100);
    pools.fill(&TrafficOptions::default(), 50);
    let engine = engine_over(pools, SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let longest = "(SELECT MAX(req_time) FROM request)";
    for (text, wanted) in [
        (format!("SET @x = {longest}"), "done"),
        ("SELECT COUNT(*) > 0 FROM request WHERE req_time = @x".to_owned(), "1"),
        (format!("SELECT @x = {longest}"), "1"),
    ] {
        let answer = ask(&engine, &mut session, &text).await.expect(&text);
        assert_eq!(answer.last().map(String::as_str), Some(wanted), "{text}");
    }
}

/// What a join has in common is a column of `*`, also where a percentile is selected beside it.
#[tokio::test]
async fn common_columns_of_a_join_are_shown_once() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", true);
    for join in [
        "JOIN report_by_status b USING (STATUS)",
        "LEFT JOIN report_by_status b USING (status, req_count)",
        "JOIN (SELECT status, 7 AS seven FROM report_by_status) b USING (status)",
        "NATURAL JOIN report_by_status b",
        "JOIN report_by_status b ON a.status = b.status",
    ] {
        let from = format!("FROM report_by_status a {join}");
        let all = ask(&engine, &mut session, &format!("SELECT * {from}")).await.expect(join);
        let more = format!("SELECT *, a.p95 {from}");
        let more = ask(&engine, &mut session, &more).await.expect(join);
        assert_eq!(more, [format!("{}|p95", all[0])], "{join}");
    }
}

/// Names of columns are cut at a character, alike for rows and for a prepared statement: PHP
/// refuses a definition of more than 4 KB. Columns that begin alike stay apart.
#[tokio::test]
async fn long_names_of_columns_are_cut() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", true);
    let long = "é".repeat(3_000);
    let select = format!("SELECT LENGTH('{long}a'), LENGTH('{long}bc'), 3 AS `{long}`, 4 AS short");
    let called = format!("LENGTH('{}", "é".repeat(123));
    let aliased = "é".repeat(127);
    let wanted = [&*called, &called, &aliased, "short"];
    for text in [select.clone(), format!("SELECT * FROM ({select}) t ORDER BY `{long}`")] {
        let answer = ask(&engine, &mut session, &text).await.expect("an answer");
        assert_eq!(answer, [wanted.join("|"), "6001|6002|3|4".to_owned()]);
        let prepared = engine.prepare(&session, &text).await.expect("prepared");
        let names: Vec<&str> = prepared.columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, wanted);
    }
}

/// A prepared SHOW announces the columns that it brings.
#[tokio::test]
async fn a_prepared_show_names_its_columns_as_its_answer_does() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (text, wanted) in cases![
        "SHOW TABLES LIKE 'ti%'" => "Tables_in_pinba (ti%)";
        "SHOW DATABASES LIKE 'p%'" => "Database (p%)";
        "SHOW FULL TABLES" => "Tables_in_pinba";
    ] {
        let prepared = engine.prepare(&session, text).await.expect(text);
        assert_eq!(prepared.columns[0].name, wanted);
        let Reply::Rows(rows) = engine.run(&mut session, text, &[]).await.expect(text) else {
            panic!("{text}: no rows");
        };
        assert_eq!(prepared.columns, rows.columns, "{text}");
    }
}

#[tokio::test]
async fn a_column_that_can_be_named_can_be_named_alone() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(1, "test", false);
    for columns in ["req_per_sec", "timer_count, p95", "error_count", "i.timer_count"] {
        let text = format!("SELECT {columns} FROM pinba.info i");
        ask(&engine, &mut session, &text).await.expect(&text);
    }
    let unknown = ask(&engine, &mut session, "SELECT eror_count FROM pinba.info").await;
    assert_has!(unknown.unwrap_err().message => "did you mean \"error_count\"?");
}

/// The values of a percentile count as memory of queries, in groups and in windows.
#[tokio::test]
async fn percentiles_take_no_more_than_they_may() {
    let digits = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let from = format!("{digits} a, {digits} b, {digits} c, {digits} d, {digits} e");
    let mut session = Session::new(1, "test", false);
    for (memory, fits) in [(1 << 20, false), (64 << 20, true)] {
        let engine = engine(SqlConfig { memory, ..Config::default().sql });
        let text = format!("SELECT MEDIAN(a.d + b.d) FROM {from}");
        let answer = ask(&engine, &mut session, &text).await;
        assert_eq!(answer.is_ok(), fits, "{answer:?}");
        assert_eq!(answer.err().map_or(1041, |error| error.code), 1041);
        at_rest(&engine).await;
    }
}

/// A prepared statement is told the type that its rows have: the binary protocol depends on it.
#[tokio::test]
async fn a_choice_has_the_type_of_all_it_chooses_from() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (text, wanted) in cases![
        "SELECT IF(? > 1, 0, 0.5)" => "decimal";
        "SELECT CASE WHEN ? THEN 1 ELSE 2e0 END * 3" => "double";
        "SELECT IF(?, FROM_UNIXTIME(0), '-')" => "text";
        "SELECT IFNULL(1 = 1, 0)" => "bigint";
        "SELECT 1 x UNION ALL SELECT 2.5" => "decimal";
        "SELECT NULL x UNION ALL SELECT 1" => "bigint";
        "SELECT x * 2 FROM (SELECT 1 x UNION ALL SELECT 2.5) t" => "decimal";
        "SELECT (SELECT id FROM request WHERE id = -1)" => "bigint";
    ] {
        let prepared = engine.prepare(&session, text).await.expect(text);
        let values = vec![Literal::Int(1); prepared.parameters];
        let Reply::Rows(rows) = engine.run(&mut session, text, &values).await.expect(text) else {
            panic!("{text}: no rows");
        };
        for columns in [&prepared.columns, &rows.columns] {
            let name = columns[0].sql_type.to_string();
            assert!(name.starts_with(wanted), "{text}: {name}");
            assert!(columns[0].nullable || !text.contains("-1"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_parameter_counts_through_set_statement() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let text = "SET STATEMENT max_statement_time = 5 FOR SELECT ? AS a";
    let prepared = engine.prepare(&session, text).await.expect("prepared");
    assert_eq!((prepared.parameters, prepared.columns.len()), (1, 1));
    let values = [Literal::Int(7)];
    let reply = engine.run(&mut session, text, &values).await.expect("a row");
    assert_eq!(rows(reply).await.expect("rows"), ["a", "7"]);
}

/// A client that goes, or whose statement is killed, drops what runs it.
#[tokio::test]
async fn settings_for_a_statement_end_with_it() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let text = "SET STATEMENT sql_select_limit = 1, time_zone = '+05:00' FOR SELECT SLEEP(20)";
    let run = engine.run(&mut session, text, &[]);
    let ended = tokio::time::timeout(Duration::from_millis(300), run).await;
    assert!(ended.is_err(), "it still sleeps");
    assert!(session.variables.is_empty(), "{:?}", session.variables);
}

#[tokio::test]
async fn explain_and_show_take_values() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    for (text, value) in [
        ("EXPLAIN SELECT * FROM request WHERE id = ?", Literal::Int(7)),
        ("SHOW COLUMNS FROM request WHERE Field = ?", Literal::Text("id".into())),
    ] {
        assert_eq!(engine.prepare(&session, text).await.expect(text).parameters, 1);
        let reply = engine.run(&mut session, text, &[value]).await.expect(text);
        assert_eq!(
            rows(reply).await.expect(text).len(),
            if text.starts_with("SHOW") { 2 } else { 4 }
        );
    }
}

#[tokio::test]
async fn values_and_preparing() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let text = "SELECT ? + 1, ?, a FROM (SELECT 7 a) t WHERE a = ? AND a > ? LIMIT ?";
    let prepared = engine.prepare(&session, text).await.expect("prepared");
    assert_eq!(prepared.parameters, 5);
    let names: Vec<_> = prepared.columns.iter().map(|column| column.name.as_str()).collect();
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
    let few = engine.run(&mut session, text, &values[..2]).await.expect_err("too few");
    assert_eq!(few.code, 1210);
    assert_eq!(
        engine.prepare(&session, "SELECT nope FROM status").await.expect_err("column").code,
        1054
    );
    assert_eq!(engine.prepare(&session, "SELECT 1 FROM nope").await.expect_err("table").code, 1146);
}

#[tokio::test]
async fn tables_are_described() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let like = "SHOW TABLE STATUS FROM pinba LIKE 'report\\_by\\_server\\_name'";
    let create = "SHOW CREATE TABLE `timertag`";
    let mut asked = async |text: &str| ask(&engine, &mut session, text).await.expect(text);
    let status = asked(like).await;
    assert_eq!(status[0].split('|').count(), 20);
    assert_eq!(status.len(), 2, "{status:?}");
    let statement = asked(create).await;
    assert_has!(statement[1] => "\n) ENGINE=PINBA DEFAULT CHARSET=");
    asked("SET SQL_MODE=NO_TABLE_OPTIONS").await;
    let statement = asked(create).await;
    assert!(statement[1].ends_with("\n)"), "{statement:?}");
    assert!(asked("EXPLAIN SELECT 1 FROM request").await.len() > 2);
    let error = ask(&engine, &mut session, "DROP TABLE x").await;
    assert_eq!(error.expect_err("no admin").code, 1227);
}

/// Waits until no statement holds anything.
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
        let (mut text, sum) = ("SELECT id x FROM request".to_owned(), ["x"; 8].join(" + "));
        // Deeper ones are refused for their depth.
        for at in 0..often.min(6) {
            text = format!("SELECT {sum} AS x FROM ({text}) t{at}");
        }
        format!("SELECT x FROM ({text}) t WHERE x > 1")
    };
    let conditions = |often: usize| {
        let tests = nested("IF(", " = 2, b, b)", often);
        format!("SELECT {tests} FROM (SELECT 1 = 1 AS b) t")
    };
    type Made<'a> = &'a dyn Fn(usize) -> String;
    let cases: [(&str, Made<'_>); 6] = cases![
        "tables" => &doubled;
        "conditions" => &conditions;
        "conditions of columns that may be NULL" => &|often| { let tests = nested("IF(",
            " = 2, req_time, req_time)", often); format!("SELECT {tests} FROM request") };
        "NULLIF" => &|often| { format!("SELECT {}", nested("NULLIF(", ", 2)", often)) };
        "COALESCE" => &|often| { let calls = nested("COALESCE(", ", 2)",
            often); format!("SELECT {calls} + id FROM request") };
        "IFNULL" => &|often| { format!("SELECT {}", nested("IFNULL(", ", x)",
            often)) + " FROM (SELECT id x FROM request) t" };
    ];
    // Many side by side are fine.
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
    // On a busy machine some take longer than usual.
    let time_max = Duration::from_secs(600);
    let engine = engine(SqlConfig { memory: 64 << 20, time_max, ..Config::default().sql });
    let mut session = Session::new(5, "me@here", false);
    let many = |each: &str, often: usize| {
        let calls = (0..often).map(|at| each.replace('#', &(900_000 + at).to_string()));
        calls.collect::<Vec<_>>().join(", ")
    };
    for (text, wanted) in cases![
        "LENGTH(REPEAT('a', 10000000))" => Ok("10000000");
        // Would be 400 MB without the limit.
        "REGEXP_REPLACE(REPEAT('a', 20000), 'a', REPEAT('b', 20000))" => Ok("NULL");
        r"REGEXP_REPLACE(REPEAT('a', 20000), '^(.*)$', REPEAT('\\1', 20000))" => Ok("NULL");
        r"REGEXP_REPLACE('abc', '(b)|(x)', '[\\1$]')" => Ok("a[b$]c");
        r"QUOTE('a\'b\\')" => Ok(r"'a\'b\\'");
        "INSERT('aéiou', 2, 2, 'XYZ'), INSERT('abc', 4, 1, 'x'), INSERT('abc', 0, 1, 'x'), INSERT('abc', 3, 9, 'x'), INSERT('abc', 2, -1, 'x')" =>
            Ok("aXYZou|abc|abc|abx|ax");
        &many("REPEAT('a', #)", 300) => Err(1041);
        &format!("LENGTH(CONCAT({}))", many("REPEAT('a', #)", 300)) => Err(1041);
    ] {
        let text = format!("SELECT {text}");
        let answer = ask(&engine, &mut session, &text).await;
        let answer = answer.map(|lines| lines[1..].join("/"));
        let answer = answer.map_err(|error| error.code);
        assert_eq!(answer, wanted.map(str::to_owned), "{text}");
    }
    // Each is twice as long as the one inside it.
    let quotes = format!("SELECT LENGTH({})", nested("QUOTE(", ")", 26));
    let length = ask(&engine, &mut session, &quotes).await;
    let length = length.expect("a length")[1].parse::<usize>();
    assert!(length.is_ok_and(|length| length <= functions::TEXT_MAX));
    let columns = "SELECT SUM(LENGTH(REPEAT(column_name, 20000))) FROM information_schema.columns";
    let error = ask(&engine, &mut session, columns).await;
    let error = error.expect_err("two hundred MB");
    assert!(error.code == 1041 && error.message.contains("sql.memory"), "{error}");
    let few = columns.replace("20000", "100");
    assert!(ask(&engine, &mut session, &few).await.is_ok());
    // The values collected from many rows are counted earlier.
    let all =
        "SELECT LENGTH(GROUP_CONCAT(REPEAT(column_name, 20000))) FROM information_schema.columns";
    let error = ask(&engine, &mut session, all).await;
    assert_eq!(error.expect_err("two hundred MB").code, 1041);
    at_rest(&engine).await;
}

/// Asserts that the statement ended long before it would have by itself, however busy the machine
/// is.
#[track_caller]
fn assert_soon(start: Instant) {
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[tokio::test]
async fn what_takes_too_long_ends_while_it_calculates() {
    let engine =
        engine(SqlConfig { time_max: Duration::from_millis(100), ..Config::default().sql });
    let mut session = Session::new(5, "me@here", false);
    // Every column of a table is searched in many megabytes, many times: one batch that takes
    // minutes.
    let looks = (0..10).map(|at| format!("LOCATE(column_name, REPEAT('a', {}))", 1_000_000 + at));
    let looks: Vec<_> = looks.collect();
    let text = format!("SELECT SUM({}) FROM information_schema.columns", looks.join(" + "));
    let start = Instant::now();
    let error = ask(&engine, &mut session, &text).await.expect_err("long");
    assert_eq!(error.code, 1969, "{error}");
    // The work ends too, not just the client's wait.
    at_rest(&engine).await;
    assert_soon(start);
    // The same for functions that generate their own rows.
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
    // Work that cannot be interrupted keeps its client no longer than the limit.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let asking = Session::new(1, "me@here", false);
    let stuck = engine.on_own_threads(&asking, |_, _| async move {
        let _released = held.recv();
        Ok(())
    });
    let left = tokio::time::timeout(Duration::from_secs(60), stuck).await;
    assert_eq!(left.expect("no end").expect_err("late").code, 1969);
    // Its thread is missed.
    let catalog = &engine.0.catalog;
    let later = catalog.clock.mono_ms() + 11_000;
    let why = catalog.why_sql_blocked(later).expect("it runs on");
    assert_has!(why => "ended up to 11 s ago and still run");
    drop(release);
    while catalog.why_sql_blocked(later).is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn planning_takes_a_place() {
    let engine = engine(SqlConfig { queries_max: 1, ..Config::default().sql });
    let mut session = Session::new(5, "me@here", false);
    let place = engine.place().await.expect("a place");
    let error = engine.prepare(&session, "SELECT 1").await;
    assert_eq!(error.expect_err("no place").code, 1040);
    for text in ["SELECT 1", "EXPLAIN SELECT 1", "SHOW TABLES WHERE 1"] {
        let error = ask(&engine, &mut session, text).await;
        assert_eq!(error.expect_err(text).code, 1040);
    }
    // Constants are not planned: pools set them at each login.
    for text in ["SET NAMES utf8", "SET autocommit = 0, @a = 'x', @b = NULL, @c = \"y\", @d = TRUE"]
    {
        assert!(ask(&engine, &mut session, text).await.is_ok(), "{text}");
    }
    drop(place);
    let set = ask(&engine, &mut session, "SELECT @@autocommit, @a, @b, @c, @d").await;
    assert_eq!(set.expect("values")[1], "0|x|NULL|y|1");
}

#[tokio::test]
async fn a_reader_that_takes_nothing_holds_no_place_when_the_time_is_over() {
    let time_max = Duration::from_secs(10);
    let engine = engine(SqlConfig { queries_max: 1, time_max, ..Config::default().sql });
    let mut session = Session::new(5, "me@here", false);
    // Many more batches than are made ahead.
    let text =
        "SELECT a.column_name FROM information_schema.columns a, information_schema.columns b";
    let reply = engine.run(&mut session, text, &[]).await.expect("it runs");
    let Reply::Rows(mut rows) = reply else {
        panic!("no rows");
    };
    let freed = async { while engine.place().await.is_err() {} };
    let freed = tokio::time::timeout(Duration::from_secs(60), freed).await;
    freed.expect("the place is free before anything is read");
    let mut last = None;
    while let Some(batch) = rows.next().await {
        last = Some(batch);
    }
    let error = last.expect("an end").expect_err("late");
    assert_eq!(error.code, 1969, "{error}");
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

/// MariaDB has no LATERAL, so that the statements compared with it do not.
#[tokio::test]
async fn lateral_is_refused() {
    let engine = engine(SqlSettings::default());
    let mut session = Session::new(5, "me@here", false);
    let lateral = "SELECT * FROM request r, LATERAL (SELECT COUNT(*) FROM timer t WHERE t.request_id = r.id) x";
    let error = ask(&engine, &mut session, lateral).await.expect_err(lateral);
    assert_eq!(error.code, 1235, "{error}");
    assert!(error.message.contains("LATERAL"), "{error}");
}
