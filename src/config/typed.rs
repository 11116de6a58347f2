//! A value as it was typed, and how it becomes what a key takes.
//!
//! Three ways in (TOML of the file, TOML of `--set` and variables, bare text of those two) meet in [`Typed`]; from
//! there one reading per [`Takes`], so a value means the same wherever it was given. Runs at start only. A reading
//! that fails says what is wrong and, from [`accepted`], what would be right.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;

use super::error::ConfigError;
use super::keys::{Key, LISTEN_MAX, NAMES_MAX, Takes};
use super::place::Place;
use super::units::{exact_bytes, exact_duration, parse_bytes, parse_duration};

/// A value with its place.
#[derive(Debug, Clone)]
pub struct Typed {
    /// What was typed.
    pub form: Form,
    /// Where.
    pub place: Place,
}

/// The forms of TOML that matter here.
#[derive(Debug, Clone)]
pub enum Form {
    /// A string, or bare text of a flag or variable.
    Text(String),
    /// An integer, always decimal, or a float, as typed: `units` reads the decimals exactly.
    Number(String),
    /// true or false.
    Switch(bool),
    /// An array.
    List(Vec<Typed>),
    /// Anything that no key takes: a table, a date.
    Other,
}

/// A value that a key takes, checked against its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Of [`Takes::Count`], and of [`Takes::Bytes`] in bytes.
    Count(u64),
    /// Of [`Takes::Duration`].
    Duration(Duration),
    /// Of [`Takes::Choice`].
    Choice(&'static str),
    /// Of [`Takes::Switch`].
    Switch(bool),
    /// Of [`Takes::Address`]; `None`: switched off.
    Address(Option<SocketAddr>),
    /// Of [`Takes::Addresses`].
    Addresses(Vec<SocketAddr>),
    /// Of [`Takes::Networks`].
    Networks(Vec<IpNet>),
    /// Of [`Takes::Names`], in lower case.
    Names(Vec<String>),
    /// Of [`Takes::Path`] and [`Takes::File`]; `None`: no path.
    Path(Option<PathBuf>),
    /// Of [`Takes::Texts`].
    Texts(Vec<String>),
    /// Of [`Takes::Durations`].
    Durations(Vec<Duration>),
}

impl Typed {
    /// A TOML value that stands in the text of `place`.
    #[must_use]
    pub fn of_toml(value: &Spanned<DeValue<'_>>, place: &Place) -> Self {
        let form = match value.get_ref() {
            DeValue::String(text) => Form::Text(text.to_string()),
            // Hexadecimal and the like are made decimal; what is beyond 128 bits is out of every range anyway.
            DeValue::Integer(number) => Form::Number(
                i128::from_str_radix(number.as_str(), number.radix())
                    .map_or_else(|_| number.to_string(), |number| number.to_string()),
            ),
            DeValue::Float(number) => Form::Number(number.as_str().to_owned()),
            DeValue::Boolean(on) => Form::Switch(*on),
            DeValue::Array(items) => Form::List(
                items
                    .iter()
                    .map(|item| Self::of_toml(item, place))
                    .collect(),
            ),
            DeValue::Datetime(_) | DeValue::Table(_) => Form::Other,
        };
        Self {
            form,
            place: place.at(value.span()),
        }
    }

    /// The text of a flag or a variable for `key`: TOML if it is any, else as it stands.
    ///
    /// A shell eats the quotes of `["127.0.0.1:0","[::1]:0"]` unless they are quoted again; for lists of addresses
    /// what is left (`[127.0.0.1:0,[::1]:0]`) is still clear, and so is `127.0.0.1:0,[::1]:0`.
    #[must_use]
    pub fn of_text(key: &Key, place: &Place) -> Self {
        let text = place.text();
        let bare = || Self {
            form: Form::Text(text.to_owned()),
            place: place.clone(),
        };
        let quoted = text.starts_with(['"', '\'']);
        if matches!(key.takes, Takes::Path | Takes::File) && !quoted {
            return bare();
        }
        match DeValue::parse(text) {
            Ok(value) => Self::of_toml(&value, place),
            Err(_) if key.takes.is_list() && !quoted => {
                let inner = text
                    .strip_prefix('[')
                    .and_then(|text| text.strip_suffix(']'));
                // "[::1]" is one address without its port, not a list.
                let inner = inner
                    .filter(|inner| !inner.starts_with(':'))
                    .unwrap_or(text);
                let items = inner.split(',').map(|item| Self {
                    form: Form::Text(item.trim().trim_matches(['"', '\'']).to_owned()),
                    place: Place::whole(place.origin().clone(), item),
                });
                Self {
                    form: Form::List(items.collect()),
                    place: place.clone(),
                }
            }
            Err(_) => bare(),
        }
    }

    /// What `key` makes of it.
    ///
    /// # Errors
    /// Place, key, value given and what is accepted.
    pub fn read(&self, key: &Key) -> Result<Value, ConfigError> {
        let refuse = |typed: &Self, problem: String| ConfigError::Value {
            place: typed.place.clone(),
            key: key.name.to_owned(),
            problem,
            accepted: accepted(key),
        };
        let read = match &key.takes {
            Takes::Count(least, most) => self.count().and_then(|n| within(n, *least, *most)),
            Takes::Bytes(least, most) => self.bytes().and_then(|n| within(n, *least, *most)),
            Takes::BytesOrZero(least, most, _) => self.bytes().and_then(|n| {
                if n == 0 {
                    Ok(Value::Count(0))
                } else {
                    within(n, *least, *most)
                }
            }),
            Takes::Duration(least, most) => self.duration(*least, *most),
            Takes::Choice(words) => self.choice(words),
            Takes::Switch => match &self.form {
                Form::Switch(on) => Ok(Value::Switch(*on)),
                Form::Text(_) | Form::Number(_) | Form::List(_) | Form::Other => {
                    Err("neither true nor false".to_owned())
                }
            },
            Takes::Address => match self.text() {
                Some("") => Ok(Value::Address(None)),
                _ => self.address().map(|address| Value::Address(Some(address))),
            },
            Takes::Addresses => match &self.form {
                Form::List(items) => {
                    return addresses(items).map_err(|(at, problem)| {
                        refuse(at.map_or(self, |at| &items[at]), problem)
                    });
                }
                _ => self
                    .address()
                    .map(|address| Value::Addresses(vec![address])),
            },
            Takes::Networks => {
                return networks(self.items())
                    .map_err(|(at, problem)| refuse(at.unwrap_or(self), problem));
            }
            Takes::Names => {
                return names(self.items())
                    .map_err(|(at, problem)| refuse(at.unwrap_or(self), problem));
            }
            Takes::Path | Takes::File => match self.text() {
                Some("") => Ok(Value::Path(None)),
                Some(path) => Ok(Value::Path(Some(PathBuf::from(path)))),
                None => Err("not a path".to_owned()),
            },
            Takes::Texts(most, _) => {
                let texts = self.list(*most, |item| {
                    let text = item.text().filter(|text| !text.is_empty());
                    text.map(str::to_owned).ok_or("not a text")
                });
                return texts
                    .map(Value::Texts)
                    .map_err(|(at, problem)| refuse(at, problem.to_owned()));
            }
            Takes::Durations(most) => {
                return self
                    .durations(*most)
                    .map(Value::Durations)
                    .map_err(|(at, problem)| refuse(at, problem.to_owned()));
            }
        };
        read.map_err(|problem| refuse(self, problem))
    }

    /// The items of a list; a value alone is a list of one, and "" one of none.
    fn items(&self) -> &[Self] {
        match &self.form {
            Form::List(items) => items,
            Form::Text(text) if text.is_empty() => &[],
            _ => std::slice::from_ref(self),
        }
    }

    /// Each item of a list; a value alone is a list of one, and "" one of none.
    fn list<T>(
        &self,
        most: usize,
        mut read: impl FnMut(&Self) -> Result<T, &'static str>,
    ) -> Result<Vec<T>, (&Self, &'static str)> {
        // What a shell left of `[]`.
        let items = match self.items() {
            [only] if only.text() == Some("") => &[],
            items => items,
        };
        if items.len() > most {
            return Err((self, "too many"));
        }
        items
            .iter()
            .map(|item| read(item).map_err(|problem| (item, problem)))
            .collect()
    }

    fn durations(&self, most: usize) -> Result<Vec<Duration>, (&Self, &'static str)> {
        let mut last = Duration::ZERO;
        self.list(most, |item| {
            let text = item.text_or_number().ok_or("not a duration")?;
            let duration = parse_duration(text).map_err(|_| "not a duration")?;
            if duration <= last {
                return Err("not longer than what stands before it");
            }
            last = duration;
            Ok(duration)
        })
    }

    fn text(&self) -> Option<&str> {
        match &self.form {
            Form::Text(text) => Some(text),
            Form::Number(_) | Form::Switch(_) | Form::List(_) | Form::Other => None,
        }
    }

    /// The text of a string or of a number: sizes and durations are given as either.
    fn text_or_number(&self) -> Option<&str> {
        match &self.form {
            Form::Text(text) | Form::Number(text) => Some(text),
            Form::Switch(_) | Form::List(_) | Form::Other => None,
        }
    }

    fn count(&self) -> Result<i128, String> {
        match &self.form {
            Form::Number(number) => number.parse().map_err(|_| "not a whole number".to_owned()),
            Form::Text(_) | Form::Switch(_) | Form::List(_) | Form::Other => {
                Err("not a whole number".to_owned())
            }
        }
    }

    fn bytes(&self) -> Result<i128, String> {
        let text = self.text_or_number().ok_or("not a size")?;
        parse_bytes(text).map(i128::from)
    }

    fn duration(&self, least: Duration, most: Duration) -> Result<Value, String> {
        let text = self.text_or_number().ok_or("not a duration")?;
        let duration = parse_duration(text)?;
        if duration < least {
            Err("too short".to_owned())
        } else if duration > most {
            Err("too long".to_owned())
        } else {
            Ok(Value::Duration(duration))
        }
    }

    fn choice(&self, words: &[&'static str]) -> Result<Value, String> {
        let text = self.text().unwrap_or_default();
        let word = words.iter().find(|word| **word == text);
        word.map(|word| Value::Choice(word))
            .ok_or_else(|| "no such choice".to_owned())
    }

    fn address(&self) -> Result<SocketAddr, String> {
        let text = self.text_or_number().ok_or("not an address")?;
        text.parse().map_err(|_| {
            let port_only = text.strip_prefix(':').unwrap_or(text);
            let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
            if text.parse::<std::net::IpAddr>().is_ok() {
                "an address without a port".to_owned()
            } else if port_only.parse::<u16>().is_ok() {
                "a port without an address".to_owned()
            } else if !port.is_empty()
                && !host.is_empty()
                && host.parse::<std::net::IpAddr>().is_err()
            {
                "not an IP address (names are not looked up)".to_owned()
            } else {
                "not an address".to_owned()
            }
        })
    }
}

fn within(number: i128, least: u64, most: u64) -> Result<Value, String> {
    match u64::try_from(number) {
        Ok(number) if number > most => Err("too large".to_owned()),
        Ok(number) if number >= least => Ok(Value::Count(number)),
        Err(_) if number > 0 => Err("too large".to_owned()),
        _ => Err("too small".to_owned()),
    }
}

/// The addresses of a list, or which item is wrong (`None`: the list as such) and what with it.
fn addresses(items: &[Typed]) -> Result<Value, (Option<usize>, String)> {
    if items.is_empty() {
        return Err((None, "no address at all".to_owned()));
    }
    if items.len() > LISTEN_MAX {
        return Err((None, format!("more than {LISTEN_MAX} addresses")));
    }
    let mut listen: Vec<SocketAddr> = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let address = item.address().map_err(|problem| (Some(at), problem))?;
        // Port 0 is a new port each time.
        if address.port() != 0 && listen.contains(&address) {
            return Err((Some(at), "the same address twice".to_owned()));
        }
        listen.push(address);
    }
    Ok(Value::Addresses(listen))
}

/// The networks of a list, or what is wrong, with the item if it is one. An address alone is a network of one.
fn networks(items: &[Typed]) -> Result<Value, (Option<&Typed>, String)> {
    if items.len() > NAMES_MAX {
        return Err((None, format!("more than {NAMES_MAX} networks")));
    }
    let network = |item| {
        let text = Typed::text(item).unwrap_or_default();
        let alone = || text.parse().map(|address: IpAddr| address.into());
        let network: IpNet = text
            .parse()
            .or_else(|_| alone())
            .map_err(|_| (Some(item), "not a network".to_owned()))?;
        if network.trunc() != network {
            let problem = format!("an address in the network {}", network.trunc());
            return Err((Some(item), problem));
        }
        Ok(network)
    };
    items
        .iter()
        .map(network)
        .collect::<Result<_, _>>()
        .map(Value::Networks)
}

/// The host names of a list, or what is wrong, with the item if it is one.
fn names(items: &[Typed]) -> Result<Value, (Option<&Typed>, String)> {
    if items.len() > NAMES_MAX {
        return Err((None, format!("more than {NAMES_MAX} names")));
    }
    let name = |item| {
        let text = Typed::text(item).unwrap_or_default();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if text.is_empty() || text.len() > 253 || !text.bytes().all(fits) {
            return Err((Some(item), "not a host name".to_owned()));
        }
        Ok(text.to_ascii_lowercase())
    };
    items
        .iter()
        .map(name)
        .collect::<Result<_, _>>()
        .map(Value::Names)
}

/// What `key` takes, in words, with the reason for the range.
#[must_use]
pub fn accepted(key: &Key) -> String {
    let size = |least: u64, most: u64| {
        format!(
            "a size from {} to {}, as in 64MB (x 1000), 64MiB (x 1024) or plain bytes",
            exact_bytes(least),
            exact_bytes(most)
        )
    };
    let what = match &key.takes {
        Takes::Count(least, most) => format!("a whole number from {least} to {most}"),
        Takes::Bytes(least, most) => size(*least, *most),
        Takes::BytesOrZero(least, most, zero) => format!("{}, or 0: {zero}", size(*least, *most)),
        Takes::Duration(least, most) => format!(
            "a duration from {} to {}, as in \"10ms\", \"1h30m\" or a plain number of seconds",
            exact_duration(*least),
            exact_duration(*most)
        ),
        Takes::Choice(words) => words.join(", "),
        Takes::Switch => "true, false".to_owned(),
        Takes::Address => {
            "an IP address with a port, as in \"127.0.0.1:30080\" or \"[::1]:30080\"; \"\" switches it off"
                .to_owned()
        }
        Takes::Addresses => format!(
            "1 to {LISTEN_MAX} IP addresses with ports, as in [\"0.0.0.0:30002\", \"[::]:30002\"]"
        ),
        Takes::Networks => format!(
            "up to {NAMES_MAX} networks, as in [\"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"]; [] for none"
        ),
        Takes::Names => format!(
            "up to {NAMES_MAX} host names without ports, as in [\"stats.example.com\"]; [] for none"
        ),
        Takes::File => "the path of a file, or \"\" for none".to_owned(),
        Takes::Path => "the path of a directory, or \"\" for none".to_owned(),
        Takes::Texts(most, what) => format!("up to {most} {what}; [] for none"),
        Takes::Durations(most) => format!(
            "up to {most} durations in ascending order, as in [\"10ms\", \"100ms\", \"1s\"]; [] for none"
        ),
    };
    if key.why.is_empty() {
        what
    } else {
        format!("{what} ({})", key.why)
    }
}
