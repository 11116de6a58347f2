//! How the instruments identify a statement: by its verb, and by its text without values.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::dialect::lex::{Mode, is_value, is_word, tokens};
use crate::instruments::Instrument;

macro_rules! verbs {
    ($($verb:literal)+) => {
        [$(Instrument::new(concat!("statement/sql/", $verb))),+]
    };
}

/// Instruments by first word; the last is for all others.
pub(crate) static VERBS: [Instrument; 17] = verbs![
    "select" "with" "show" "set" "use" "begin" "start" "commit" "rollback" "create" "drop" "update"
    "truncate" "explain" "describe" "do" "other"
];

/// Words written in capitals unless they are quoted.
const KEYWORDS: &str = "ALL AND AS ASC BETWEEN BY CASE CREATE CROSS DATABASES DESC DESCRIBE DISTINCT DO DROP ELSE END \
    EXISTS EXPLAIN FOR FROM FULL GROUP HAVING IN INNER INTERVAL INTO IS JOIN LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER \
    OUTER OVER RIGHT SELECT SET SHOW STATUS TABLE TABLES THEN TRUNCATE UNION UPDATE USE USING VALUES VARIABLES WHEN WHERE \
    WITH";

/// The instrument of a statement.
pub(super) fn verb(text: &str) -> &'static Instrument {
    let begin = |begin: char| begin.is_whitespace() || begin == '(';
    let mut rest = text.trim_start_matches(begin);
    while let Some(comment) = rest.strip_prefix("/*") {
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
        rest = rest.trim_start_matches(begin);
    }
    let word = rest.split(|letter: char| !letter.is_ascii_alphabetic()).next();
    let word = word.unwrap_or_default();
    let is = |it: &&Instrument| {
        it.name.rsplit('/').next().unwrap_or_default().eq_ignore_ascii_case(word)
    };
    VERBS.iter().find(is).unwrap_or(&VERBS[VERBS.len() - 1])
}

/// The statement without its values, as MySQL writes it: keywords in capitals, names in backticks,
/// lists of values as `...`.
pub(super) fn digest(text: &str, mode: Mode) -> String {
    let Ok(tokens) = tokens(text, mode) else {
        // An unreadable statement may be one value from beginning to end.
        return "...".to_owned();
    };
    let mut words: Vec<String> = Vec::new();
    for token in tokens {
        words.push(match token.token {
            Token::Word(word) if word.value.starts_with('@') => word.value,
            word if is_word(&word, KEYWORDS) => word.to_string().to_uppercase(),
            Token::Word(word) => format!("`{}`", word.value.replace('`', "``")),
            value if is_value(&value) => "?".to_owned(),
            other => other.to_string(),
        });
        if let [.., first, comma, last] = &mut words[..]
            && matches!(first.as_str(), "?" | "...")
            && comma == ","
            && last == "?"
        {
            let shorter = words.len() - 2;
            words.truncate(shorter);
            words[shorter - 1] = "...".to_owned();
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_first_words() {
        for (text, wanted) in [
            ("SELECT 1", "statement/sql/select"),
            ("/* x */ (select 1)", "statement/sql/select"),
            ("truncate t", "statement/sql/truncate"),
            ("SELECTED", "statement/sql/other"),
            ("", "statement/sql/other"),
        ] {
            assert_eq!(verb(text).name, wanted, "{text}");
        }
    }

    #[test]
    fn digests_have_no_values() {
        for (text, wanted) in cases![
            "select a, `b` from pinba.request where id in (1,2 ,3) and x='y' -- z" =>
                "SELECT `a` , `b` FROM `pinba` . `request` WHERE `id` IN ( ... ) AND `x` = ?";
            "SHOW  TABLES" => "SHOW TABLES";
            "select 'unclosed" => "...";
        ] {
            assert_eq!(digest(text, Mode::default()), wanted, "{text}");
        }
    }
}
