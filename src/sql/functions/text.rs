//! Functions of texts. Positions and lengths count characters; comparisons are by bytes.

use std::borrow::Cow;

use super::Returns::By;
use super::value::Value;
use super::{FunctionDef, INT, MANY, TEXT, TEXT_MAX, def, maybe, strict};

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        strict("concat __concat", (1, MANY), TEXT, |a| {
            joined(a.iter().map(Value::to_text))
        }),
        def("concat_ws", (2, MANY), TEXT, |a| {
            let [separator, parts @ ..] = a else {
                return Value::Null;
            };
            let text = parts
                .iter()
                .filter(|part| !part.is_null())
                .map(Value::to_text);
            let parts = text.flat_map(|part| [separator.to_text(), part]).skip(1);
            if separator.is_null() {
                Value::Null
            } else {
                joined(parts)
            }
        }),
        strict("left", (2, 2), TEXT, |a| {
            part(a[0].to_text(), 0, usize::try_from(a[1].int()).unwrap_or(0))
        }),
        // What fits into so many bytes: GROUP_CONCAT.
        strict("__left_bytes", (2, 2), TEXT, |a| {
            let said = a[0].to_text();
            let end = said.floor_char_boundary(usize::try_from(a[1].int()).unwrap_or(0));
            let length = said[..end].chars().count();
            part(said, 0, length)
        }),
        strict("right", (2, 2), TEXT, |a| {
            let text = a[0].to_text();
            let length = text.chars().count();
            let wanted = usize::try_from(a[1].int()).unwrap_or(0);
            part(text, length.saturating_sub(wanted), wanted)
        }),
        strict("substring substr mid", (2, 3), TEXT, substring),
        strict("substring_index", (3, 3), TEXT, substring_index),
        strict("locate", (2, 3), INT, |a| {
            locate(&a[0], &a[1], a.get(2).map_or(1, Value::int))
        }),
        strict("instr", (2, 2), INT, |a| locate(&a[1], &a[0], 1)),
        strict("upper ucase", (1, 1), TEXT, |a| {
            Value::text(a[0].to_text().to_uppercase())
        }),
        strict("lower lcase __lower", (1, 1), TEXT, |a| {
            Value::text(a[0].to_text().to_lowercase())
        }),
        strict("trim", (1, 2), TEXT, |a| trimmed(a, true, true)),
        strict("ltrim", (1, 2), TEXT, |a| trimmed(a, true, false)),
        strict("rtrim", (1, 2), TEXT, |a| trimmed(a, false, true)),
        strict("length octet_length", (1, 1), INT, |a| {
            Value::Int(a[0].to_text().len() as i64)
        }),
        strict("bit_length", (1, 1), INT, |a| {
            Value::Int(a[0].to_text().len() as i64 * 8)
        }),
        strict("char_length character_length", (1, 1), INT, |a| {
            Value::Int(a[0].to_text().chars().count() as i64)
        }),
        strict("replace", (3, 3), TEXT, |a| {
            let (text, from, to) = (a[0].to_text(), a[1].to_text(), a[2].to_text());
            if from.is_empty() {
                return Value::text(text);
            }
            let found = text.matches(from.as_ref()).count();
            let grown = text.len() + found * to.len().saturating_sub(from.len());
            match grown > TEXT_MAX {
                true => Value::Null,
                false => Value::text(text.replace(from.as_ref(), &to)),
            }
        }),
        strict("insert", (4, 4), TEXT, |a| {
            let text = a[0].to_text();
            // After the last character nothing is replaced.
            match usize::try_from(a[1].int()) {
                Ok(from @ 1..) if from <= text.chars().count() => {
                    let start = offset(&text, from - 1);
                    let length = usize::try_from(a[2].int()).unwrap_or(usize::MAX);
                    let end = start + offset(&text[start..], length);
                    let parts = [text[..start].into(), a[3].to_text(), text[end..].into()];
                    joined(parts.into_iter())
                }
                _ => Value::text(text),
            }
        }),
        strict("reverse", (1, 1), TEXT, |a| {
            Value::text(a[0].to_text().chars().rev().collect::<String>())
        }),
        strict("repeat", (2, 2), TEXT, |a| {
            repeat(&a[0].to_text(), a[1].int())
        }),
        strict("space", (1, 1), TEXT, |a| repeat(" ", a[0].int())),
        strict("lpad", (2, 3), TEXT, |a| padded(a, true)),
        strict("rpad", (2, 3), TEXT, |a| padded(a, false)),
        strict("ascii", (1, 1), INT, |a| {
            Value::Int(a[0].to_text().bytes().next().map_or(0, i64::from))
        }),
        strict("ord", (1, 1), INT, |a| {
            let text = a[0].to_text();
            let first = text.chars().next().map_or(0, char::len_utf8);
            let bytes = text.as_bytes()[..first].iter();
            Value::Int(bytes.fold(0, |code, byte| code * 256 + i64::from(*byte)))
        }),
        def("char", (1, MANY), TEXT, |a| {
            let codes = a.iter().filter(|code| !code.is_null());
            let bytes: Vec<u8> = codes
                .flat_map(|code| {
                    let bytes = (code.int() as u32).to_be_bytes();
                    let zeros = bytes.iter().take(3).take_while(|byte| **byte == 0).count();
                    bytes[zeros..].to_vec()
                })
                .collect();
            String::from_utf8(bytes).map_or(Value::Null, Value::text)
        }),
        strict("hex", (1, 1), TEXT, |a| match &a[0] {
            Value::Text(text) if text.len() * 2 > TEXT_MAX => Value::Null,
            Value::Text(text) => Value::text(
                text.bytes()
                    .map(|byte| format!("{byte:02X}"))
                    .collect::<String>(),
            ),
            number => Value::text(format!("{:X}", number.int())),
        }),
        maybe("unhex", (1, 1), TEXT, unhex),
        def("field", (2, MANY), INT, |a| {
            if a[0].is_null() {
                return Value::Int(0);
            }
            let texts = a.iter().all(|it| matches!(it, Value::Text(_)));
            let found = a[1..].iter().position(|other| {
                !other.is_null()
                    && match texts {
                        true => other.to_text() == a[0].to_text(),
                        false => other.real() == a[0].real(),
                    }
            });
            position(found)
        }),
        def("elt", (2, MANY), TEXT, |a| {
            let at = usize::try_from(a[0].int()).ok().filter(|at| *at > 0);
            let chosen = at.and_then(|at| a.get(at)).filter(|of| !of.is_null());
            chosen.map_or(Value::Null, |of| Value::Text(of.to_text()))
        }),
        strict("find_in_set", (2, 2), INT, |a| {
            let (wanted, set) = (a[0].to_text(), a[1].to_text());
            let found = set.split(',').position(|one| one == wanted);
            position(found.filter(|_| !set.is_empty()))
        }),
        strict("strcmp", (2, 2), INT, |a| {
            Value::Int(a[0].to_text().as_bytes().cmp(a[1].to_text().as_bytes()) as i64)
        }),
        def("quote", (1, 1), TEXT, |a| match a[0].is_null() {
            true => Value::text("NULL"),
            false => {
                let marked = a[0].to_text().replace('\\', "\\\\").replace('\'', "\\'");
                Value::text(format!("'{marked}'"))
            }
        }),
        def("charset", (1, 1), TEXT, |_| Value::text("utf8mb4")),
        def("collation", (1, 1), TEXT, |_| {
            Value::text("utf8mb4_general_ci")
        }),
        // One text for several values, for COUNT(DISTINCT a, b).
        strict("__tuple", (1, MANY), TEXT, |a| {
            let parts = a.iter().map(|it| {
                let text = it.to_text();
                format!("{}:{text}", text.len()).into()
            });
            joined(parts)
        }),
        // What texts are compared by when case is not told apart: MySQL's _ci ignores blanks at the end, too.
        def(
            "__fold",
            (1, 1),
            By(|known| known.types[0].clone()),
            |a| match &a[0] {
                Value::Text(text) => Value::text(text.trim_end_matches(' ').to_lowercase()),
                other => other.clone(),
            },
        )
        .identity_for(|given| !given.is_string()),
    ]
}

/// Which one it is, from 1; 0 when it is none.
fn position(found: Option<usize>) -> Value<'static> {
    Value::Int(found.map_or(0, |at| at as i64 + 1))
}

fn joined<'a, 'b>(parts: impl Iterator<Item = Cow<'b, str>>) -> Value<'a> {
    let mut all = String::new();
    for part in parts {
        if all.len() + part.len() > TEXT_MAX {
            return Value::Null;
        }
        all.push_str(&part);
    }
    Value::text(all)
}

/// Where a text goes on after so many characters.
fn offset(text: &str, characters: usize) -> usize {
    let mut starts = text.char_indices().map(|(at, _)| at);
    starts.nth(characters).unwrap_or(text.len())
}

/// Some characters of a text.
fn part(text: Cow<'_, str>, skip: usize, take: usize) -> Value<'_> {
    let start = offset(&text, skip);
    let end = start + offset(&text[start..], take);
    match text {
        Cow::Borrowed(text) => Value::text(&text[start..end]),
        Cow::Owned(text) => Value::text(text[start..end].to_owned()),
    }
}

fn substring<'a>(a: &'a [Value<'a>]) -> Value<'a> {
    let text = a[0].to_text();
    let start = a[1].int();
    let take = a
        .get(2)
        .map_or(usize::MAX, |take| usize::try_from(take.int()).unwrap_or(0));
    let skip = match start {
        0 => return Value::text(""),
        1.. => start as usize - 1,
        _ => {
            let length = text.chars().count();
            match length.checked_sub(start.unsigned_abs() as usize) {
                Some(skip) => skip,
                None => return Value::text(""),
            }
        }
    };
    part(text, skip, take)
}

fn substring_index<'a>(a: &'a [Value<'a>]) -> Value<'a> {
    let (text, by, count) = (a[0].to_text(), a[1].to_text(), a[2].int());
    if by.is_empty() || count == 0 {
        return Value::text("");
    }
    let nth = count.unsigned_abs() as usize - 1;
    let by = by.as_ref();
    let kept = match count > 0 {
        true => text.match_indices(by).nth(nth).map(|(at, _)| &text[..at]),
        false => text
            .rmatch_indices(by)
            .nth(nth)
            .map(|(at, _)| &text[at + by.len()..]),
    };
    match kept {
        Some(kept) => Value::text(kept.to_owned()),
        None => Value::Text(text),
    }
}

fn locate(what: &Value<'_>, text: &Value<'_>, from: i64) -> Value<'static> {
    let (what, text) = (what.to_text(), text.to_text());
    let skip = usize::try_from(from)
        .ok()
        .and_then(|from| from.checked_sub(1));
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let start = skip.and_then(|skip| starts.nth(skip));
    let found = start.and_then(|start| Some(start + text[start..].find(what.as_ref())?));
    position(found.map(|at| text[..at].chars().count()))
}

fn trimmed<'a>(a: &'a [Value<'a>], start: bool, end: bool) -> Value<'a> {
    let text = a[0].to_text();
    let what = a.get(1).map_or(Cow::Borrowed(" "), Value::to_text);
    if what.is_empty() {
        return Value::Text(text);
    }
    let mut kept = text.as_ref();
    if start {
        kept = kept.trim_start_matches(what.as_ref());
    }
    if end {
        kept = kept.trim_end_matches(what.as_ref());
    }
    match kept.len() == text.len() {
        true => Value::Text(text),
        false => Value::text(kept.to_owned()),
    }
}

fn repeat<'a>(text: &str, count: i64) -> Value<'a> {
    let count = usize::try_from(count).unwrap_or(0);
    match text.len().checked_mul(count) {
        Some(length) if length <= TEXT_MAX => Value::text(text.repeat(count)),
        _ => Value::Null,
    }
}

fn padded<'a>(a: &'a [Value<'a>], left: bool) -> Value<'a> {
    let text = a[0].to_text();
    let pad = a.get(2).map_or(Cow::Borrowed(" "), Value::to_text);
    let Ok(wanted) = usize::try_from(a[1].int()) else {
        return Value::Null;
    };
    let length = text.chars().count();
    if wanted <= length {
        return part(text, 0, wanted);
    }
    if pad.is_empty() || wanted > TEXT_MAX / 4 {
        return Value::Null;
    }
    let padding: String = pad.chars().cycle().take(wanted - length).collect();
    match left {
        true => Value::text(padding + &text),
        false => Value::text(text.into_owned() + &padding),
    }
}

fn unhex<'a>(a: &'a [Value<'a>]) -> Option<Value<'a>> {
    let digits = a[0].to_text();
    let padded = if digits.len().is_multiple_of(2) {
        digits
    } else {
        format!("0{digits}").into()
    };
    let pairs = padded.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?)
        .ok()
        .map(Value::text)
}
