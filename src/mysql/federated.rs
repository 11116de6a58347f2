//! Adjusts statements of MariaDB's FEDERATED engine so that it understands the answer.
//!
//! For a key of several texts the engine asks by prefix (`(`server_name` LIKE 's1%')  AND
//! (`hostname` = 'h1')`), takes rows as long as they have the key it looks for, and stops at the
//! first that does not: it expects rows in the order of its key. From an unordered table it would
//! silently lose rows (`s1.example` behind `s1.example.org`). So exactly such statements get an
//! order that brings the rows of the key first. Called by the session with each text; anything else
//! is left unchanged.

/// Separates two conditions.
const AND: &str = "  AND  ";

/// The statement with its order; `None` if it is not one of the engine's.
pub(super) fn ordered(text: &str) -> Option<String> {
    let (head, mut rest) = text.split_once(" WHERE  (`")?;
    let columns = head.strip_prefix("SELECT `")?;
    let (_, table) = columns.split_once("` FROM `")?;
    table.strip_suffix('`').filter(|name| is_name(name))?;
    let mut order = Vec::new();
    loop {
        let (column, after) = rest.split_once('`')?;
        if !is_name(column) {
            return None;
        }
        rest = if let Some(after) = after.strip_prefix(" LIKE '") {
            let (pattern, after) = literal(after)?;
            order.push((column, pattern.strip_suffix('%')?));
            after
        } else {
            let after = after.strip_prefix(" = ")?;
            match after.strip_prefix('\'') {
                Some(after) => literal(after)?.1,
                None => {
                    after.trim_start_matches(|is: char| is.is_ascii_digit() || "-.e+".contains(is))
                }
            }
        };
        rest = rest.strip_prefix(')')?;
        match rest.strip_prefix(AND) {
            Some(more) => rest = more.strip_prefix("(`")?,
            None if rest.trim_end().is_empty() => break,
            None => return None,
        }
    }
    if order.is_empty() {
        return None;
    }
    let order = order.iter().map(|(column, value)| format!("`{column}` = '{value}' DESC"));
    let order = order.collect::<Vec<_>>().join(", ");
    Some(format!("{} ORDER BY {order}", text.trim_end()))
}

/// Whether a text can stand between backticks.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('`')
}

/// Splits at the quote that ends a literal.
fn literal(text: &str) -> Option<(&str, &str)> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'\'' => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
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
