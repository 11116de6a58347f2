//! Kinds of values that keys accept: how each is read, and how errors describe it.
//!
//! A kind reads a [`Given`], so a value means the same in the file, in a variable and in a flag. A
//! refused value gets a few words on what is wrong; [`Kind::accepted`] says what would be right.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use ureq::http::Uri;
use ureq::http::uri::Authority;

use super::error::ConfigError;
use super::raw_value::{Given, Value};
use super::suggest;
use super::units::{exact_bytes, exact_duration, not_a_duration, parse_bytes, parse_duration};
use crate::limits::SPAN_TAGS_MAX;

/// A kind of values, read into a `T`.
pub(super) struct Kind<T> {
    /// The accepted values, in words.
    pub(super) accepted: String,
    reader: Reader<T>,
}

type Reader<T> = Box<dyn Fn(&Given) -> Result<T, Problem>>;

/// Why a value is not accepted.
pub(super) struct Problem {
    /// The reason, in a few words.
    text: String,
    /// Index of the list item at fault, if it is one item.
    item: Option<usize>,
    /// Whether the value may have a secret in it.
    is_secret: bool,
}

impl<S: Into<String>> From<S> for Problem {
    fn from(text: S) -> Self {
        Self { text: text.into(), item: None, is_secret: false }
    }
}

impl<T: 'static> Kind<T> {
    /// Creates a kind; `accepted` describes its values in errors.
    pub(super) fn new(
        accepted: impl Into<String>,
        reader: impl Fn(&Given) -> Result<T, Problem> + 'static,
    ) -> Self {
        Self { accepted: accepted.into(), reader: Box::new(reader) }
    }

    /// Adds the reason for the range to error messages; nothing if `why` is empty.
    pub(super) fn because(mut self, why: &str) -> Self {
        if !why.is_empty() {
            self.accepted += &format!(" ({why})");
        }
        self
    }

    /// Reads the value of `name`; a refused one is added to the errors.
    pub(super) fn read(
        &self,
        name: &str,
        given: &Given,
        errors: &mut Vec<ConfigError>,
    ) -> Option<T> {
        let problem = match (self.reader)(given) {
            Ok(value) => return Some(value),
            Err(problem) => problem,
        };
        let item = problem.item.and_then(|index| given.items().into_iter().nth(index));
        let mut location = item.map_or(given.location.clone(), |item| item.location);
        location.hidden |= problem.is_secret;
        let error = ConfigError::value(location, name, &problem.text, &self.accepted);
        errors.push(error);
        None
    }
}

impl<T: 'static> Kind<T> {
    /// Converts each value with `into`, which may refuse it.
    pub(super) fn and_then<U: 'static>(self, into: fn(T) -> Result<U, Problem>) -> Kind<U> {
        Kind::new(self.accepted, move |given| into((self.reader)(given)?))
    }

    /// Also refuses values for which `refuse` returns a reason.
    pub(super) fn refusing(self, refuse: fn(&T) -> Option<&'static str>) -> Self {
        Self::new(self.accepted, move |given| {
            let value = (self.reader)(given)?;
            match refuse(&value) {
                Some(problem) => Err(problem.into()),
                None => Ok(value),
            }
        })
    }
}

fn fit<N: TryFrom<u64>>(number: i128, least: u64, most: u64) -> Result<N, Problem> {
    if number < i128::from(least) {
        return Err("too small".into());
    }
    let number = u64::try_from(number).ok().filter(|number| *number <= most);
    number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| "too large".into())
}

/// An integer from `least` to `most`.
pub(super) fn whole<N: TryFrom<u64> + 'static>(least: u64, most: u64) -> Kind<N> {
    Kind::new(format!("a whole number from {least} to {most}"), move |given| {
        let number = match &given.value {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        };
        fit(number.ok_or("not a whole number")?, least, most)
    })
}

/// A size in bytes.
pub(super) fn size(least: u64, most: u64) -> Kind<usize> {
    let accepted = format!(
        "a size from {} to {}, as in 64MB (x 1000), 64MiB (x 1024) or plain bytes",
        exact_bytes(least),
        exact_bytes(most)
    );
    Kind::new(accepted, move |given| {
        let bytes = parse_bytes(given.text_or_number().ok_or("not a size")?)?;
        fit(bytes.into(), least, most)
    })
}

impl Kind<usize> {
    /// Also accepts 0, described in errors as `meaning`.
    pub(super) fn or_zero(self, meaning: &str) -> Self {
        let accepted = format!("{}, or 0: {meaning}", self.accepted);
        Self::new(accepted, move |given| match given.text_or_number().map(parse_bytes) {
            Some(Ok(0)) => Ok(0),
            _ => (self.reader)(given),
        })
    }
}

/// A duration.
pub(super) fn span(least: Duration, most: Duration) -> Kind<Duration> {
    let accepted = format!(
        "a duration from {} to {}, as in \"10ms\", \"1h30m\" or a plain number of seconds",
        exact_duration(least),
        exact_duration(most)
    );
    Kind::new(accepted, move |given| {
        let duration = parse_duration(given.text_or_number().ok_or_else(not_a_duration)?)?;
        match duration {
            _ if duration < least => Err("too short".into()),
            _ if duration > most => Err("too long".into()),
            _ => Ok(duration),
        }
    })
}

impl Kind<Duration> {
    /// Accepts whole seconds only.
    pub(super) fn in_whole_seconds(self) -> Self {
        self.refusing(|it| (it.subsec_nanos() > 0).then_some("not in whole seconds"))
    }
}

/// One of the given words.
pub(super) fn choice<T: Copy>(choices: &'static [(&'static str, T)]) -> Kind<T> {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    Kind::new(words.join(", "), |given| {
        let chosen = choices.iter().find(|(word, _)| given.text() == Some(word));
        let question = || {
            let words = choices.iter().map(|(word, _)| *word);
            suggest::question(given.text().unwrap_or_default(), words)
        };
        Ok(chosen.ok_or_else(|| format!("no such choice{}", question()))?.1)
    })
}

/// Any of the given words.
pub(super) fn choices<T: Copy + 'static>(choices: &'static [(&'static str, T)]) -> Kind<Vec<T>> {
    let one = choice(choices);
    let accepted = format!("a list of some of {}", one.accepted);
    Kind::new(accepted, move |given| {
        let read = given.items().into_iter().enumerate().map(|(index, given)| {
            (one.reader)(&given).map_err(|problem| Problem { item: Some(index), ..problem })
        });
        read.collect()
    })
}

/// true or false.
pub(super) fn switch() -> Kind<bool> {
    Kind::new("true, false", |given| match given.value {
        Value::Switch(on) => Ok(on),
        _ => Err("neither true nor false".into()),
    })
}

/// An IP address with a port, or "".
pub(super) fn front_address() -> Kind<Option<SocketAddr>> {
    let accepted = "an IP address with a port, as in \"127.0.0.1:30080\" or \"[::1]:30080\"; \"\" switches it off";
    Kind::new(accepted, |given| match given.text() {
        Some("") => Ok(None),
        _ => Ok(Some(address(given)?)),
    })
}

/// The path of a file or a directory, or "".
pub(super) fn path(of: &str) -> Kind<Option<PathBuf>> {
    path_or(format!("the path of a {of}, or \"\" for none"))
}

/// The value of [`data_folder`] that asks to find a folder; a folder of that name is "./auto".
pub(super) const AUTO: &str = "auto";

/// The path of a directory, [`AUTO`], or "".
pub(super) fn data_folder() -> Kind<Option<PathBuf>> {
    path_or("the path of a directory, \"auto\" for the usual one, or \"\" for none".to_owned())
}

fn path_or(accepted: String) -> Kind<Option<PathBuf>> {
    Kind::new(accepted, |given| {
        let path = match given.text() {
            // A directory may be called `2024`, without quotes.
            None if !given.location.is_in_file() => given.location.text(),
            path => path.ok_or("not a path")?,
        };
        Ok((!path.is_empty()).then(|| path.into()))
    })
}

/// A text that is shown as it is; `of` says what it names.
pub(super) fn name(of: &str) -> Kind<String> {
    let accepted = format!("the name of {of}: at most 255 bytes without control characters");
    Kind::new(accepted, |given| {
        let text = given.text_or_number().ok_or("not a text")?;
        match text.len() <= 255 && !text.contains(char::is_control) {
            true => Ok(text.to_owned()),
            false => Err("too long, or with a control character".into()),
        }
    })
}

/// A text that `fits`; anything else is refused as `not`, such as "not a path".
pub(super) fn text_that(
    fits: fn(&str) -> bool,
    not: &'static str,
    accepted: impl Into<String>,
) -> Kind<String> {
    Kind::new(accepted, move |given| match given.text() {
        Some(text) if fits(text) => Ok(text.to_owned()),
        _ => Err(not.into()),
    })
}

/// The host name under which requests of a source are counted.
pub(super) fn host(of: &str) -> Kind<String> {
    let accepted = format!("{of}, 1 to 255 bytes");
    text_that(|name| (1..=255).contains(&name.len()), "not a name", accepted)
}

/// A name that needs no quotes in a statement.
pub(super) fn identifier() -> Kind<String> {
    let accepted = "letters, digits and _, not beginning with a digit, at most 64";
    text_that(|name| is_identifier(name) && name.len() <= 64, "not a name", accepted)
}

/// Whether `name` has letters, digits and _, and does not begin with a digit.
pub(super) fn is_identifier(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.starts_with(|first: char| !first.is_ascii_digit()) && name.bytes().all(fits)
}

/// The URL of a server, such as `example`; without a password, since URLs are logged.
pub(super) fn server_url(example: &str) -> Kind<String> {
    let accepted =
        format!("a URL, as in {example:?}, without user, password and parameters; \"\" for none");
    Kind::new(accepted, |given| {
        let text = given.text().ok_or("not a text")?;
        if text.contains(['@', '?']) {
            return Err(Problem {
                is_secret: true,
                ..Problem::from("a user, a password or parameters in it")
            });
        }
        let is_http = text.starts_with("http://") || text.starts_with("https://");
        let fits = |byte: u8| byte.is_ascii_graphic() && !b"#\"'<>\\".contains(&byte);
        let is_hex = |it: &[u8]| it.iter().all(u8::is_ascii_hexdigit);
        let is_escape = |it: &str| it.as_bytes().get(..2).is_some_and(is_hex);
        let is_host = |it: &Authority| it.port_u16().is_some() || it.as_str() == it.host();
        let is_url = is_http
            && text.bytes().all(fits)
            && text.split('%').skip(1).all(is_escape)
            && text.parse::<Uri>().is_ok_and(|it| it.authority().is_some_and(is_host));
        match text {
            "" => Ok(String::new()),
            _ if is_url => Ok(text.to_owned()),
            _ => Err("not a URL".into()),
        }
    })
}

/// URLs that alerts are sent to.
pub(super) fn server_urls() -> Kind<Vec<String>> {
    let accepted = "up to 8 URLs, as in [\"http://alertmanager:9093\"], without user, password and parameters; [] for none";
    list((8, "URLs"), accepted, |given, before| {
        let url = (server_url("").reader)(given)?;
        // A slash at the end makes no difference to where alerts go.
        distinct_name(Some(url.trim_end_matches('/')), before)
    })
}

/// A list of at most `most` items, called by the given noun; a single value is a list of one.
/// `item` reads an item and sees the ones before it.
pub(super) fn list<T: 'static>(
    (most, items_are): (usize, &'static str),
    accepted: &str,
    item: fn(&Given, &[T]) -> Result<T, Problem>,
) -> Kind<Vec<T>> {
    Kind::new(accepted, move |given| {
        let items = given.items();
        if items.len() > most {
            return Err(format!("more than {most} {items_are}").into());
        }
        let mut values = Vec::with_capacity(items.len());
        for (index, given) in items.iter().enumerate() {
            let item_of = |problem| Problem { item: Some(index), ..problem };
            values.push(item(given, &values).map_err(item_of)?);
        }
        Ok(values)
    })
}

/// Refuses an item that is in the list already.
fn distinct<T: PartialEq>(item: T, before: &[T]) -> Result<T, Problem> {
    if before.contains(&item) { Err("the same twice".into()) } else { Ok(item) }
}

/// The same for a name, which must not be empty.
fn distinct_name(name: Option<&str>, before: &[String]) -> Result<String, Problem> {
    match name.ok_or("not a text")? {
        "" => Err("empty".into()),
        name => distinct(name.to_owned(), before),
    }
}

pub(super) fn addresses() -> Kind<Vec<SocketAddr>> {
    let accepted = "1 to 64 IP addresses with ports, as in [\"0.0.0.0:30002\", \"[::]:30002\"]";
    let any = list((64, "addresses"), accepted, |given, before| {
        let address = address(given)?;
        // Port 0 is a new port each time.
        match address.port() != 0 && before.contains(&address) {
            true => Err("the same address twice".into()),
            false => Ok(address),
        }
    });
    any.refusing(|addresses| addresses.is_empty().then_some("no address at all"))
}

pub(super) fn networks() -> Kind<Vec<IpNet>> {
    let accepted =
        "up to 64 networks, as in [\"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"]; [] for none";
    list((64, "networks"), accepted, |given, before| {
        let text = given.text().unwrap_or_default();
        // A plain address is a network of one.
        let alone = || text.parse().map(|address: IpAddr| address.into());
        let network: IpNet = text.parse().or_else(|_| alone()).map_err(|_| "not a network")?;
        match network.trunc() {
            whole if whole != network => Err(format!("an address in the network {whole}").into()),
            whole => distinct(whole, before),
        }
    })
}

pub(super) fn host_names() -> Kind<Vec<String>> {
    let accepted = "up to 64 host names without ports, as in [\"stats.example.com\"]; [] for none";
    list((64, "names"), accepted, |given, before| {
        let text = given.text().unwrap_or_default();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        match text.is_empty() || text.len() > 253 || !text.bytes().all(fits) {
            true => Err("not a host name".into()),
            false => distinct(text.to_ascii_lowercase(), before),
        }
    })
}

pub(super) fn report_names() -> Kind<Vec<String>> {
    let accepted = "up to 64 names of reports, as in [\"report_by_script_name\", \"*\"], where \"*\" is every \
                    [[report]]; [] for none";
    list((64, "names"), accepted, |given, before| distinct_name(given.text(), before))
}

pub(super) fn patterns() -> Kind<Vec<String>> {
    let accepted = "up to 64 patterns of names of instruments, as in [\"stage/%\", \"wait/%=counted\"], each alone or \
                    with =timed or =counted; [] for none";
    list((64, "patterns"), accepted, |given, before| {
        let text = given.text().unwrap_or_default();
        let (pattern, how) = text.split_once('=').unwrap_or((text, "timed"));
        match pattern.is_empty() || !["timed", "counted"].contains(&how) {
            true => Err("not a pattern".into()),
            false => distinct(text.to_owned(), before),
        }
    })
}

pub(super) fn tag_names() -> Kind<Vec<String>> {
    let accepted = "up to 64 names of tags, as in [\"group\", \"op\"]; \"*\" is all, [] none";
    list((64, "names"), accepted, |given, before| distinct_name(given.text_or_number(), before))
}

pub(super) fn attributes() -> Kind<Vec<String>> {
    let accepted = "up to 16 names of attributes, as in [\"tenant.id\", \"http.request.header.x\"]; [] for none";
    list((SPAN_TAGS_MAX, "names"), accepted, |given, before| match given.text() {
        None | Some("") => Err("not the name of an attribute".into()),
        Some(name) => distinct(name.to_owned(), before),
    })
}

/// Names with a text each.
pub(super) fn texts() -> Kind<BTreeMap<String, String>> {
    let accepted = "up to 32 names with texts, as in {\"deployment.environment.name\" = \"live\"}; {} for none";
    table((32, "more than 32 names"), accepted, |name, text| match text {
        Some(_) if !name.is_empty() => Ok(()),
        _ => Err(format!("{name} is not a text; a name with dots stands in quotes")),
    })
}

/// A table of at most `most` texts by their names, each of which `check` sees.
pub(super) fn table(
    (most, too_many): (usize, &'static str),
    accepted: impl Into<String>,
    check: fn(&str, Option<&str>) -> Result<(), String>,
) -> Kind<BTreeMap<String, String>> {
    Kind::new(accepted, move |given| {
        let Value::Table(entry) = &given.value else { return Err("not a table".into()) };
        if entry.values.len() > most {
            return Err(too_many.into());
        }
        let texts = entry.values.iter().map(|(name, given)| {
            check(name, given.text())?;
            Ok((name.clone(), given.text().unwrap_or_default().to_owned()))
        });
        texts.collect()
    })
}

pub(super) fn buckets() -> Kind<Vec<Duration>> {
    let accepted =
        "up to 40 durations in ascending order, as in [\"10ms\", \"100ms\", \"1s\"]; [] for none";
    list((40, "durations"), accepted, |given, before| {
        let text = given.text_or_number().ok_or_else(not_a_duration)?;
        let duration = parse_duration(text)?;
        match duration <= before.last().copied().unwrap_or_default() {
            true => Err("not longer than what stands before it".into()),
            false => Ok(duration),
        }
    })
}

fn address(given: &Given) -> Result<SocketAddr, &'static str> {
    socket_address(given.text_or_number().ok_or("not an address")?)
}

/// An IP address with a port.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    let parsed = text.parse::<SocketAddr>();
    if parsed.as_ref().is_ok_and(|address| address.ip().is_multicast()) {
        return Err("a multicast address: groups are not joined");
    }
    parsed.map_err(|_| {
        let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
        let port_only = text.strip_prefix(':').unwrap_or(text);
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        if is_ip(text) {
            "an address without a port"
        } else if port_only.parse::<u16>().is_ok() {
            "a port without an address"
        } else if !port.is_empty() && !host.is_empty() && !is_ip(host) {
            "not an IP address (names are not looked up)"
        } else {
            "not an address"
        }
    })
}
