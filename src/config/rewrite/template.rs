//! The `replace` of a pattern: text with references to groups of the match.
//!
//! `$1` to `$99` and `${1}` stand for a group by number (`$0` for the whole match), `${name}` for
//! one by name, `$$` for a dollar. Any other use of a dollar is refused, and so is a group that the
//! pattern does not have: a slip would otherwise show as a name with a hole in it, in every report.

use regex::Regex;

/// The replacement for a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The source text.
    pub source: String,
    /// Its pieces, in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// The text of a group; empty if the group took no part in the match.
    Group(usize),
}

impl Template {
    /// Parses a template for matches of `regex`.
    ///
    /// # Errors
    /// A description of the problem, in a few words.
    pub(crate) fn parse(source: &str, regex: &Regex) -> Result<Self, String> {
        let marks = r"\$(?:(?<dollar>\$)|\{(?<name>[^}]*)(?<end>\}?)|(?<number>[0-9]{1,2}))?|\\(?<escaped>[0-9])";
        let marks = Regex::new(marks).expect("a test uses it");
        let mut pieces = Vec::new();
        let mut done = 0;
        for mark in marks.captures_iter(source) {
            let whole = mark.get_match();
            push_text(&mut pieces, &source[done..whole.start()]);
            done = whole.end();
            let part = |name| mark.name(name).map(|part| part.as_str());
            if let Some(digit) = part("escaped") {
                return Err(format!("\\{digit} is written ${digit} here"));
            } else if part("end") == Some("") {
                return Err(format!("{} has no closing brace", whole.as_str()));
            } else if part("dollar").is_some() {
                push_text(&mut pieces, "$");
            } else {
                // At most two digits, as in PHP: nobody expects "$1000" to be the first group and
                // "000", and there is `${1}000` for that.
                let group = part("name").or(part("number"));
                let group = group.ok_or("a dollar that stands for no group")?;
                pieces.push(Piece::Group(number(group, regex)?));
            }
        }
        push_text(&mut pieces, &source[done..]);
        Ok(Self { source: source.to_owned(), pieces })
    }

    /// Returns whether the template refers to any group.
    pub(crate) fn has_groups(&self) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Group(_)))
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    if text.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some(Piece::Text(before)) => before.push_str(text),
        _ => pieces.push(Piece::Text(text.to_owned())),
    }
}

fn number(group: &str, regex: &Regex) -> Result<usize, String> {
    let by_number = group.parse().ok().filter(|at| *at < regex.captures_len());
    let by_name = || regex.capture_names().position(|name| name == Some(group));
    by_number.or_else(by_name).ok_or_else(|| {
        let groups = regex.captures_len() - 1;
        let has = match groups {
            0 => "no groups".to_owned(),
            1 => "one group".to_owned(),
            groups => format!("{groups} groups"),
        };
        format!("the pattern has {has}, and none is called '{group}'")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(typed: &str) -> Result<Template, String> {
        Template::parse(typed, &Regex::new("(a)(?<id>b)").unwrap())
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[test]
    fn groups_stand_where_a_dollar_names_them() {
        use Piece::Group;
        for (typed, pieces) in [
            ("", vec![]),
            ("/user/*", vec![text("/user/*")]),
            ("$1", vec![Group(1)]),
            ("$0-$1x", vec![Group(0), text("-"), Group(1), text("x")]),
            ("${id}", vec![Group(2)]),
            ("${1}00", vec![Group(1), text("00")]),
            ("$01", vec![Group(1)]),
            ("5$$ $$1", vec![text("5$ $1")]),
            ("C:\\dir\\", vec![text("C:\\dir\\")]),
            ("Größe→$2", vec![text("Größe→"), Group(2)]),
        ] {
            let template = parse(typed).unwrap();
            assert_eq!(template.pieces, pieces, "{typed}");
            assert_eq!(template.source, typed);
            assert_eq!(
                template.has_groups(),
                pieces.iter().any(|p| *p != text("") && matches!(p, Group(_)))
            );
        }
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        for (typed, problem) in [
            ("$3", "the pattern has 2 groups, and none is called '3'"),
            ("$1$10", "the pattern has 2 groups, and none is called '10'"),
            ("${ID}", "the pattern has 2 groups, and none is called 'ID'"),
            ("${}", "the pattern has 2 groups, and none is called ''"),
            ("${id", "${id has no closing brace"),
            ("cost: $", "a dollar that stands for no group"),
            ("$id", "a dollar that stands for no group"),
            ("\\1", "\\1 is written $1 here"),
        ] {
            assert_eq!(parse(typed).unwrap_err(), problem, "{typed}");
        }
        let none = Regex::new("(?:a)").unwrap();
        assert_eq!(
            Template::parse("$1", &none).unwrap_err(),
            "the pattern has no groups, and none is called '1'"
        );
    }
}
