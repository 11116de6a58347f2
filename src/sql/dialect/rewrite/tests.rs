//! What MySQL's forms become.

use super::*;
use crate::sql::dialect::grammar;

fn around() -> Surroundings {
    let now = chrono::DateTime::from_timestamp(1_800_000_000, 0)
        .expect("a time")
        .naive_utc();
    Surroundings {
        database: Some("pinba".into()),
        user: "me@here".into(),
        connection: 7,
        now,
        now_utc: now,
        time_zone: "+00:00".into(),
        case_insensitive: false,
    }
}

fn made(text: &str) -> Result<String, SqlError> {
    match grammar::parse(text)? {
        Statement::Query(mut query) => {
            rewrite(&mut query, &HashMap::new(), &around())?;
            Ok(query.to_string().replace('`', ""))
        }
        other => panic!("not a query: {other}"),
    }
}

#[test]
fn forms() {
    for (given, wanted) in [
        (
            "SELECT a/b AS x FROM t",
            "SELECT __div(a, b) AS x FROM def.pinba.t AS t",
        ),
        (
            "SELECT c DIV 60 * 60 AS x FROM information_schema.T u",
            "SELECT __div_int(c, 60) * 60 AS x FROM def.information_schema.T u",
        ),
        (
            "SELECT IF(a, 1, 2) AS x",
            "SELECT CASE WHEN __truth(a) THEN 1 ELSE 2 END AS x",
        ),
        ("SELECT database() AS d", "SELECT 'pinba' AS d"),
        ("SELECT x AS y HAVING y > 1", "SELECT x AS y WHERE (x) > 1"),
        (
            "SELECT h, s, count(*) AS c FROM t GROUP BY s ORDER BY h, c, NULL",
            "SELECT first_value(h) AS h, s, count(*) AS c FROM def.pinba.t AS t GROUP BY s ORDER BY h, c",
        ),
        (
            "SELECT group_concat(DISTINCT a ORDER BY a DESC SEPARATOR '-') AS g FROM t",
            "SELECT string_agg(DISTINCT __text(a), '-' ORDER BY __text(a) DESC) AS g FROM def.pinba.t AS t",
        ),
        (
            "SELECT a FROM t WHERE b BETWEEN 1 AND 2 LIMIT 5, 10",
            "SELECT a FROM def.pinba.t AS t WHERE (b >= 1 AND b <= 2) LIMIT 5, 10",
        ),
    ] {
        assert_eq!(made(given).expect(given), wanted, "{given}");
    }
}

#[test]
fn what_cannot_be_done_is_named() {
    for (given, code, named) in [
        ("SELECT MATCH (a) AGAINST ('b')", 1235, "MATCH"),
        ("SELECT a INTO OUTFILE 'x' FROM t", 1064, ""),
        ("SELECT * FROM t GROUP BY a", 1235, "GROUP BY"),
        ("SELECT md5('x')", 1235, "md5"),
        ("SELECT * FROM f(1)", 1235, "functions"),
    ] {
        let error = made(given).expect_err(given);
        assert_eq!(error.code, code, "{given}: {error}");
        assert!(error.message.contains(named), "{given}: {error}");
    }
}
