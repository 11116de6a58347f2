//! Links to pages and to other addresses of this server.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Optional prefix of a key column, for one named like another parameter: `key.limit=5`.
pub(crate) const KEY_PREFIX: &str = "key.";

/// Parameters that select a time.
pub(crate) const TIME_NAMES: [&str; 4] = ["from", "to", "tz", "compare"];

/// Parameters that select whose data is shown.
pub(crate) const FLEET_NAMES: [&str; 3] = ["fleet", "dc", "collector"];

/// Further parameters of a row's page and pictures.
const ROW_NAMES: [&str; 2] = ["span", "theme"];

/// Characters that need no encoding in any part of a URL.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a name or a value for a path or a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A path, and parameters of which any may come from a packet.
pub(crate) fn link<'a>(path: &str, params: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut link = path.to_owned();
    for (at, (name, value)) in params.into_iter().enumerate() {
        link.push(if at == 0 { '?' } else { '&' });
        link += &format!("{}={}", encode(name), encode(value));
    }
    link
}

/// An address below a report, with the keys of a row and `more` parameters.
pub(crate) fn row_link<'a>(
    report: &str,
    file: &str,
    keys: impl IntoIterator<Item = (&'a str, &'a str)>,
    more: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let named = |(key, text): (&'a str, &'a str)| {
        let mut taken = ROW_NAMES.iter().chain(&TIME_NAMES).chain(&FLEET_NAMES);
        let is_marked = taken.any(|it| *it == key) || key.starts_with(KEY_PREFIX);
        let name = if is_marked { format!("{KEY_PREFIX}{key}").into() } else { key.into() };
        (name, text)
    };
    let more = more.into_iter().map(|(name, text)| (name.into(), text));
    let params: Vec<(Cow<'_, str>, &str)> = keys.into_iter().map(named).chain(more).collect();
    let params = params.iter().map(|(name, text)| (&**name, *text));
    link(&format!("/reports/{}/{file}", encode(report)), params)
}

/// The page of a row, or of its report if there are no keys: a report that has some has no row
/// without.
pub(crate) fn row_page<'a>(
    report: &str,
    keys: impl IntoIterator<Item = (&'a str, &'a str)>,
    more: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut keys = keys.into_iter().peekable();
    match keys.peek() {
        None => link(&format!("/reports/{}", encode(report)), more),
        Some(_) => row_link(report, "row", keys, more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_encoded_whatever_is_in_them() {
        let params = [("script_name", "\"><script>"), ("tag.a b", "x&y=z#")];
        assert_eq!(
            link("/requests", params),
            "/requests?script_name=%22%3E%3Cscript%3E&tag.a%20b=x%26y%3Dz%23"
        );
        assert_eq!(link("/reports", []), "/reports");
    }
}
