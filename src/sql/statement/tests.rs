//! Statements by their first words.

use super::*;

fn is(text: &str) -> Statement {
    read(text, false).expect(text)
}

#[test]
fn small_statements() {
    assert_eq!(is("/* x */ SELECT 1;"), Statement::Query);
    assert_eq!(is("(select 1) union (select 2)"), Statement::Query);
    assert_eq!(is("use `pinba` ;"), Statement::Use("pinba".into()));
    assert_eq!(
        is("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */"),
        Statement::Begin
    );
    assert_eq!(is("COMMIT "), Statement::End);
    assert_eq!(is("ROLLBACK TO SAVEPOINT sp"), Statement::Nothing);
    assert_eq!(
        is("LOCK TABLES `t` READ /*!32311 LOCAL */"),
        Statement::Nothing
    );
    assert_eq!(
        is("explain select 1"),
        Statement::Explain("select 1".into())
    );
}

#[test]
fn settings() {
    let system = |name: &str, value: &str| Setting::System {
        name: name.into(),
        value: Some(value.into()),
    };
    for (text, wanted) in [
        (
            "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'",
            vec![Setting::Names(Some("utf8mb4".into()))],
        ),
        ("set names default", vec![Setting::Names(None)]),
        (
            "set autocommit=1, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')",
            vec![
                system("autocommit", "1"),
                system("sql_mode", "concat(@@sql_mode,',STRICT_TRANS_TABLES')"),
            ],
        ),
        (
            "SET @@session.autocommit = OFF",
            vec![system("autocommit", "OFF")],
        ),
        (
            "/*!40100 SET @@SQL_MODE='' */",
            vec![system("sql_mode", "''")],
        ),
        (
            "SET @x := 5, @`y z` = 'a'",
            vec![
                Setting::Own {
                    name: "x".into(),
                    value: "5".into(),
                },
                Setting::Own {
                    name: "y z".into(),
                    value: "'a'".into(),
                },
            ],
        ),
        (
            "/*M!100100 SET WAIT_TIMEOUT=DEFAULT */",
            vec![Setting::System {
                name: "wait_timeout".into(),
                value: None,
            }],
        ),
        (
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            vec![],
        ),
    ] {
        assert_eq!(is(text), Statement::Set(wanted), "{text}");
    }
    assert_eq!(
        read("SET GLOBAL x = 1", false).expect_err("global").code,
        1227
    );
}

#[test]
fn shows() {
    let what = |text: &str| match is(text) {
        Statement::Show(show) => show,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        what("SHOW FULL TABLES FROM `pinba` LIKE 're%'"),
        Show {
            what: What::Tables {
                database: Some("pinba".into()),
                full: true
            },
            like: Some("re%".into()),
            condition: None,
        }
    );
    assert_eq!(
        what("show full columns from `t` from pinba").what,
        What::Columns {
            database: Some("pinba".into()),
            table: "t".into(),
            full: true
        }
    );
    assert_eq!(
        what("DESCRIBE `pinba`.`SELECT * FROM request`").what,
        What::Columns {
            database: Some("pinba".into()),
            table: "SELECT * FROM request".into(),
            full: false
        }
    );
    assert_eq!(
        what("SHOW VARIABLES WHERE Variable_name = 'x'")
            .condition
            .as_deref(),
        Some("Variable_name = 'x'")
    );
    assert_eq!(what("SHOW COUNT(*) WARNINGS").what, What::CountWarnings);
    assert_eq!(
        read("SHOW BINARY LOGS", false).expect_err("no logs").code,
        1235
    );
}

#[test]
fn reports_are_made_and_dropped() {
    assert_eq!(
        is(
            "CREATE TABLE IF NOT EXISTS `a``b` (`id` int(11) DEFAULT 'x)', PRIMARY KEY (id)) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report6:::90,95'"
        ),
        Statement::Create(Create {
            database: None,
            name: "a`b".into(),
            if_not_exists: true,
            comment: "report6:::90,95".into(),
        })
    );
    assert_eq!(
        is("DROP TABLE IF EXISTS pinba.a, b"),
        Statement::Drop(Drop {
            tables: vec![(Some("pinba".into()), "a".into()), (None, "b".into())],
            if_exists: true,
        })
    );
    for text in [
        "CREATE TABLE x (a int)",
        "CREATE TABLE x ENGINE=InnoDB",
        "create temporary table x (a int)",
        "INSERT INTO t VALUES (1)",
        "drop database x",
        "UPDATE t SET a = 1",
    ] {
        assert_eq!(read(text, false).expect_err(text).code, 1290, "{text}");
    }
    assert_eq!(read("", false).expect_err("empty").code, 1065);
    assert_eq!(read("selekt 1", false).expect_err("no word").code, 1064);
}
