//! Functions of texts. Positions and lengths count characters; comparisons are by bytes.

use std::borrow::Cow;

use datafusion::arrow::datatypes::DataType;

use super::value::V;
use super::{Def, MANY, TEXT_MAX, def, int_type, or_null, text_type};

pub(super) const FUNCTIONS: &[Def] = &[
    def("concat", (1, MANY), text_type, |a| {
        or_null(a, |a| joined(a.iter().map(V::said)))
    }),
    def("__concat", (2, 2), text_type, |a| {
        or_null(a, |a| joined(a.iter().map(V::said)))
    }),
    def("concat_ws", (2, MANY), text_type, |a| {
        if a[0].is_null() {
            return V::Null;
        }
        let separator = a[0].said();
        let mut parts = Vec::new();
        for part in a[1..].iter().filter(|part| !part.is_null()) {
            if !parts.is_empty() {
                parts.push(separator.clone());
            }
            parts.push(part.said());
        }
        joined(parts.into_iter())
    }),
    def("left", (2, 2), text_type, |a| {
        or_null(a, |a| {
            let said = said(&a[0]);
            part(said, 0, usize::try_from(a[1].int()).unwrap_or(0))
        })
    }),
    def("right", (2, 2), text_type, |a| {
        or_null(a, |a| {
            let said = said(&a[0]);
            let length = said.chars().count();
            let wanted = usize::try_from(a[1].int()).unwrap_or(0);
            part(said, length.saturating_sub(wanted), wanted)
        })
    }),
    def("substring", (2, 3), text_type, |a| or_null(a, substring)),
    def("substr", (2, 3), text_type, |a| or_null(a, substring)),
    def("mid", (2, 3), text_type, |a| or_null(a, substring)),
    def("substring_index", (3, 3), text_type, |a| {
        or_null(a, substring_index)
    }),
    def("locate", (2, 3), int_type, |a| {
        or_null(a, |a| locate(&a[0], &a[1], a.get(2).map_or(1, V::int)))
    }),
    def("instr", (2, 2), int_type, |a| {
        or_null(a, |a| locate(&a[1], &a[0], 1))
    }),
    def("upper", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(a[0].said().to_uppercase()))
    }),
    def("ucase", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(a[0].said().to_uppercase()))
    }),
    def("lower", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(a[0].said().to_lowercase()))
    }),
    def("lcase", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(a[0].said().to_lowercase()))
    }),
    def("trim", (1, 2), text_type, |a| {
        or_null(a, |a| trimmed(a, true, true))
    }),
    def("ltrim", (1, 2), text_type, |a| {
        or_null(a, |a| trimmed(a, true, false))
    }),
    def("rtrim", (1, 2), text_type, |a| {
        or_null(a, |a| trimmed(a, false, true))
    }),
    def("length", (1, 1), int_type, |a| {
        or_null(a, |a| V::Int(a[0].said().len() as i64))
    }),
    def("octet_length", (1, 1), int_type, |a| {
        or_null(a, |a| V::Int(a[0].said().len() as i64))
    }),
    def("bit_length", (1, 1), int_type, |a| {
        or_null(a, |a| V::Int(a[0].said().len() as i64 * 8))
    }),
    def("char_length", (1, 1), int_type, |a| {
        or_null(a, |a| V::Int(a[0].said().chars().count() as i64))
    }),
    def("character_length", (1, 1), int_type, |a| {
        or_null(a, |a| V::Int(a[0].said().chars().count() as i64))
    }),
    def("replace", (3, 3), text_type, |a| {
        or_null(a, |a| {
            let (text, from, to) = (a[0].said(), a[1].said(), a[2].said());
            if from.is_empty() {
                return V::text(text);
            }
            let found = text.matches(from.as_ref()).count();
            let grown = text.len() + found * to.len().saturating_sub(from.len());
            match grown > TEXT_MAX {
                true => V::Null,
                false => V::text(text.replace(from.as_ref(), &to)),
            }
        })
    }),
    def("insert", (4, 4), text_type, |a| {
        or_null(a, |a| {
            let said = a[0].said();
            let skip = usize::try_from(a[1].int())
                .ok()
                .and_then(|start| start.checked_sub(1));
            // Where the characters begin that are replaced; after the last one there are none.
            let Some(start) = skip.and_then(|skip| said.char_indices().map(|(at, _)| at).nth(skip))
            else {
                return V::text(said);
            };
            let rest = &said[start..];
            let end = usize::try_from(a[2].int())
                .ok()
                .and_then(|length| rest.char_indices().map(|(at, _)| at).nth(length))
                .map_or(said.len(), |end| start + end);
            joined([said[..start].into(), a[3].said(), said[end..].into()].into_iter())
        })
    }),
    def("reverse", (1, 1), text_type, |a| {
        or_null(a, |a| {
            V::text(a[0].said().chars().rev().collect::<String>())
        })
    }),
    def("repeat", (2, 2), text_type, |a| {
        or_null(a, |a| repeat(&a[0].said(), a[1].int()))
    }),
    def("space", (1, 1), text_type, |a| {
        or_null(a, |a| repeat(" ", a[0].int()))
    }),
    def("lpad", (2, 3), text_type, |a| {
        or_null(a, |a| padded(a, true))
    }),
    def("rpad", (2, 3), text_type, |a| {
        or_null(a, |a| padded(a, false))
    }),
    def("ascii", (1, 1), int_type, |a| {
        or_null(a, |a| {
            V::Int(a[0].said().bytes().next().map_or(0, i64::from))
        })
    }),
    def("ord", (1, 1), int_type, |a| {
        or_null(a, |a| {
            let said = a[0].said();
            let first = said.chars().next().map_or(0, char::len_utf8);
            let bytes = said.as_bytes()[..first].iter();
            V::Int(bytes.fold(0, |code, byte| code * 256 + i64::from(*byte)))
        })
    }),
    def("char", (1, MANY), text_type, |a| {
        let codes = a.iter().filter(|code| !code.is_null());
        let bytes: Vec<u8> = codes
            .flat_map(|code| {
                let bytes = (code.int() as u32).to_be_bytes();
                let zeros = bytes.iter().take(3).take_while(|byte| **byte == 0).count();
                bytes[zeros..].to_vec()
            })
            .collect();
        String::from_utf8(bytes).map_or(V::Null, V::text)
    }),
    def("hex", (1, 1), text_type, |a| {
        or_null(a, |a| match &a[0] {
            V::Text(text) if text.len() * 2 > TEXT_MAX => V::Null,
            V::Text(text) => V::text(
                text.bytes()
                    .map(|byte| format!("{byte:02X}"))
                    .collect::<String>(),
            ),
            number => V::text(format!("{:X}", number.int())),
        })
    }),
    def("unhex", (1, 1), text_type, |a| or_null(a, unhex)),
    def("field", (2, MANY), int_type, |a| {
        if a[0].is_null() {
            return V::Int(0);
        }
        let texts = a.iter().all(|it| matches!(it, V::Text(_)));
        let found = a[1..].iter().position(|other| {
            !other.is_null()
                && match texts {
                    true => other.said() == a[0].said(),
                    false => other.real() == a[0].real(),
                }
        });
        V::Int(found.map_or(0, |at| at as i64 + 1))
    }),
    def("elt", (2, MANY), text_type, |a| {
        match usize::try_from(a[0].int()).ok().filter(|at| *at > 0) {
            Some(at) => a.get(at).map_or(V::Null, |it| or_text(it)),
            None => V::Null,
        }
    }),
    def("find_in_set", (2, 2), int_type, |a| {
        or_null(a, |a| {
            let set = a[1].said();
            let wanted = a[0].said();
            let found = set.split(',').position(|one| one == wanted);
            V::Int(
                found
                    .filter(|_| !set.is_empty())
                    .map_or(0, |at| at as i64 + 1),
            )
        })
    }),
    def("strcmp", (2, 2), int_type, |a| {
        or_null(a, |a| {
            V::Int(a[0].said().as_bytes().cmp(a[1].said().as_bytes()) as i64)
        })
    }),
    def("quote", (1, 1), text_type, |a| match a[0].is_null() {
        true => V::text("NULL"),
        false => quoted(&a[0].said()),
    }),
    def("charset", (1, 1), text_type, |_| V::text("utf8mb4")),
    def("collation", (1, 1), text_type, |_| {
        V::text("utf8mb4_general_ci")
    }),
    // One text for several values, for COUNT(DISTINCT a, b).
    def("__tuple", (1, MANY), text_type, |a| {
        or_null(a, |a| {
            let parts = a.iter().map(|it| {
                let said = it.said();
                format!("{}:{said}", said.len()).into()
            });
            joined(parts)
        })
    }),
    // What texts are compared by when case is not told apart: MySQL's _ci ignores blanks at the end, too.
    Def {
        identity: |given| {
            !matches!(
                given,
                DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
            )
        },
        ..def(
            "__fold",
            (1, 1),
            |known| known.types[0].clone(),
            |a| match &a[0] {
                V::Text(text) => V::text(text.trim_end_matches(' ').to_lowercase()),
                other => other.clone(),
            },
        )
    },
    def("__lower", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(a[0].said().to_lowercase()))
    }),
];

/// QUOTE: each sign is one or two.
fn quoted(said: &str) -> V<'static> {
    let marked = said.bytes().filter(|byte| matches!(byte, b'\\' | b'\''));
    let length = said.len() + marked.count() + 2;
    if length > TEXT_MAX {
        return V::Null;
    }
    let mut made = String::with_capacity(length);
    made.push('\'');
    for sign in said.chars() {
        if matches!(sign, '\\' | '\'') {
            made.push('\\');
        }
        made.push(sign);
    }
    made.push('\'');
    V::text(made)
}

fn or_text<'a>(of: &'a V<'a>) -> V<'a> {
    match of.is_null() {
        true => V::Null,
        false => V::Text(of.said()),
    }
}

fn said<'a>(of: &'a V<'a>) -> Cow<'a, str> {
    of.said()
}

fn joined<'a, 'b>(parts: impl Iterator<Item = Cow<'b, str>>) -> V<'a> {
    let mut all = String::new();
    for part in parts {
        if all.len() + part.len() > TEXT_MAX {
            return V::Null;
        }
        all.push_str(&part);
    }
    V::text(all)
}

/// Some characters of a text.
fn part(text: Cow<'_, str>, skip: usize, take: usize) -> V<'_> {
    let at = |text: &str, characters: usize| {
        text.char_indices()
            .nth(characters)
            .map_or(text.len(), |(at, _)| at)
    };
    let start = at(&text, skip);
    let end = start + at(&text[start..], take);
    match text {
        Cow::Borrowed(text) => V::text(&text[start..end]),
        Cow::Owned(text) => V::text(text[start..end].to_owned()),
    }
}

fn substring<'a>(a: &'a [V<'a>]) -> V<'a> {
    let text = a[0].said();
    let start = a[1].int();
    let take = a
        .get(2)
        .map_or(usize::MAX, |take| usize::try_from(take.int()).unwrap_or(0));
    let skip = match start {
        0 => return V::text(""),
        1.. => start as usize - 1,
        _ => {
            let length = text.chars().count();
            match length.checked_sub(start.unsigned_abs() as usize) {
                Some(skip) => skip,
                None => return V::text(""),
            }
        }
    };
    part(text, skip, take)
}

fn substring_index<'a>(a: &'a [V<'a>]) -> V<'a> {
    let (text, by, count) = (a[0].said(), a[1].said(), a[2].int());
    if by.is_empty() || count == 0 {
        return V::text("");
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
        Some(kept) => V::text(kept.to_owned()),
        None => V::Text(text),
    }
}

fn locate(what: &V<'_>, text: &V<'_>, from: i64) -> V<'static> {
    let (what, text) = (what.said(), text.said());
    let Some(skip) = usize::try_from(from)
        .ok()
        .and_then(|from| from.checked_sub(1))
    else {
        return V::Int(0);
    };
    let Some((start, _)) = text.char_indices().chain([(text.len(), ' ')]).nth(skip) else {
        return V::Int(0);
    };
    let found = text[start..].find(what.as_ref());
    V::Int(found.map_or(0, |at| text[..start + at].chars().count() as i64 + 1))
}

fn trimmed<'a>(a: &'a [V<'a>], start: bool, end: bool) -> V<'a> {
    let text = a[0].said();
    let what = a.get(1).map_or(Cow::Borrowed(" "), V::said);
    if what.is_empty() {
        return V::Text(text);
    }
    let mut kept = text.as_ref();
    if start {
        kept = kept.trim_start_matches(what.as_ref());
    }
    if end {
        kept = kept.trim_end_matches(what.as_ref());
    }
    match kept.len() == text.len() {
        true => V::Text(text),
        false => V::text(kept.to_owned()),
    }
}

fn repeat<'a>(text: &str, count: i64) -> V<'a> {
    let count = usize::try_from(count).unwrap_or(0);
    match text.len().checked_mul(count) {
        Some(length) if length <= TEXT_MAX => V::text(text.repeat(count)),
        _ => V::Null,
    }
}

fn padded<'a>(a: &'a [V<'a>], left: bool) -> V<'a> {
    let text = a[0].said();
    let pad = a.get(2).map_or(Cow::Borrowed(" "), V::said);
    let Ok(wanted) = usize::try_from(a[1].int()) else {
        return V::Null;
    };
    let length = text.chars().count();
    if wanted <= length {
        return part(text, 0, wanted);
    }
    if pad.is_empty() || wanted > TEXT_MAX / 4 {
        return V::Null;
    }
    let padding: String = pad.chars().cycle().take(wanted - length).collect();
    match left {
        true => V::text(padding + &text),
        false => V::text(text.into_owned() + &padding),
    }
}

fn unhex<'a>(a: &'a [V<'a>]) -> V<'a> {
    let digits = a[0].said();
    let padded = match digits.len() % 2 {
        0 => digits,
        _ => format!("0{digits}").into(),
    };
    let bytes: Option<Vec<u8>> = padded
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map_or(V::Null, V::text)
}
