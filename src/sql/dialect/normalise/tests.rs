//! Statements as clients write them, beside what the grammar gets.

use super::*;

struct Some3;

impl Values for Some3 {
    fn parameter(&self, at: usize) -> Option<Literal> {
        [
            Literal::Int(5),
            Literal::Text("a'b\\\n".into()),
            Literal::Float(2.0),
        ]
        .get(at)
        .cloned()
    }

    fn user_variable(&self, name: &str) -> Literal {
        match name {
            "x" => Literal::Int(-7),
            _ => Literal::Null,
        }
    }

    fn system_variable(&self, name: &str) -> Result<Literal, SqlError> {
        match name {
            "session.sql_mode" => Ok(Literal::Text("A".into())),
            _ => Err(SqlError::unknown_variable(name)),
        }
    }
}

fn made(text: &str) -> Normalised {
    normalise(text, Mode::default(), &Some3).expect("a statement")
}

#[test]
fn what_means_nothing_here_is_left_out() {
    for (given, wanted) in [
        (
            "/* x */ SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`; ;",
            "SELECT * FROM `t`",
        ),
        (
            "select a from t use index for join (a, b) where b lock in share mode",
            "SELECT a from t where b",
        ),
        (
            "SELECT DISTINCTROW 1 FROM DUAL FOR UPDATE",
            "SELECT DISTINCT 1",
        ),
        (
            "SELECT \"a'b\", _utf8mb4'c', N'd'",
            "SELECT 'a''b', 'c', 'd'",
        ),
        (
            "SELECT a MOD 5, MOD(a, 5), a&&b||c",
            "SELECT a % 5, `mod`(a, 5), a AND b OR c",
        ),
        ("SELECT 0x4142, x'41', b'01000001'", "SELECT 'AB', 'A', 'A'"),
        (
            "SELECT left(a,2), t.left FROM t",
            "SELECT `left`(a,2), t.`left` FROM t",
        ),
        (
            "SELECT timestampdiff(minute, a, b)",
            "SELECT timestampdiff('minute', a, b)",
        ),
    ] {
        let text = made(given).text;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text, wanted, "{given}");
    }
}

#[test]
fn values_take_their_places() {
    let made = made("SELECT ?, @x, @y, @@session.sql_mode FROM t WHERE a=? LIMIT ?");
    assert_eq!(
        made.text,
        r"SELECT 5, (-7), NULL, 'A' FROM t WHERE a='a''b\\\n' LIMIT 2"
    );
    assert_eq!(made.parameters, 3);
    let error = normalise("SELECT @@nope", Mode::default(), &Some3).expect_err("unknown");
    assert_eq!(error.code, 1193);
    let error = normalise("?,?,?,?", Mode::default(), &Some3).expect_err("too few");
    assert_eq!(error.code, 1210);
}

#[test]
fn items_are_kept_as_they_were_written() {
    let made = made("select  count( * ), a/ b , 'x', (select 1) FROM (SELECT c,d) q");
    let mut items: Vec<_> = made.items.into_iter().collect();
    items.sort();
    assert_eq!(items[0].0, 1);
    assert_eq!(items[0].1, ["count( * )", "a/ b", "x", "(select 1)"]);
    for (column, items) in &items {
        assert!(made.text[*column as usize - 1..].starts_with("SELECT"));
        assert!(!items.is_empty());
    }
}

#[test]
fn what_is_too_deep_is_refused() {
    for (piece, what) in [
        ("(", "nested"),
        ("1+", "operators"),
        ("NOT ", "operators"),
        ("- ", "operators"),
    ] {
        let text = format!("SELECT {}1", piece.repeat(100_000));
        let error = normalise(&text, Mode::default(), &Some3).expect_err("too deep");
        assert!(error.message.contains(what), "{}", error.message);
    }
}
