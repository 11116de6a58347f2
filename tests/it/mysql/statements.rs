//! Statements that clients send besides their users' queries, over the wire: the statements of each
//! client, and the parts of the answer that it looks at.

use std::time::{Duration, Instant};

use super::Shop;
use super::client::{Client, Outcome, texts};

const AUTOCOMMIT: u16 = 2;
const IN_TRANSACTION: u16 = 1;
const MORE_RESULTS: u16 = 8;

/// Statements of Grafana's MySQL data source: its lists of tables and columns, and the expansions
/// of its macros.
#[test]
fn grafana() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let ask = |text: &str| Client::connect(shop.mysql).table(text);
    assert_eq!(
        ask(
            "SELECT DISTINCT TABLE_SCHEMA from information_schema.TABLES where TABLE_TYPE != 'SYSTEM VIEW' ORDER BY TABLE_SCHEMA"
        ),
        [["performance_schema"], ["pinba"]]
    );
    for database in ["'pinba'", "database()"] {
        let tables = ask(&format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = {database} ORDER BY table_name"
        ));
        for name in ["info", "report_by_script_name", "request", "timer"] {
            assert!(tables.contains(&vec![name.to_owned()]), "{tables:?}");
        }
        assert!(tables.is_sorted(), "{tables:?}");
    }
    let columns = ask(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'pinba' AND table_name = 'request' \
         ORDER BY column_name",
    );
    assert_eq!(columns.len(), 17, "{columns:?}");
    assert!(columns.contains(&vec!["req_time".to_owned(), "float".to_owned()]));
    let moments = ask(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'pinba' AND table_name = 'request' \
         AND data_type IN ('date', 'timestamp', 'datetime', 'time', 'int', 'bigint') ORDER BY column_name",
    );
    assert!(moments.contains(&vec!["timestamp".to_owned(), "int".to_owned()]));
    assert!(!moments.contains(&vec!["req_time".to_owned(), "float".to_owned()]));
    // $__unixEpochFilter, $__unixEpochGroup: one minute or two, all twelve requests.
    let groups = ask(
        "SELECT `timestamp` DIV 60 * 60 AS \"time\", count(*) AS value, script_name AS metric FROM request \
         WHERE `timestamp` >= 1 AND `timestamp` <= 4000000000 GROUP BY 1, 3 ORDER BY 1",
    );
    let sum: i32 = groups.iter().map(|row| row[1].parse::<i32>().unwrap()).sum();
    assert_eq!(sum, 12, "{groups:?}");
    assert!(groups.iter().all(|row| row[0].parse::<u64>().unwrap() % 60 == 0), "{groups:?}");
    // $__timeFilter, $__timeGroup, $__time over a moment.
    let moments = ask(
        "SELECT UNIX_TIMESTAMP(FROM_UNIXTIME(timestamp)) DIV 60 * 60 AS \"time\", max(req_time) AS value FROM request \
         WHERE FROM_UNIXTIME(timestamp) BETWEEN FROM_UNIXTIME(1) AND FROM_UNIXTIME(4000000000) GROUP BY 1 ORDER BY 1",
    );
    assert_eq!(moments.last().unwrap()[1], "1.5", "{moments:?}");
    let series = ask(
        "SELECT UNIX_TIMESTAMP(FROM_UNIXTIME(timestamp)) as time_sec, req_time as value, hostname as metric FROM request \
         WHERE FROM_UNIXTIME(timestamp) BETWEEN FROM_UNIXTIME(1) AND FROM_UNIXTIME(4000000000) ORDER BY timestamp ASC, id",
    );
    assert_eq!((series.len(), &*series[6][1]), (12, "0.875"));
    // Its health check.
    client.assert_alive();
}

/// Statements that drivers and tools send when they connect, with the answers they need to go on.
#[test]
fn what_is_asked_before_the_first_query() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    for (asked, told) in [
        ("select @@version_comment limit 1", "pinbad"),
        ("SELECT @@tx_isolation", "REPEATABLE-READ"),
        ("SELECT @@transaction_isolation", "REPEATABLE-READ"),
        ("SELECT @@sql_mode", ""),
        ("SELECT @@lower_case_table_names", "0"),
        ("SELECT @@max_allowed_packet", "16777216"),
        ("SELECT @@session.autocommit", "1"),
        ("SELECT @@global.read_only", "1"),
        ("SELECT DATABASE()", "pinba"),
        ("select @@collation_database", "utf8mb4_general_ci"),
    ] {
        assert_eq!(client.value(asked), told, "{asked}");
    }
    assert!(client.value("SELECT VERSION()").starts_with("10.11."));
    let user = client.table("select DATABASE(), USER() limit 1");
    assert_eq!(user, [["pinba", "somebody@127.0.0.1"]]);
    let many = "/* mysql-connector-java-8.0.30 (Revision: 1de2fe8) */SELECT  @@session.auto_increment_increment AS \
        auto_increment_increment, @@character_set_client AS character_set_client, @@character_set_connection AS \
        character_set_connection, @@character_set_results AS character_set_results, @@character_set_server AS \
        character_set_server, @@collation_server AS collation_server, @@collation_connection AS collation_connection, \
        @@init_connect AS init_connect, @@interactive_timeout AS interactive_timeout, @@license AS license, \
        @@lower_case_table_names AS lower_case_table_names, @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS \
        net_write_timeout, @@performance_schema AS performance_schema, @@sql_mode AS sql_mode, @@system_time_zone AS \
        system_time_zone, @@time_zone AS time_zone, @@transaction_isolation AS transaction_isolation, @@wait_timeout AS \
        wait_timeout";
    assert_eq!(client.table(many)[0].len(), 19);
    for text in [
        "SET NAMES utf8mb4",
        "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'",
        "SET @@session.autocommit = OFF",
        "set autocommit=1, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "set session wait_timeout = 600",
        "set time_zone='+00:00'",
        "SET @user := 5",
        "/*!40100 SET @@SQL_MODE='' */",
        "/*!40103 SET TIME_ZONE='+00:00' */",
        "/*M!100100 SET @@MAX_STATEMENT_TIME=0.000000 */",
        "/*M!100100 SET WAIT_TIMEOUT=DEFAULT */",
        "SET SQL_QUOTE_SHOW_CREATE=1",
        "SET SESSION character_set_results = 'binary'",
        "LOCK TABLES `request` READ /*!32311 LOCAL */",
        "UNLOCK TABLES",
        "START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */",
        "SAVEPOINT sp",
        "ROLLBACK TO SAVEPOINT sp",
        "RELEASE SAVEPOINT sp",
        "ROLLBACK ",
        "use `information_schema`;",
        "USE pinba",
        "DO SLEEP(0)",
    ] {
        client.assert_done(text);
    }
    assert_eq!(client.refused("SELECT @@nothing").0, 1193);
    // What there is nothing of is empty, not an error.
    for name in "FILES PARTITIONS TRIGGERS ROUTINES VIEWS EVENTS".split(' ') {
        let rows = client.table(&format!("SELECT * FROM INFORMATION_SCHEMA.{name}"));
        assert!(rows.is_empty(), "{name}: {rows:?}");
    }
    for show in [
        "WARNINGS",
        "ERRORS",
        "ENGINES",
        "PLUGINS",
        "COLLATION",
        "CHARACTER SET",
        "PROCESSLIST",
        "GRANTS",
        "INDEX FROM request",
        "KEYS FROM `request`",
        "FULL TABLES FROM `pinba`",
        "schemas",
        "FULL COLUMNS FROM `request` FROM pinba LIKE 'req%'",
    ] {
        client.rows(&format!("SHOW {show}"));
    }
    // Pinboard's migrations look for the engine.
    let engine = "SELECT COUNT(*) FROM information_schema.ENGINES WHERE ENGINE='PINBA' AND SUPPORT IN ('YES','DEFAULT')";
    assert_eq!(client.value(engine), "1");
    // pandas asks whether a query is a table.
    let missing = "DESCRIBE `pinba`.`SELECT * FROM request`";
    assert_eq!(client.refused(missing).0, 1146);
}

/// The flags of a session come with every answer.
#[test]
fn autocommit_transactions_and_resets() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let mut status = |text: &str| match client.query(text) {
        Outcome::Done { status } | Outcome::Rows { status, .. } => status,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(status("SELECT 1"), AUTOCOMMIT);
    assert_eq!(status("START TRANSACTION READ ONLY"), AUTOCOMMIT | IN_TRANSACTION);
    assert_eq!(status("SELECT req_count FROM info"), AUTOCOMMIT | IN_TRANSACTION);
    assert_eq!(status("COMMIT "), AUTOCOMMIT);
    assert_eq!(status("SET AUTOCOMMIT = 0") & AUTOCOMMIT, 0);
    assert_eq!(status("SELECT @@autocommit") & AUTOCOMMIT, 0);
    // A change of user, or a reset, begins anew.
    client.command(17, b"other\0\0pinba\0\x2d\0mysql_native_password\0");
    assert!(matches!(client.outcome(), Outcome::Done { status: AUTOCOMMIT }));
    assert_eq!(client.value("SELECT @@autocommit"), "1");
    assert_eq!(client.value("SELECT USER()"), "other@127.0.0.1");
    client.assert_done("SET @kept := 7");
    assert_eq!(client.value("SELECT @kept"), "7");
    client.command(31, b"");
    assert!(matches!(client.outcome(), Outcome::Done { .. }));
    assert_eq!(client.value("SELECT @kept"), "NULL");
    assert_eq!(client.value("SELECT DATABASE()"), "pinba");
}

#[test]
fn several_statements_in_one_text() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let several = "SELECT 1; SET @x := 2; SELECT @x, ';' ; SELECT nothing FROM info; SELECT 3";
    client.command(3, several.as_bytes());
    let Outcome::Rows { rows, status, .. } = client.outcome() else {
        panic!("no rows");
    };
    assert_eq!(status, AUTOCOMMIT | MORE_RESULTS);
    assert_eq!(texts(&rows[0]), [Some("1".to_owned())]);
    let done = client.outcome();
    assert!(
        matches!(done, Outcome::Done { status } if status == AUTOCOMMIT | MORE_RESULTS),
        "{done:?}"
    );
    let Outcome::Rows { rows, status, .. } = client.outcome() else {
        panic!("no rows");
    };
    assert_eq!(status, AUTOCOMMIT | MORE_RESULTS);
    assert_eq!(texts(&rows[0]), [Some("2".to_owned()), Some(";".to_owned())]);
    // The first that fails is the last that is run.
    assert!(matches!(client.outcome(), Outcome::Failed { code: 1054, .. }));
    client.assert_alive();
    // The last of several says that nothing follows.
    client.command(3, b"SELECT 1;SELECT 2;");
    for last in [false, true] {
        let Outcome::Rows { status, .. } = client.outcome() else {
            panic!("no rows");
        };
        assert_eq!(status & MORE_RESULTS == 0, last);
    }
    // Whoever did not ask for it gets an error, and so does whoever switched it off.
    let mut plain = Client::with_capabilities(shop.mysql, 0);
    assert_eq!(plain.refused("SELECT 1; SELECT 2").0, 1064);
    assert_eq!(plain.value("SELECT 1;"), "1");
    client.command(27, &[1, 0]);
    client.read();
    assert_eq!(client.refused("SELECT 1; SELECT 2").0, 1064);
}

/// Type, charset, length, flags and decimals of each kind of column, as MySQL tells them.
#[test]
fn columns_of_every_type() {
    const NOT_NULL: u16 = 1;
    const PRIMARY: u16 = 2;
    const PART: u16 = 0x4000;
    const BINARY: u16 = 0x80;
    const BLOB: u16 = 0x10;
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let outcome = client.query(
        "SELECT r.id, hostname AS h, status, req_time, tags, 1.5, status DIV 2, FROM_UNIXTIME(timestamp), NULL, \
         req_count / status, LEFT(hostname, 3) FROM request AS r WHERE id = 1",
    );
    let Outcome::Rows { columns, .. } = outcome else {
        panic!("{outcome:?}");
    };
    let told: Vec<_> = columns
        .iter()
        .map(|column| (column.kind, column.charset, column.length, column.flags, column.decimals))
        .collect();
    assert_eq!(
        told,
        [
            (8, 63, 20, NOT_NULL | PRIMARY | PART, 0),
            (253, 45, 4 * 255, 0, 0),
            (3, 63, 11, 0, 0),
            (4, 63, 12, 0, 31),
            (252, 45, 65_535, BLOB, 0),
            (246, 63, 4, NOT_NULL | BINARY, 1),
            (8, 63, 20, BINARY, 0),
            (12, 63, 19, BINARY, 0),
            (6, 63, 0, BINARY, 0),
            (246, 63, columns[9].length, BINARY, 4),
            (253, 45, 65_535, 0, 31),
        ]
    );
    let names = |at: usize| {
        let column = &columns[at];
        [&column.schema, &column.table, &column.org_table, &column.name, &column.org_name]
            .map(String::as_str)
    };
    assert_eq!(names(2), ["pinba", "r", "request", "status", "status"]);
    assert_eq!(names(1)[2..], ["request", "h", "hostname"]);
    assert_eq!(names(1)[1], "r");
    assert_eq!(names(5), ["", "", "", "1.5", ""]);
    // Of what is counted and summed.
    let Outcome::Rows { columns, .. } =
        client.query("SELECT count(*), sum(status), avg(status), sum(req_time) FROM request")
    else {
        panic!("no rows");
    };
    let kinds: Vec<_> = columns.iter().map(|column| (column.kind, column.decimals)).collect();
    assert_eq!(kinds, [(8, 0), (246, 0), (246, 4), (5, 31)]);
    // Texts come in the charset that was asked for last, and so do their lengths.
    for (charset, collation, length) in
        [("latin1", 8, 255), ("utf8", 33, 765), ("utf8mb4", 45, 1020)]
    {
        client.assert_done(&format!("SET NAMES {charset}"));
        let Outcome::Rows { columns, .. } = client.query("SELECT hostname FROM request LIMIT 1")
        else {
            panic!("no rows");
        };
        assert_eq!((columns[0].charset, columns[0].length), (collation, length));
    }
}

#[test]
fn values_as_texts() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    for (asked, told) in cases![
        // FLOAT: six digits.
        "SELECT req_time_percent FROM report_by_script_name WHERE script_name = '/index.php'" =>
            "26.9231";
        "SELECT req_time FROM request WHERE id = 7" => "0.875";
        // DOUBLE: as many as it needs.
        "SELECT CAST(1 AS DOUBLE) / 3" => "0.3333333333333333";
        // Division is never whole.
        "SELECT 7 / 2" => "3.5000";
        "SELECT hit_count / 4 FROM timer WHERE request_id = 1 ORDER BY id LIMIT 1" => "0.5000";
        "SELECT 1 / 0" => "NULL";
        "SELECT 7 DIV 2" => "3";
        // What is no number is NULL: nothing has been counted.
        "SELECT max(req_time) FROM request WHERE id = 0" => "NULL";
        "SELECT FROM_UNIXTIME(0)" => "1970-01-01 00:00:00";
    ] {
        assert_eq!(client.value(asked), told, "{asked}");
    }
}

#[test]
fn writes_are_refused() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    for text in [
        "INSERT INTO tag (id, name) VALUES (9, 'x')",
        "INSERT IGNORE INTO request SELECT * FROM request",
        "UPDATE request SET hostname = 'x'",
        "DELETE FROM request WHERE id = 1",
        "REPLACE INTO tag VALUES (1, 'x')",
        "TRUNCATE TABLE request",
        "ALTER TABLE request ADD x int",
        "CREATE TABLE x (a int)",
        "CREATE TABLE x (a int) ENGINE=InnoDB",
        "CREATE DATABASE x",
        "CREATE INDEX a ON request (hostname)",
        "LOAD DATA INFILE 'x' INTO TABLE tag",
        "RENAME TABLE request TO other",
        "DROP TABLE request",
        "GRANT ALL ON *.* TO x",
    ] {
        let (code, message) = client.refused(text);
        assert_eq!(code, 1290, "{text}: {message}");
    }
    // Prepared, too: when it is prepared or when it is run, but with that code.
    let code = match client.prepare("INSERT INTO tag (name) VALUES (?)") {
        Err((code, _)) => code,
        Ok((id, ..)) => match client.execute(id, &[Some("x")]) {
            Outcome::Failed { code, .. } => code,
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(code, 1290);
    assert_eq!(client.value("SELECT count(*) FROM request"), "12");
}

#[test]
fn reports_are_made_and_dropped() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    let make = "CREATE TABLE `slow_tags` (`tag1_value` varchar(64) DEFAULT NULL, `req_count` int(11) DEFAULT NULL) \
        ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='tag_info:group'";
    client.assert_done(make);
    assert_eq!(client.refused(make).0, 1050);
    // It is a report like any other, and knows what is in the pool.
    let made = "SELECT count(*) FROM slow_tags";
    crate::harness::await_until("the report is filled", || client.value(made), |rows| *rows == "2");
    assert_eq!(shop.site().rows("slow_tags").len(), 2);
    let listed = "SELECT ENGINE, TABLE_TYPE, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME = 'slow_tags'";
    assert_eq!(client.table(listed), [["PINBA", "BASE TABLE", "tag_info:group"]]);
    let shown = &client.table("SHOW CREATE TABLE slow_tags")[0][1];
    assert!(
        shown.starts_with("CREATE TABLE `slow_tags` (\n  `") && shown.contains("ENGINE=PINBA"),
        "{shown}"
    );
    assert!(shown.ends_with("COMMENT='tag_info:group'"), "{shown}");
    // What a FEDERATED table is discovered by.
    client.assert_done("SET SQL_MODE=NO_TABLE_OPTIONS");
    let shown = &client.table("SHOW CREATE TABLE slow_tags")[0][1];
    assert!(shown.ends_with("\n)"), "{shown}");
    let wrong = "CREATE TABLE x (a int) ENGINE=PINBA COMMENT='report99'";
    let (code, message) = client.refused(wrong);
    assert_ne!(code, 1290);
    assert!(message.contains("report99"), "{code} {message}");
    client.assert_done("DROP TEMPORARY TABLE IF EXISTS slow_tags");
    assert_eq!(client.refused("DROP TEMPORARY TABLE slow_tags").0, 1051);
    assert_eq!(client.value(made), "2");
    client.assert_done("DROP TABLE slow_tags");
    client.assert_done("DROP TABLE IF EXISTS slow_tags");
    assert_eq!(client.refused("DROP TABLE slow_tags").0, 1051);
    assert_eq!(client.refused(made).0, 1146);
}

#[test]
fn variables_and_status_of_pinba() {
    let shop = Shop::with(&[
        "pool.stats_history=600",
        "pool.request_pool_size=70000",
        "mysql.packet_max=1MiB",
        "mysql.idle_max=100",
    ]);
    let mut client = Client::connect(shop.mysql);
    let variables = client.table("SHOW VARIABLES LIKE 'pinba_%'");
    for (name, set) in [
        ("pinba_stats_history", "600"),
        ("pinba_request_pool_size", "70000"),
        ("pinba_address", "127.0.0.1"),
        ("pinba_stats_gathering_period", "10000"),
        ("pinba_error_status", "500"),
    ] {
        let row = [name.to_owned(), set.to_owned()];
        assert!(variables.iter().any(|variable| **variable == row), "{name}: {variables:?}");
    }
    for name in ["pinba_port", "pinba_temp_pool_size", "pinba_tag_report_timeout"] {
        assert!(variables.iter().any(|variable| variable[0] == name), "{name}: {variables:?}");
    }
    assert_eq!(client.value("SELECT @@pinba_stats_history"), "600");
    let limits = "SELECT @@max_allowed_packet, @@wait_timeout, @@have_ssl";
    assert_eq!(client.table(limits), [["1048576", "100", "DISABLED"]]);
    for show in ["SHOW STATUS LIKE 'pinba%'", "SHOW GLOBAL STATUS LIKE 'Pinba%'"] {
        let status = client.table(show);
        let merged = status.iter().find(|row| row[0].eq_ignore_ascii_case("pinba_requests_merged"));
        assert_eq!(merged.map(|row| &*row[1]), Some("12"), "{status:?}");
    }
    let counted = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'PINBA_DATAGRAMS_ACCEPTED'";
    assert_eq!(client.value(counted), "12");
}

/// The statement of a FEDERATED table with a key of two texts: rows with the key come before those
/// that only begin like it.
#[test]
fn rows_by_a_prefix_come_with_their_key_first() {
    let shop = Shop::open();
    let mut client = Client::connect(shop.mysql);
    for (server, first) in [("s1.example", "1"), ("s1.example.org", "4")] {
        let asked = format!(
            "SELECT `id`, `server_name` FROM `request` WHERE  (`server_name` LIKE '{server}%')  AND  (`hostname` = 'web1') "
        );
        let rows = client.table(&asked);
        assert_eq!(rows[0][0], first, "{rows:?}");
        let with_key = rows.iter().take_while(|row| row[1] == server).count();
        assert_eq!(with_key, 2, "{rows:?}");
    }
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let shop = Shop::with(&["sql.time_max=1s"]);
    let mut client = Client::connect(shop.mysql);
    let start = Instant::now();
    let (code, message) = client.refused(super::connections::LONG);
    assert_eq!(code, 1969, "{message}");
    assert!(message.contains("sql.time_max"), "{message}");
    assert!(start.elapsed() >= Duration::from_secs(1));
    client.assert_alive();
}
