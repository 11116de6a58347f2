//! MySQL's forms after rewriting.

use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr};

use super::*;
use crate::sql::dialect::lex::Mode;
use crate::sql::engine::STACK;
use crate::sql::session::{Literal, Session};
use crate::sql::settings::SqlSettings;
use crate::sql::statement::{self, Statement};

fn query(text: &str) -> Result<Box<Query>, SqlError> {
    match statement::parse(text, Mode::default())?.statement {
        Statement::Query(query) => Ok(query),
        other => panic!("not a query: {other:?}"),
    }
}

fn made(text: &str) -> Result<String, SqlError> {
    let settings = SqlSettings::default();
    let mut session = Session::new(7, "me@here", false);
    session.set_own("x", Literal::Int(-7))?;
    session.set("sql_mode", Some("A".into()))?;
    let values = [Literal::Int(5), Literal::Text("a'b\\\n".into()), Literal::Float(2.0)];
    let context = Context::new(&session, &settings, Some(&values));
    let mut query = query(text)?;
    rewrite(&mut *query, &Items::new(), &context)?;
    Ok(query.to_string().replace('`', ""))
}

#[test]
fn values_take_their_places() {
    let made_of =
        made("SELECT ? AS a, @x AS b, @Y AS c, @@session.sql_mode AS d WHERE a=? LIMIT ?");
    assert_eq!(
        made_of.expect("values"),
        "SELECT 5 AS a, -7 AS b, NULL AS c, 'A' AS d WHERE __truth(a = 'a''b\\\n') LIMIT 2"
    );
    assert_eq!(made("SELECT @@nope").expect_err("unknown").code, 1193);
    assert_eq!(made("SELECT ?,?,?,?").expect_err("too few").code, 1210);
}

#[test]
fn forms() {
    for (given, wanted) in cases![
        "SELECT a MOD 5 AS x, MOD(a, 5) AS y, timestampdiff(minute, a, b) AS z FROM DUAL" =>
            "SELECT __mod(a, 5) AS x, mod(a, 5) AS y, timestampdiff('minute', a, b) AS z";
        "SELECT a/b AS x FROM t" => "SELECT __div(a, b) AS x FROM def.pinba.t AS t";
        "SELECT c DIV 60 * 60 AS x FROM information_schema.T u" =>
            "SELECT __div_int(c, 60) * 60 AS x FROM def.information_schema.T u";
        "SELECT IF(a, 1, 2) AS x" =>
            "SELECT __case(__truth(a), __value(1), __value(2)) AS x";
        "SELECT database() AS d" => "SELECT 'pinba' AS d";
        "SELECT x AS y HAVING y > 1" => "SELECT x AS y WHERE __truth((x) > 1)";
        "SELECT h, s, count(*) AS c FROM t GROUP BY s ORDER BY h, c, NULL" =>
            "SELECT first_value(h) AS h, s AS s, count(*) AS c FROM def.pinba.t AS t GROUP BY s ORDER BY h, c";
        "SELECT h AS x, s FROM t GROUP BY s" =>
            "SELECT first_value(h) AS x, s AS s FROM def.pinba.t AS t GROUP BY s";
        "SELECT s, 1 AS n FROM t ORDER BY 1" => "SELECT s AS s, 1 AS n FROM def.pinba.t AS t ORDER BY 1";
        "SELECT *, 2 AS n FROM t ORDER BY 2" => "SELECT *, 2 AS n FROM def.pinba.t AS t ORDER BY 2";
        "SELECT 7 AS n, -1 AS m, count(*) AS c FROM t GROUP BY n, m" =>
            "SELECT __number(7) AS n, __number(-1) AS m, count(*) AS c FROM def.pinba.t AS t GROUP BY n, m";
        "SELECT group_concat(DISTINCT a ORDER BY a DESC SEPARATOR '-') AS g FROM t" =>
            "SELECT string_agg(DISTINCT __text(a), '-' ORDER BY __text(a) DESC) AS g FROM def.pinba.t AS t";
        "SELECT ROW_NUMBER() OVER (ORDER BY a) - 9 AS n FROM t" =>
            "SELECT __signed(row_number() OVER (ORDER BY a)) - 9 AS n FROM def.pinba.t AS t";
        "SELECT a FROM t WHERE b BETWEEN 1 AND 2 LIMIT 5, 10" =>
            "SELECT a AS a FROM def.pinba.t AS t WHERE __truth(__between(b, 1, b, 2)) LIMIT 5, 10";
        "SELECT 1 AS x FROM (t a CROSS JOIN u b ON A.i = B.i) LEFT JOIN (v c JOIN w d ON c.i = d.I) ON c.i" =>
            "SELECT 1 AS x FROM (def.pinba.t a INNER JOIN def.pinba.u b ON __truth(a.i = b.i)) \
             LEFT JOIN (def.pinba.v c JOIN def.pinba.w d ON __truth(c.i = d.i)) ON __truth(c.i)";
    ] {
        assert_eq!(made(given).expect(given), wanted, "{given}");
    }
}

/// The sides of the comparison that an item is in the end.
fn sides(item: &str) -> (String, String) {
    let query = query(&format!("SELECT {item} AS x")).expect(item);
    let SetExpr::Select(select) = &*query.body else { panic!("{query}") };
    let SelectItem::ExprWithAlias { expr: Expr::BinaryOp { left, right, .. }, .. } =
        &select.projection[0]
    else {
        panic!("{item}: {query}")
    };
    (left.to_string().replace('`', ""), right.to_string().replace('`', ""))
}

#[test]
fn conditions_bind_more_tightly_than_comparisons() {
    for (given, left, right) in cases![
        "a LIKE b = c" => "a LIKE b", "c";
        "a = b LIKE c" => "a", "b LIKE c";
        "a > b NOT LIKE c" => "a", "b NOT LIKE c";
        "a <> b REGEXP c" => "a", "b REGEXP c";
        "a = b IN (1, 2)" => "a", "b IN (1, 2)";
        "a IN (1, 2) = b" => "a IN (1, 2)", "b";
        "a < b BETWEEN 1 AND 2" => "a", "b BETWEEN 1 AND 2";
        "a BETWEEN 1 AND 2 <=> b" => "a BETWEEN 1 AND 2", "b";
        "a = b BETWEEN 1 AND c NOT BETWEEN 3 AND d LIKE 4" =>
            "a", "b BETWEEN 1 AND c NOT BETWEEN 3 AND d LIKE 4";
        "a BETWEEN 1 AND b BETWEEN 2 AND 3 > c" =>
            "a BETWEEN 1 AND b BETWEEN 2 AND 3", "c";
        "a = b | c" => "a", "b | c";
    ] {
        assert_eq!(sides(given), (left.to_owned(), right.to_owned()), "{given}");
    }
}

#[test]
fn what_cannot_be_done_is_named() {
    for (given, code, named) in cases![
        "SELECT MATCH (a) AGAINST ('b')" => 1235, "MATCH";
        "SELECT a INTO OUTFILE 'x' FROM t" => 1064, "";
        "SELECT * FROM t GROUP BY a" => 1235, "GROUP BY";
        "SELECT md5('x')" => 1235, "pinbad does not support the function md5()";
        "SELECT a FROM t LIMIT 1.5" => 1210, "a whole number from 0 on, not 1.5";
        "SELECT a FROM t LIMIT '2'" => 1064, "LIMIT takes a number, not the text '2'";
        "SELECT * FROM f(1)" => 1235, "functions";
        "SELECT __case(1, 2, 3)" => 1305, "__case";
    ] {
        let error = made(given).expect_err(given);
        assert_eq!(error.code, code, "{given}: {error}");
        assert!(error.message.contains(named), "{given}: {error}");
    }
}

#[test]
fn a_name_of_with_counts_where_it_is_known() {
    let settings = SqlSettings::default();
    let mut session = Session::new(7, "me@here", false);
    session.database = Some("history".into());
    for (text, wanted) in cases![
        "WITH t AS (SELECT 1 FROM t) SELECT 1 FROM t" =>
            "WITH t AS (SELECT 1 FROM def.history.t AS t) SELECT 1 FROM t";
        "WITH a AS (SELECT 1 FROM b), b AS (SELECT 1 FROM a) SELECT 1 FROM b" =>
            "WITH a AS (SELECT 1 FROM def.history.b AS b), b AS (SELECT 1 FROM a) SELECT 1 FROM b";
        "SELECT (WITH t AS (SELECT 1) SELECT 1 FROM t) AS a FROM t" =>
            "SELECT (WITH t AS (SELECT 1) SELECT 1 FROM t) AS a FROM def.history.t AS t";
        "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 2 FROM t) SELECT 1 FROM t" =>
            "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT 2 FROM t) SELECT 1 FROM t";
    ] {
        let context = Context::new(&session, &settings, Some(&[]));
        let mut query = query(text).expect(text);
        rewrite(&mut *query, &Items::new(), &context).expect(text);
        let made = query.to_string().replace('`', "");
        // Items have names of their own.
        let made = made.replace(" AS 1", "").replace(" AS 2", "");
        assert_eq!(made, wanted, "{text}");
    }
}

/// Calls nested `often` times, each in the first argument of the next.
fn nested(before: &str, after: &str, often: usize) -> String {
    format!("SELECT {}1{}", before.repeat(often), after.repeat(often))
}

#[test]
fn what_is_written_out_grows_no_statement_without_end() {
    // As on the engine's threads.
    let thread = std::thread::Builder::new().stack_size(STACK);
    let ended = thread.spawn(grow).expect("a thread").join();
    assert!(ended.is_ok());
}

fn grow() {
    let cases = [
        ("NULLIF(", ",2)"),
        ("(", " BETWEEN 0 AND 2)"),
        ("CASE ", " WHEN 1 THEN 2 WHEN 3 THEN 4 END"),
        ("(SELECT AVG(", "))"),
        ("(SELECT GROUP_CONCAT(DISTINCT ", " ORDER BY 1))"),
        ("(", ", 2) IN ((1, 2), (3, 4))"),
        ("(SELECT ", " AS a HAVING a)"),
    ];
    for (before, after) in cases {
        assert!(made(&nested(before, after, 2)).is_ok(), "{before}..{after}");
        let error = made(&nested(before, after, 16)).expect_err(before);
        assert_eq!(error.code, 1064, "{before}..{after}: {error}");
        let why = if before.contains("SELECT") { "lie too deep" } else { "grows" };
        assert!(error.message.contains(why), "{before}: {error}");
    }
}

#[test]
fn names_of_with_count_as_what_they_stand_for() {
    let chain = |first: &str, often: usize| {
        let mut text = format!("WITH c0 AS ({first})");
        for at in 1..=often {
            let before = at - 1;
            text += &format!(", c{at} AS (SELECT p.x FROM c{before} p, C{before} q)");
        }
        format!("{text} SELECT x FROM c{often}")
    };
    for first in ["SELECT 1 x", "SELECT x FROM t"] {
        assert!(made(&chain(first, 6)).is_ok(), "64 tables");
        let error = made(&chain(first, 7)).expect_err("128 tables");
        assert!(error.message.contains("128 tables"), "{error}");
    }
    assert!(made(&chain("SELECT 1 x", 100)).is_err());
    // A name hides the same name of an outer query; one of another WITH does not count.
    let hidden = "WITH a AS (SELECT 1 x UNION SELECT 2), b AS (WITH a AS (SELECT 1 x) SELECT x FROM a) SELECT * FROM b";
    assert!(made(hidden).is_ok());
    // Within itself, and before it is complete, a name is one table.
    let recursive = "WITH RECURSIVE a AS (SELECT 1 x UNION ALL SELECT x + 1 FROM a WHERE x < 3) SELECT p.x FROM a p, a q";
    assert!(made(recursive).is_ok());
    // Commas are joins.
    let from = |tables: usize| vec!["t"; tables].join(", ");
    let unions = format!("SELECT 1 FROM {0} UNION SELECT 1 FROM {0}", from(61));
    let error = made(&unions).expect_err("122 tables");
    assert!(error.message.contains("122 tables"), "{error}");
    assert!(made(&format!("SELECT {}", vec!["1"; 4_097].join(","))).is_err());
    let rolled = |often: usize| {
        let groups = vec!["a"; often].join(", ");
        made(&format!("SELECT 1 FROM t GROUP BY {groups} WITH ROLLUP"))
    };
    assert!(rolled(64).is_ok());
    assert_eq!(rolled(65).expect_err("too many").code, 1235);
}
