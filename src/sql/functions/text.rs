//! Text functions. Positions and lengths count characters; comparisons are by bytes.

use std::borrow::Cow;

use super::value::Value;
use super::{FunctionDef, MANY, TEXT_MAX, nullable, of_text, strict, typed};

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        strict("concat __concat", (1, MANY), |a| joined(a.iter().map(Value::to_text))),
        nullable("concat_ws", (2, MANY), |a| {
            let parts = a[1..].iter().filter(|part| !part.is_null());
            let parts = parts.flat_map(|part| [a[0].to_text(), part.to_text()]);
            joined(parts.skip(1)).filter(|_| !a[0].is_null())
        }),
        strict("left", (2, 2), |a| part(&a[0].to_text(), 0, count(&a[1]))),
        // Cuts to a number of bytes: GROUP_CONCAT.
        strict("__left_bytes", (2, 2), |a| {
            let text = a[0].to_text();
            text[..text.floor_char_boundary(count(&a[1]))].to_owned()
        }),
        strict("right", (2, 2), |a| {
            let text = a[0].to_text();
            let length = text.chars().count();
            part(&text, length.saturating_sub(count(&a[1])), length)
        }),
        strict("substring substr mid", (2, 3), |a| {
            let text = a[0].to_text();
            let skip = match a[1].int() {
                0 => None,
                start @ 1.. => Some(start as usize - 1),
                start => (text.chars().count()).checked_sub(start.unsigned_abs() as usize),
            };
            let take = a.get(2).map_or(usize::MAX, count);
            skip.map_or_else(String::new, |skip| part(&text, skip, take))
        }),
        strict("substring_index", (3, 3), |a| {
            substring_index(&a[0].to_text(), &a[1].to_text(), a[2].int())
        }),
        strict("locate", (2, 3), |a| locate(&a[0], &a[1], a.get(2).map_or(1, Value::int))),
        strict("instr", (2, 2), |a| locate(&a[1], &a[0], 1)),
        // One character each: ß stays.
        of_text("upper ucase", |text| {
            let upper = |sign: char| {
                let mut upper = sign.to_uppercase();
                if upper.len() == 1 { upper.next().unwrap_or(sign) } else { sign }
            };
            text.chars().map(upper).collect::<String>()
        }),
        of_text("lower lcase __lower", str::to_lowercase),
        strict("trim", (1, 2), |a| trimmed(a, true, true)),
        strict("ltrim", (1, 2), |a| trimmed(a, true, false)),
        strict("rtrim", (1, 2), |a| trimmed(a, false, true)),
        of_text("length octet_length", |text| text.len() as i64),
        of_text("bit_length", |text| text.len() as i64 * 8),
        of_text("char_length character_length", |text| text.chars().count() as i64),
        strict("replace", (3, 3), |a| {
            let (text, from, to) = (a[0].to_text(), a[1].to_text(), a[2].to_text());
            if from.is_empty() {
                return Some(text.into_owned());
            }
            let found = text.matches(from.as_ref()).count();
            let grown = text.len() + found * to.len().saturating_sub(from.len());
            (grown <= TEXT_MAX).then(|| text.replace(from.as_ref(), &to))
        }),
        strict("insert", (4, 4), |a| {
            let text = a[0].to_text();
            match count(&a[1]) {
                from @ 1.. if from <= text.chars().count() => {
                    let length = usize::try_from(a[2].int()).unwrap_or(usize::MAX);
                    let rest = part(&text, (from - 1).saturating_add(length), usize::MAX);
                    let parts = [part(&text, 0, from - 1).into(), a[3].to_text(), rest.into()];
                    joined(parts.into_iter())
                }
                // Nothing is replaced after the last character.
                _ => Some(text.into_owned()),
            }
        }),
        of_text("reverse", |text| text.chars().rev().collect::<String>()),
        strict("repeat", (2, 2), |a| repeat(&a[0].to_text(), count(&a[1]))),
        strict("space", (1, 1), |a| repeat(" ", count(&a[0]))),
        strict("lpad", (2, 3), |a| padded(a, true)),
        strict("rpad", (2, 3), |a| padded(a, false)),
        of_text("ascii", |text| text.bytes().next().map_or(0, i64::from)),
        of_text("ord", |text| {
            let first = text.chars().next().map_or(0, char::len_utf8);
            text.bytes().take(first).fold(0, |code, byte| code * 256 + i64::from(byte))
        }),
        nullable("char", (1, MANY), |a| {
            let codes = a.iter().filter(|code| !code.is_null());
            let bytes = codes.flat_map(|code| {
                let code = code.int() as u32;
                let unused = (code.leading_zeros() as usize / 8).min(3);
                code.to_be_bytes().into_iter().skip(unused)
            });
            String::from_utf8(bytes.collect()).ok()
        }),
        strict("hex", (1, 1), |a| match &a[0] {
            Value::Text(text) if text.len() * 2 > TEXT_MAX => None,
            text @ (Value::Text(_) | Value::Datetime(_) | Value::Date(_)) => {
                Some(text.to_text().bytes().map(|byte| format!("{byte:02X}")).collect())
            }
            number => Some(format!("{:X}", number.bits())),
        }),
        of_text("unhex", |digits| {
            let padded = format!("{}{digits}", &"0"[..digits.len() % 2]);
            String::from_utf8(unhex(&padded)?).ok()
        }),
        nullable("field", (2, MANY), |a| {
            let texts = a.iter().all(|it| it.is_null() || matches!(it, Value::Text(_)));
            let is_same = |other: &Value<'_>| match texts {
                true => other.to_text() == a[0].to_text(),
                false => other.real() == a[0].real(),
            };
            let mut others = a[1..].iter();
            let found = others.position(|other| !other.is_null() && is_same(other));
            position(found.filter(|_| !a[0].is_null()))
        }),
        nullable("elt", (2, MANY), |a| {
            let chosen = a[1..].get(count(&a[0]).checked_sub(1)?)?;
            (!chosen.is_null()).then(|| chosen.to_text().into_owned())
        }),
        strict("find_in_set", (2, 2), |a| {
            let (wanted, set) = (a[0].to_text(), a[1].to_text());
            let found = set.split(',').position(|one| one == wanted);
            position(found.filter(|_| !set.is_empty()))
        }),
        strict("strcmp", (2, 2), |a| a[0].to_text().cmp(&a[1].to_text()) as i64),
        nullable("quote", (1, 1), |a| match a[0].is_null() {
            true => "NULL".to_owned(),
            false => {
                let marked = a[0].to_text().replace('\\', "\\\\").replace('\'', "\\'");
                format!("'{marked}'")
            }
        }),
        nullable("charset", (1, 1), |_| "utf8mb4".to_owned()),
        nullable("collation", (1, 1), |_| "utf8mb4_general_ci".to_owned()),
        // Converts a LIKE pattern with another escape to one with backslashes.
        strict("__escaped", (2, 2), |a| {
            let (pattern, escape) = (a[0].to_text(), a[1].to_text());
            let mut made = String::with_capacity(pattern.len());
            let mut signs = pattern.chars();
            while let Some(sign) = signs.next() {
                if escape.starts_with(sign) {
                    made.push('\\');
                    // At the end it stands for itself.
                    made.push(signs.next().unwrap_or(sign));
                } else if sign == '\\' {
                    made.push_str("\\\\");
                } else {
                    made.push(sign);
                }
            }
            made
        }),
        // Joins several values into one text, for COUNT(DISTINCT a, b).
        strict("__tuple", (1, MANY), |a| {
            let texts = a.iter().map(Value::to_text);
            joined(texts.map(|text| format!("{}:{text}", text.len()).into()))
        }),
        typed(
            "__fold",
            (1, 1),
            |known| known.types[0].clone(),
            |a| match &a[0] {
                Value::Text(text) => Some(Value::text(fold(text))),
                other => Some(other.clone()),
            },
        )
        .identity_for(|given| !given.is_string()),
    ]
}

/// A position, from 1; 0 if nothing was found.
fn position(found: Option<usize>) -> i64 {
    found.map_or(0, |at| at as i64 + 1)
}

/// The text to compare if case is ignored: MySQL's _ci ignores trailing blanks too.
pub(super) fn fold(text: &str) -> String {
    text.trim_end_matches(' ').to_lowercase()
}

/// A count; 0 if negative.
fn count(of: &Value<'_>) -> usize {
    usize::try_from(of.int()).unwrap_or(0)
}

/// The bytes that hexadecimal digits stand for, two each.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let bytes = digits.as_bytes().chunks(2).map(|pair| match *pair {
        [high, low] => Some((value(high)? * 16 + value(low)?) as u8),
        _ => None,
    });
    bytes.collect()
}

fn joined<'a>(parts: impl Iterator<Item = Cow<'a, str>>) -> Option<String> {
    let mut all = String::new();
    for part in parts {
        if all.len() + part.len() > TEXT_MAX {
            return None;
        }
        all.push_str(&part);
    }
    Some(all)
}

/// A substring, in characters.
fn part(text: &str, skip: usize, take: usize) -> String {
    text.chars().skip(skip).take(take).collect()
}

fn substring_index(text: &str, by: &str, count: i64) -> String {
    let nth = match count.unsigned_abs().checked_sub(1) {
        Some(nth) if !by.is_empty() => nth as usize,
        _ => return String::new(),
    };
    let kept = match count > 0 {
        true => text.match_indices(by).nth(nth).map(|(at, _)| &text[..at]),
        false => {
            let mut found = text.match_indices(by);
            let before = found.clone().count().checked_sub(nth + 1);
            before.and_then(|before| found.nth(before)).map(|(at, _)| &text[at + by.len()..])
        }
    };
    kept.unwrap_or(text).to_owned()
}

fn locate(what: &Value<'_>, text: &Value<'_>, from: i64) -> i64 {
    let (what, text) = (what.to_text(), text.to_text());
    let skip = usize::try_from(from).ok().and_then(|from| from.checked_sub(1));
    let end = (from == 1).then_some(text.len());
    let mut starts = text.char_indices().map(|(at, _)| at).chain(end);
    let start = skip.and_then(|skip| starts.nth(skip));
    let found = start.and_then(|start| Some(start + text[start..].find(what.as_ref())?));
    position(found.map(|at| text[..at].chars().count()))
}

fn trimmed(a: &[Value<'_>], start: bool, end: bool) -> String {
    let text = a[0].to_text();
    let what = a.get(1).map_or(" ".into(), Value::to_text);
    let mut kept = text.as_ref();
    if start && !what.is_empty() {
        kept = kept.trim_start_matches(what.as_ref());
    }
    if end && !what.is_empty() {
        kept = kept.trim_end_matches(what.as_ref());
    }
    kept.to_owned()
}

fn repeat(text: &str, count: usize) -> Option<String> {
    let length = text.len().checked_mul(count)?;
    (length <= TEXT_MAX).then(|| text.repeat(count))
}

fn padded(a: &[Value<'_>], left: bool) -> Option<String> {
    let text = a[0].to_text();
    let pad = a.get(2).map_or(" ".into(), Value::to_text);
    let wanted = usize::try_from(a[1].int()).ok()?;
    let length = text.chars().count();
    if wanted <= length {
        return Some(part(&text, 0, wanted));
    }
    if pad.is_empty() || wanted > TEXT_MAX / 4 {
        return None;
    }
    let padding: String = pad.chars().cycle().take(wanted - length).collect();
    Some(match left {
        true => padding + &text,
        false => text.into_owned() + &padding,
    })
}
