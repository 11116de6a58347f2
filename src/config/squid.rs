//! `[[squid]]`: logs of Squid, over the network or from a file.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{Kind, choice, host, socket_address, switch, text_that};
use super::list_entry::EntryReader;
use super::location::Location;

/// A checked entry.
#[derive(Debug, Clone, PartialEq)]
pub struct SquidSource {
    /// Where the entry begins.
    pub location: Location,
    /// The source of the lines.
    pub from: SquidFrom,
    /// Hostname of its requests; `None` uses the sender's address.
    pub name: Option<String>,
    /// Whether requests get a tag with the client's address.
    pub client: bool,
}

/// The source of log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SquidFrom {
    /// Datagrams: `udp://ADDRESS`.
    Udp(SocketAddr),
    /// Connections: `tcp://ADDRESS`.
    Tcp(SocketAddr),
    /// A file to follow, and whether to start at its end when it is first seen.
    File(PathBuf, bool),
}

impl fmt::Display for SquidFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::File(path, _) => path.display().fmt(f),
        }
    }
}

/// The keys of an entry.
const KEYS: [&str; 5] = ["listen", "path", "from", "name", "client"];

const LISTEN: &str =
    "\"udp://\" or \"tcp://\" and an IP address with a port, as in \"udp://127.0.0.1:18190\"";
const ONE: &str = "one of listen, path";

impl EntryReader<'_> {
    /// Reads a source.
    pub(super) fn squid(&mut self, before: &[SquidSource]) -> Option<SquidSource> {
        self.refuse_unknown(&KEYS, |_| None);
        let from = self.squid_from();
        let source = SquidSource {
            location: self.entry.location.clone(),
            name: self.read("name", &host("the hostname of its requests")),
            client: self.read("client", &switch()).unwrap_or(false),
            from: from?,
        };
        let port_0 =
            matches!(source.from, SquidFrom::Udp(at) | SquidFrom::Tcp(at) if at.port() == 0);
        // By the name under which its position is kept, wherever a file begins to be read.
        let from = source.from.to_string();
        let same = before.iter().filter(|it| it.from.to_string() == from && !port_0);
        let key = self.given(["listen", "path"])[0];
        self.once(key, same.map(|it| &it.location), "each once");
        Some(source)
    }

    fn squid_from(&mut self) -> Option<SquidFrom> {
        let at_end = self.read("from", &choice(&[("start", false), ("end", true)]));
        match self.given(["listen", "path"])[..] {
            ["listen"] if at_end.is_some() => {
                self.refuse("from", "only a file has a start and an end", "leave it out")
            }
            ["listen"] => self.required("listen", &listen()),
            ["path"] => {
                let path = self.required("path", &log_path())?;
                Some(SquidFrom::File(path, at_end.unwrap_or(false)))
            }
            [] => self.missing("nothing says where lines come from", ONE),
            _ => self.refuse("path", "there is listen too", ONE),
        }
    }
}

fn listen() -> Kind<SquidFrom> {
    Kind::new(LISTEN, |given| {
        let text = given.text().unwrap_or_default();
        let (scheme, address) = text.split_once("://").ok_or("not an address of a log")?;
        let address = socket_address(address)?;
        match scheme {
            "udp" => Ok(SquidFrom::Udp(address)),
            "tcp" => Ok(SquidFrom::Tcp(address)),
            _ => Err("neither udp nor tcp".into()),
        }
    })
}

fn log_path() -> Kind<PathBuf> {
    let accepted = "the path of a log, as in \"/var/log/squid/access.log\"";
    text_that(|path| !path.is_empty(), "not a path", accepted).and_then(|path| Ok(path.into()))
}
