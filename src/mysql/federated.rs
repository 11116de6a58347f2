//! Adjusts statements of MariaDB's FEDERATED engine so that it understands the answer.
//!
//! For a key of several texts the engine asks by prefix (`(`server_name` LIKE 's1%')  AND
//! (`hostname` = 'h1')`), takes rows as long as they have the key it looks for, and stops at the
//! first that does not: it expects rows in the order of its key. From an unordered table it would
//! silently lose rows (`s1.example` behind `s1.example.org`). So exactly such statements get an
//! order that brings the rows of the key first. Called by the session with each text; anything else
//! is left unchanged.

use std::sync::LazyLock;

use regex::Regex;

/// A text, with its last `%` if it is a prefix.
const TEXT: &str = r"(?:[^'\\]|\\.)*";

/// A condition by prefix: its column and what the text begins with.
static BY_PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    let condition = format!(r"(?s)\(`([^`]+)` LIKE '({TEXT})%'\)");
    Regex::new(&condition).expect("the tests use it")
});

/// One of the engine's statements, and its conditions.
static ASKED: LazyLock<Regex> = LazyLock::new(|| {
    let one = format!(r"\(`[^`]+` (?:LIKE '{TEXT}%'|= '{TEXT}'|= [0-9.e+-]*)\)");
    let asked = format!(r"(?s)^SELECT `.*` FROM `[^`]+` WHERE  ((?:{one}  AND  )*{one})\s*$");
    Regex::new(&asked).expect("the tests use it")
});

/// The statement with its order; `None` if it is not one of the engine's.
pub(super) fn ordered(text: &str) -> Option<String> {
    let conditions = ASKED.captures(text)?.get(1)?.as_str();
    let order = BY_PREFIX.captures_iter(conditions);
    let order = order.map(|it| format!("`{}` = '{}' DESC", &it[1], &it[2]));
    let order = order.collect::<Vec<_>>().join(", ");
    (!order.is_empty()).then(|| format!("{} ORDER BY {order}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_bring_their_key_first() {
        let asked = "SELECT `id`, `hostname` FROM `request` WHERE  (`server_name` LIKE 's1.example%')  AND  (`hostname` = 'web1') ";
        let told = ordered(asked).unwrap();
        assert!(
            told.ends_with("(`hostname` = 'web1') ORDER BY `server_name` = 's1.example' DESC"),
            "{told}"
        );
        let told = ordered(
            "SELECT `a` FROM `t` WHERE  (`a` LIKE 'it\\'s%')  AND  (`b` LIKE '%')  AND  (`c` = -1.5e3)",
        );
        let told = told.unwrap();
        assert!(told.ends_with(" ORDER BY `a` = 'it\\'s' DESC, `b` = '' DESC"), "{told}");
    }

    #[test]
    fn other_statements_are_left_as_they_are() {
        for text in [
            "",
            "SELECT 1",
            "SELECT `id` FROM `request` WHERE  (`id` = 2)",
            "SELECT `id` FROM `request` WHERE (`server_name` LIKE 's1%')  AND  (`hostname` = 'h1')",
            "SELECT `id` FROM `request` WHERE  (`server_name` LIKE 's1%') ORDER BY 1",
            "SELECT `id` FROM `request` WHERE  (`server_name` LIKE 's1%')  AND  (`hostname` = 'h1') LIMIT 1",
            "SELECT `id` FROM `request` WHERE  (`server_name` LIKE 's1')",
            "SELECT `id` FROM `request` WHERE  (`server_name` LIKE 's1%",
            "SELECT `id` FROM `request` WHERE  (`server_name` LIKE 's1\\",
            "SELECT `id` FROM `request` r, `tag` t WHERE  (`server_name` LIKE 's1%')",
            "SELECT count(*) FROM `request` WHERE  (`server_name` LIKE 's1%')",
            "SELECT `id` FROM `request` WHERE  (`",
        ] {
            assert_eq!(ordered(text), None, "{text}");
        }
    }
}
