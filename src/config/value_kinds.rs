//! The kinds of values that keys accept: how each is read, and how an error describes it.
//!
//! A kind reads a [`Given`], which is the same wherever it came from, so a value means the same in the file, in a variable and
//! in a flag. What it refuses gets a few words on what is wrong; [`Reads::accepted`] says what would be right.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::given::{Given, Unquoted, Value};
use super::units::{exact_bytes, exact_duration, parse_bytes, parse_duration};

/// A kind of values that become a `T`.
pub(super) trait Reads<T> {
    /// What it accepts, in words.
    fn accepted(&self) -> String;

    /// What a text that is not TOML means, as a shell leaves it when it eats the quotes.
    fn unquoted(&self) -> Unquoted {
        Unquoted::Text
    }

    /// Reads a value.
    fn read(&self, given: &Given) -> Result<T, Refused>;
}

/// Why a value is not accepted.
pub(super) struct Refused {
    /// In a few words.
    pub(super) problem: String,
    /// The item of a list that is wrong, if it is one.
    pub(super) item: Option<usize>,
}

impl<S: Into<String>> From<S> for Refused {
    fn from(problem: S) -> Self {
        Self {
            problem: problem.into(),
            item: None,
        }
    }
}

fn fit<N: TryFrom<u64>>(number: i128, least: u64, most: u64) -> Result<N, Refused> {
    if number < i128::from(least) {
        return Err("too small".into());
    }
    let number = u64::try_from(number).ok().filter(|number| *number <= most);
    number
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| "too large".into())
}

/// A whole number from the first to the second.
pub(super) struct Whole(pub(super) u64, pub(super) u64);

impl<N: TryFrom<u64>> Reads<N> for Whole {
    fn accepted(&self) -> String {
        format!("a whole number from {} to {}", self.0, self.1)
    }

    fn read(&self, given: &Given) -> Result<N, Refused> {
        let number = match &given.value {
            Value::Number(number) => number.parse().ok(),
            _ => None,
        };
        fit(number.ok_or("not a whole number")?, self.0, self.1)
    }
}

/// A size in bytes.
pub(super) struct Size {
    least: u64,
    most: u64,
    /// What 0 means, where it is accepted beside the range.
    zero: Option<&'static str>,
}

impl Size {
    pub(super) const fn between(least: u64, most: u64) -> Self {
        Self {
            least,
            most,
            zero: None,
        }
    }

    pub(super) const fn or_zero(mut self, meaning: &'static str) -> Self {
        self.zero = Some(meaning);
        self
    }
}

impl Reads<usize> for Size {
    fn accepted(&self) -> String {
        let zero = self.zero.map(|zero| format!(", or 0: {zero}"));
        format!(
            "a size from {} to {}, as in 64MB (x 1000), 64MiB (x 1024) or plain bytes{}",
            exact_bytes(self.least),
            exact_bytes(self.most),
            zero.unwrap_or_default()
        )
    }

    fn read(&self, given: &Given) -> Result<usize, Refused> {
        match parse_bytes(given.text_or_number().ok_or("not a size")?)? {
            0 if self.zero.is_some() => Ok(0),
            bytes => fit(bytes.into(), self.least, self.most),
        }
    }
}

/// A duration.
pub(super) struct Span {
    least: Duration,
    most: Duration,
    whole_seconds: bool,
}

impl Span {
    pub(super) const fn between(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            whole_seconds: false,
        }
    }

    pub(super) const fn in_whole_seconds(mut self) -> Self {
        self.whole_seconds = true;
        self
    }
}

impl Reads<Duration> for Span {
    fn accepted(&self) -> String {
        format!(
            "a duration from {} to {}, as in \"10ms\", \"1h30m\" or a plain number of seconds",
            exact_duration(self.least),
            exact_duration(self.most)
        )
    }

    fn read(&self, given: &Given) -> Result<Duration, Refused> {
        let duration = parse_duration(given.text_or_number().ok_or("not a duration")?)?;
        if duration < self.least {
            Err("too short".into())
        } else if duration > self.most {
            Err("too long".into())
        } else if self.whole_seconds && duration.subsec_nanos() > 0 {
            Err("not in whole seconds".into())
        } else {
            Ok(duration)
        }
    }
}

/// One of these words.
pub(super) struct Choice<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy> Reads<T> for Choice<T> {
    fn accepted(&self) -> String {
        let words: Vec<&str> = self.0.iter().map(|(word, _)| *word).collect();
        words.join(", ")
    }

    fn read(&self, given: &Given) -> Result<T, Refused> {
        let chosen = self.0.iter().find(|(word, _)| given.text() == Some(word));
        Ok(chosen.ok_or("no such choice")?.1)
    }
}

/// true or false.
pub(super) struct Switch;

impl Reads<bool> for Switch {
    fn accepted(&self) -> String {
        "true, false".to_owned()
    }

    fn read(&self, given: &Given) -> Result<bool, Refused> {
        match given.value {
            Value::Switch(on) => Ok(on),
            _ => Err("neither true nor false".into()),
        }
    }
}

/// An IP address with a port, or "".
pub(super) struct Address;

impl Reads<Option<SocketAddr>> for Address {
    fn accepted(&self) -> String {
        "an IP address with a port, as in \"127.0.0.1:30080\" or \"[::1]:30080\"; \"\" switches it off"
            .to_owned()
    }

    fn read(&self, given: &Given) -> Result<Option<SocketAddr>, Refused> {
        match given.text() {
            Some("") => Ok(None),
            _ => Ok(Some(address(given)?)),
        }
    }
}

/// The path of a file or a directory, or "".
pub(super) struct Path(pub(super) &'static str);

impl Reads<Option<PathBuf>> for Path {
    fn accepted(&self) -> String {
        format!("the path of a {}, or \"\" for none", self.0)
    }

    fn unquoted(&self) -> Unquoted {
        Unquoted::TextAlways
    }

    fn read(&self, given: &Given) -> Result<Option<PathBuf>, Refused> {
        let path = given.text().ok_or("not a path")?;
        Ok((!path.is_empty()).then(|| path.into()))
    }
}

/// A list; a value that is none is a list of one.
pub(super) struct List<T: 'static> {
    /// What it accepts.
    accepted: &'static str,
    /// The most items, and what they are called.
    most: (usize, &'static str),
    /// The problem with a list that is empty, unless that is accepted.
    empty: Option<&'static str>,
    /// Reads an item; sees the ones before it.
    item: fn(&Given, &[T]) -> Result<T, String>,
}

impl<T> Reads<Vec<T>> for List<T> {
    fn accepted(&self) -> String {
        self.accepted.to_owned()
    }

    fn unquoted(&self) -> Unquoted {
        Unquoted::List
    }

    fn read(&self, given: &Given) -> Result<Vec<T>, Refused> {
        let (most, items_are) = self.most;
        let items = given.items();
        match self.empty {
            Some(problem) if items.is_empty() => return Err(problem.into()),
            _ if items.len() > most => return Err(format!("more than {most} {items_are}").into()),
            _ => {}
        }
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let value = (self.item)(item, &values).map_err(|problem| Refused {
                problem,
                item: Some(index),
            })?;
            values.push(value);
        }
        Ok(values)
    }
}

pub(super) const ADDRESSES: List<SocketAddr> = List {
    accepted: "1 to 64 IP addresses with ports, as in [\"0.0.0.0:30002\", \"[::]:30002\"]",
    most: (64, "addresses"),
    empty: Some("no address at all"),
    item: |given, before| {
        let address = address(given)?;
        // Port 0 is a new port each time.
        if address.port() != 0 && before.contains(&address) {
            return Err("the same address twice".to_owned());
        }
        Ok(address)
    },
};

pub(super) const NETWORKS: List<IpNet> = List {
    accepted: "up to 64 networks, as in [\"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"]; [] for none",
    most: (64, "networks"),
    empty: None,
    item: |given, _| {
        let text = given.text().unwrap_or_default();
        // An address alone is a network of one.
        let alone = || text.parse().map(|address: IpAddr| address.into());
        let network: IpNet = text
            .parse()
            .or_else(|_| alone())
            .map_err(|_| "not a network")?;
        if network.trunc() != network {
            return Err(format!("an address in the network {}", network.trunc()));
        }
        Ok(network)
    },
};

pub(super) const HOST_NAMES: List<String> = List {
    accepted: "up to 64 host names without ports, as in [\"stats.example.com\"]; [] for none",
    most: (64, "names"),
    empty: None,
    item: |given, _| {
        let text = given.text().unwrap_or_default();
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if text.is_empty() || text.len() > 253 || !text.bytes().all(fits) {
            return Err("not a host name".to_owned());
        }
        Ok(text.to_ascii_lowercase())
    },
};

pub(super) const REPORT_NAMES: List<String> = List {
    accepted: "up to 64 names of reports, as in [\"report_by_script_name\", \"*\"], where \"*\" is every \
               [[report]]; [] for none",
    most: (64, "names"),
    empty: None,
    item: |given, _| {
        let text = given.text().filter(|text| !text.is_empty());
        text.map(str::to_owned)
            .ok_or_else(|| "not a text".to_owned())
    },
};

pub(super) const BUCKETS: List<Duration> = List {
    accepted: "up to 40 durations in ascending order, as in [\"10ms\", \"100ms\", \"1s\"]; [] for none",
    most: (40, "durations"),
    empty: None,
    item: |given, before| {
        let text = given.text_or_number().ok_or("not a duration")?;
        let duration = parse_duration(text).map_err(|_| "not a duration")?;
        if duration <= before.last().copied().unwrap_or_default() {
            return Err("not longer than what stands before it".to_owned());
        }
        Ok(duration)
    },
};

fn address(given: &Given) -> Result<SocketAddr, String> {
    let text = given.text_or_number().ok_or("not an address")?;
    text.parse().map_err(|_| {
        let is_ip = |text: &str| text.parse::<IpAddr>().is_ok();
        let port_only = text.strip_prefix(':').unwrap_or(text);
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        let problem = if is_ip(text) {
            "an address without a port"
        } else if port_only.parse::<u16>().is_ok() {
            "a port without an address"
        } else if !port.is_empty() && !host.is_empty() && !is_ip(host) {
            "not an IP address (names are not looked up)"
        } else {
            "not an address"
        };
        problem.to_owned()
    })
}
