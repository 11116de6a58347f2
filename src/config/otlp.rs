//! `[[otlp_input]]`: listeners for OpenTelemetry spans.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::kinds::{Kind, attributes, host, path, socket_address, switch};
use super::list_entry::EntryReader;
use super::location::Location;

/// A checked entry.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpInput {
    /// Where the entry begins.
    pub location: Location,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Hostname of its requests; `None` takes the host from the spans.
    pub name: Option<String>,
    /// Whether internal spans become timers too.
    pub internal: bool,
    /// Further attributes to turn into request tags.
    pub attributes: Vec<String>,
    /// Whether everyone who reaches `listen` may send.
    pub allow_anonymous: bool,
    /// The certificate.
    pub tls_cert: Option<PathBuf>,
    /// The private key.
    pub tls_key: Option<PathBuf>,
}

/// The keys of an entry.
const KEYS: [&str; 7] =
    ["listen", "name", "internal", "attributes", "allow_anonymous", "tls_cert", "tls_key"];

impl EntryReader<'_> {
    /// Reads an input.
    pub(super) fn otlp_input(&mut self, has_users: bool) -> Option<OtlpInput> {
        self.refuse_unknown(&KEYS, |_| None);
        let listen = self.required("listen", &listen());
        let input = OtlpInput {
            location: self.entry.location.clone(),
            name: self.read("name", &host("the hostname of its requests")),
            internal: self.read("internal", &switch()).unwrap_or(false),
            allow_anonymous: self.read("allow_anonymous", &switch()).unwrap_or(false),
            attributes: self.read("attributes", &attributes()).unwrap_or_default(),
            tls_cert: self.read("tls_cert", &path("file")).flatten(),
            tls_key: self.read("tls_key", &path("file")).flatten(),
            listen: listen?,
        };
        match (&input.tls_cert, &input.tls_key) {
            _ if !self.is_right() => None,
            (Some(_), None) => self.refuse("tls_cert", "tls_key is missing", "both, or neither"),
            (None, Some(_)) => self.refuse("tls_key", "tls_cert is missing", "both, or neither"),
            _ if input.front().is_open(input.listen, has_users) => {
                let problem = "not a loopback address, and no credentials are configured, so anyone who reaches \
                               it could send spans";
                let accepted = "a loopback address, or a [[user]], or allow_anonymous = true if that is wanted";
                self.refuse("listen", problem, accepted)
            }
            _ => Some(input),
        }
    }
}

fn listen() -> Kind<SocketAddr> {
    Kind::new("an IP address with a port, as in \"127.0.0.1:4318\"", |given| {
        Ok(socket_address(given.text().unwrap_or_default())?)
    })
}
