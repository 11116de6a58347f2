//! Statements as clients write them, and the tokens that the parser gets.

use super::*;

fn read(text: &str) -> Tokens<'_> {
    Tokens::read(text, Mode::default()).expect(text)
}

/// The remaining tokens, separated by blanks.
fn left(text: &str) -> String {
    let tokens = read(text).tokens.into_iter();
    let tokens = tokens.filter(|token| !matches!(token.token, Token::Whitespace(_)));
    tokens.map(|token| token.token.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_means_nothing_here_is_left_out() {
    for (given, wanted) in cases![
        "/* x */ SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`; ;" => "SELECT * FROM `t`";
        "select sql_cache a from t where b lock in share mode" => "select a from t where b";
        "SELECT DISTINCTROW 1 FROM t FOR UPDATE OF t WAIT 5" => "SELECT DISTINCT 1 FROM t";
        "SELECT straight_join a FROM t STRAIGHT_JOIN u" => "SELECT a FROM t JOIN u";
        "SELECT a&&b||c" => "SELECT a AND b OR c";
        "SELECT 0x4142, x'41', b'01000001', 0b1000001" => "SELECT X'4142' , 'A' , X'41' , X'41'";
        "SELECT t.left FROM t" => "SELECT t . `left` FROM t";
        "SELECT ?, @X, @@session.`sql_mode`, @'a b', ?" =>
            "SELECT ?0 , @x , @@session.sql_mode , @a b , ?1";
        "SELECT a<@X, 3^@@session.sql_mode, a<@'a b', !!1, ~~1, !~1" =>
            "SELECT a < @x , 3 ^ @@session.sql_mode , a < @a b , ! ! 1 , ~ ~ 1 , ! ~ 1";
    ] {
        assert_eq!(left(given), wanted, "{given}");
    }
    assert_eq!(read("SELECT ?, ? LIMIT ?").parameters, 3);
}

#[test]
fn joins_in_braces_and_lists_of_tables_are_joins_in_parentheses() {
    for (given, wanted) in cases![
        "SELECT 1 FROM {OJ a LEFT JOIN b ON a.x = {fn ABS(b.x)}} WHERE 1" =>
            "SELECT 1 FROM ( a LEFT JOIN b ON a . `x` = { fn ABS ( b . `x` ) } ) WHERE 1";
        "SELECT 1 FROM { oj a JOIN b }, c" => "SELECT 1 FROM ( a JOIN b ) , c";
        "SELECT 1 FROM {OJ a JOIN {OJ b JOIN c}}" => "SELECT 1 FROM { OJ a JOIN ( b JOIN c ) }";
        "SELECT 1 FROM (a, b x, c)" => "SELECT 1 FROM ( a JOIN b x JOIN c )";
        "SELECT 1 FROM a LEFT JOIN (b, (SELECT 1, 2) c) ON f(a, b) = (1, 2), d" =>
            "SELECT 1 FROM a LEFT JOIN ( b JOIN ( SELECT 1 , 2 ) c ) ON f ( a , b ) = ( 1 , 2 ) , d";
        "SELECT 1 FROM (SELECT 1, 2) a" => "SELECT 1 FROM ( SELECT 1 , 2 ) a";
        "SELECT 1 FROM ((SELECT 1, 2) UNION ALL SELECT 3, 4) a" =>
            "SELECT 1 FROM ( ( SELECT 1 , 2 ) UNION ALL SELECT 3 , 4 ) a";
        "SELECT 1 FROM (((SELECT 1, 2) LIMIT 1) EXCEPT SELECT 3, (4)) a, b" =>
            "SELECT 1 FROM ( ( ( SELECT 1 , 2 ) LIMIT 1 ) EXCEPT SELECT 3 , ( 4 ) ) a , b";
        "SELECT 1 FROM ((SELECT 1, 2) a, b)" => "SELECT 1 FROM ( ( SELECT 1 , 2 ) a JOIN b )";
        "SELECT 1 FROM (a, b RIGHT JOIN c ON 1)" => "SELECT 1 FROM ( a , b RIGHT JOIN c ON 1 )";
    ] {
        assert_eq!(left(given), wanted, "{given}");
    }
}

#[test]
fn items_are_kept_as_they_were_written() {
    let text = "select  count( * ), a/ b , 'x' 'y', (select 1) FROM (SELECT c,d) q";
    let mut items: Vec<_> = read(text).items.into_iter().collect();
    items.sort();
    assert_eq!(items[0].0, 1);
    assert_eq!(items[0].1, ["count( * )", "a/ b", "xy", "(select 1)"]);
    assert_eq!(items.len(), 3);
    for (column, items) in &items {
        let select = &text[*column as usize - 1..];
        assert!(select[..6].eq_ignore_ascii_case("select"), "{select}");
        assert!(!items.is_empty());
    }
}

#[test]
fn what_is_too_deep_is_refused() {
    for (piece, what) in
        [("(", "nested"), ("1+", "operators"), ("NOT ", "operators"), ("- ", "operators")]
    {
        let text = format!("SELECT {}1", piece.repeat(100_000));
        let error = Tokens::read(&text, Mode::default()).expect_err("too deep");
        assert!(error.message.contains(what), "{}", error.message);
    }
}
