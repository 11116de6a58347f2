//! Statements by their first words.

use super::*;

fn read(text: &str) -> Result<Statement, SqlError> {
    Ok(parse(text, Mode::default())?.statement)
}

fn is(text: &str) -> Statement {
    read(text).expect(text)
}

#[test]
fn small_statements() {
    for query in ["/* x */ SELECT 1;", "(select 1) union (select 2)"] {
        assert!(matches!(is(query), Statement::Query(_)), "{query}");
    }
    assert_eq!(is("use `pinba` ;"), Statement::Use("pinba".into()));
    assert_eq!(is("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */"), Statement::Begin);
    assert_eq!(is("COMMIT "), Statement::End);
    assert_eq!(is("ROLLBACK TO SAVEPOINT sp"), Statement::Nothing);
    assert_eq!(is("LOCK TABLES `t` READ /*!32311 LOCAL */"), Statement::Nothing);
    for plan in ["explain select 1", "DESC FORMAT=JSON (SELECT 1)"] {
        assert!(matches!(is(plan), Statement::Explain(_)), "{plan}");
    }
    assert!(matches!(is("DO 1, sleep(0)"), Statement::Do(_)));
}

/// Each word as an operator: a tree without end would overflow the stack of its thread.
#[test]
fn no_chain_of_operators_is_read_without_end() {
    use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;

    let chains = ALL_KEYWORDS.iter().map(|word| format!(" {word} 1"));
    let others =
        [" MEMBER OF(1)", " SIMILAR TO 1", " NOT ILIKE 1", " AT TIME ZONE 'a'", " NOTNULL"];
    for link in chains.chain(others.map(str::to_owned)) {
        let chain = |often| format!("SELECT 1{}", link.repeat(often));
        if read(&chain(3)).is_ok() {
            assert!(read(&chain(2_100)).is_err(), "{link}");
        }
    }
    let often = "SET STATEMENT NAMES x FOR ".repeat(30_000);
    assert!(
        matches!(is(&(often + "SELECT 1")), Statement::SetFor(settings, _) if settings.len() == 90_000)
    );
}

/// Settings as read, with their values written out.
fn set(settings: Vec<Setting>) -> Vec<String> {
    let settings = settings.into_iter().map(|Setting { name, value }| {
        let at = if name.starts_with('@') { "" } else { "@@" };
        let value = value.map_or("default".to_owned(), |value| value.to_string());
        format!("{at}{name} {value}")
    });
    settings.collect()
}

#[test]
fn settings() {
    for (text, wanted) in cases![
        "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'" => vec!["@@character_set_client utf8mb4",
            "@@character_set_connection utf8mb4", "@@character_set_results utf8mb4"];
        "set names default" => vec!["@@character_set_client default",
            "@@character_set_connection default", "@@character_set_results default"];
        "set autocommit=1, sql_mode = concat(@@sql_mode,',STRICT_TRANS_TABLES')" =>
            vec!["@@autocommit 1", "@@sql_mode concat(@@sql_mode, ',STRICT_TRANS_TABLES')"];
        "SET @@session.autocommit = OFF" => vec!["@@autocommit OFF"];
        "SET character_set_results = binary" => vec!["@@character_set_results binary"];
        "/*!40100 SET @@SQL_MODE='' */" => vec!["@@sql_mode ''"];
        "SET @x := 5, @`y z` = 'a'" => vec!["@x 5", "@y z 'a'"];
        "/*M!100100 SET WAIT_TIMEOUT=DEFAULT */" => vec!["@@wait_timeout default"];
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ" => vec![];
    ] {
        let Statement::Set(settings) = is(text) else {
            panic!("{text}");
        };
        assert_eq!(set(settings), wanted, "{text}");
    }
    assert_eq!(read("SET GLOBAL x = 1").expect_err("global").code, 1227);
    let text = "SET STATEMENT max_statement_time=5, sql_select_limit=3 FOR SELECT ?";
    let Statement::SetFor(settings, statement) = is(text) else {
        panic!("{text}");
    };
    assert_eq!(set(settings), ["@@max_statement_time 5", "@@sql_select_limit 3"]);
    assert!(matches!(*statement, Statement::Query(_)));
}

#[test]
fn shows() {
    let shown = |text: &str| match is(text) {
        Statement::Show(show) => *show,
        other => panic!("{other:?}"),
    };
    for (text, list, table, full, like) in cases![
        "SHOW FULL TABLES FROM `pinba` LIKE 're%'" => "TABLES", "", true, Some("re%");
        "show full columns from `t` from pinba" => "COLUMNS", "t", true, None;
        "DESCRIBE `pinba`.`SELECT * FROM request`" =>
            "COLUMNS", "SELECT * FROM request", false, None;
    ] {
        let expected = Show {
            list,
            database: Some("pinba".into()),
            table: table.into(),
            full,
            like: like.map(Into::into),
            ..Show::default()
        };
        assert_eq!(shown(text), expected, "{text}");
    }
    let condition = shown("SHOW VARIABLES WHERE Variable_name = 'x'").condition;
    let condition = condition.expect("a condition").to_string();
    assert_eq!(condition, "Variable_name = 'x'");
    assert_eq!(shown("SHOW COUNT(*) WARNINGS").list, "COUNT WARNINGS");
    assert_eq!(shown("SHOW PROCEDURE STATUS WHERE 1").list, "ROUTINES");
    assert_eq!(read("SHOW BINARY LOGS").expect_err("no logs").code, 1235);
    for (text, meant) in [
        ("SHOW TABELS", Some("TABLES")),
        ("SHOW FULL colums FROM request", Some("COLUMNS")),
        ("SHOW BINARY LOGS", None),
        ("SHOW CREATE VIEW v", None),
    ] {
        let said = read(text).expect_err("no such list").message;
        let question = meant.map(|it| format!("; did you mean {it:?}?"));
        assert!(said.ends_with(question.as_deref().unwrap_or(&text[5..])), "{said}");
    }
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
            columns: vec!["id".into()],
        })
    );
    assert_eq!(
        is("DROP TABLE IF EXISTS pinba.a, b"),
        Statement::Drop(Drop {
            tables: vec![(Some("pinba".into()), "a".into()), (None, "b".into())],
            if_exists: true,
        })
    );
    assert_eq!(is("DROP TEMPORARY TABLE IF EXISTS a, pinba.b"), Statement::Nothing);
    assert_eq!(read("DROP TEMPORARY TABLE a").expect_err("no such table").code, 1051);
    for text in [
        "CREATE TABLE x (a int)",
        "CREATE TABLE x ENGINE=InnoDB",
        "create temporary table x (a int)",
        "INSERT INTO t VALUES (1)",
        "drop database x",
        "UPDATE t SET a = 1",
    ] {
        assert_eq!(read(text).expect_err(text).code, 1290, "{text}");
    }
    assert_eq!(read("PREPARE s FROM 'SELECT 1'").expect_err("a text").code, 1235);
    assert_eq!(read("").expect_err("empty").code, 1065);
    assert_eq!(read("selekt 1").expect_err("no word").code, 1064);
}
