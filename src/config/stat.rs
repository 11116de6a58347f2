//! `[[stat]]`: PHP `stat` extensions to read samples from.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{Kind, host, text_that};
use super::list_entry::EntryReader;
use super::location::Location;

/// A checked entry.
#[derive(Debug, Clone, PartialEq)]
pub struct StatSource {
    /// Where the entry begins.
    pub location: Location,
    /// The socket on which the extension sends samples.
    pub stream: StatAddress,
    /// The socket on which it takes settings, if wanted.
    pub control: Option<StatAddress>,
    /// Host of its samples; `None` uses the name of this machine, or the address of a remote one.
    pub name: Option<String>,
    /// Prefix to cut from paths.
    pub root: Option<String>,
}

/// A socket of the extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatAddress {
    /// `unix://PATH`, or a plain path.
    Unix(PathBuf),
    /// `tcp://HOST:PORT`, resolved at each connect.
    Tcp(String),
}

impl fmt::Display for StatAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl StatAddress {
    /// Parses an address as written in the extension's own settings.
    ///
    /// # Errors
    /// A description of the problem.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some(address) = text.strip_prefix("tcp://") {
            let (host, port) = address.rsplit_once(':').ok_or("an address without a port")?;
            let is_name = |host: &str| {
                let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                (1..=HOST_BYTES_MAX).contains(&host.len()) && host.bytes().all(is_known)
            };
            return match port.parse::<u16>() {
                Err(_) | Ok(0) => Err("not a port"),
                Ok(_) if is_name(host) || address.parse::<SocketAddr>().is_ok() => {
                    Ok(Self::Tcp(address.to_owned()))
                }
                Ok(_) => Err("not the name or the address of a host"),
            };
        }
        let path = text.strip_prefix("unix://").unwrap_or(text);
        match path {
            "" => Err("no address"),
            path if path.contains("://") => Err("neither unix nor tcp"),
            path if path.len() > PATH_BYTES_MAX => Err("too long for the path of a socket"),
            path => Ok(Self::Unix(path.into())),
        }
    }
}

/// Longest path of a socket, in bytes.
const PATH_BYTES_MAX: usize = 107;

/// Longest name of a host, in bytes.
const HOST_BYTES_MAX: usize = 253;

/// The keys of an entry.
const KEYS: [&str; 4] = ["stream", "control", "name", "root"];

/// The accepted addresses, for error messages.
pub const ACCEPTED: &str = "\"unix://\" and the path of a socket, or \"tcp://\" and a host with a port, as in \
                            \"unix:///run/php/zend.stat.stream\" or \"tcp://web1:7000\"";

impl EntryReader<'_> {
    /// Reads a source.
    pub(super) fn stat(&mut self, before: &[StatSource]) -> Option<StatSource> {
        self.refuse_unknown(&KEYS, |_| None);
        let stream = self.required("stream", &address());
        let source = StatSource {
            location: self.entry.location.clone(),
            control: self.read("control", &address()),
            name: self.read("name", &host("the host of its samples")),
            root: self.read("root", &root()),
            stream: stream?,
        };
        let same = before.iter().filter(|it| it.stream == source.stream).map(|it| &it.location);
        self.once("stream", same, "each once: it gives a sample to one reader");
        Some(source)
    }
}

fn address() -> Kind<StatAddress> {
    Kind::new(ACCEPTED, |given| Ok(StatAddress::parse(given.text().unwrap_or_default())?))
}

fn root() -> Kind<String> {
    let accepted = "the beginning of paths that is not shown, as in \"/var/www/shop\"";
    let root = text_that(|root| !root.trim_end_matches('/').is_empty(), "not a path", accepted);
    root.and_then(|root| Ok(root.trim_end_matches('/').to_owned()))
}
