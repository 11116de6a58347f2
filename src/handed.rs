//! Sockets that somebody else opened and hands over: systemd's socket activation, or whoever speaks its protocol.
//!
//! `LISTEN_FDS` says how many there are, from descriptor 3 on, `LISTEN_PID` whom they are for, and `LISTEN_FDNAMES` what
//! they are called. A socket called `udp`, `http` or `mysql` is that; any other one is told by what it is: UDP is for
//! packets, TCP for whose `listen` has its port. `main` asks once, before any thread starts, and `daemon` puts them in
//! the place of those that it would open. They outlive the process: what arrives while there is none waits in the kernel.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use listenfd::ListenFd;

use crate::config::Config;

/// The sockets that were handed over, by what they are for.
#[derive(Debug, Default)]
pub struct Handed {
    /// For packets, each with its receiver.
    pub udp: Vec<UdpSocket>,
    /// For HTTP.
    pub http: Option<TcpListener>,
    /// For the MySQL wire.
    pub mysql: Option<TcpListener>,
}

/// A descriptor that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HandedError {
    /// It is no socket of a kind that there is use for.
    #[error(
        "descriptor {fd}{name} was handed over (LISTEN_FDS) and is neither a UDP socket nor a TCP listener; accepted: \
         ListenDatagram= for packets, ListenStream= for HTTP and MySQL"
    )]
    NotASocket {
        /// Its number.
        fd: usize,
        /// What it is called.
        name: Name,
    },
    /// Nobody knows what it is for.
    #[error(
        "descriptor {fd}{name} was handed over (LISTEN_FDS) and listens at {address}, where neither http.listen nor \
         mysql.listen is; accepted: the port of one of them, or FileDescriptorName=http or mysql"
    )]
    WhatFor {
        /// Its number.
        fd: usize,
        /// What it is called.
        name: Name,
        /// Where it listens.
        address: SocketAddr,
    },
    /// Two for the same.
    #[error("two TCP sockets were handed over (LISTEN_FDS) for {0}; accepted: one")]
    Twice(&'static str),
    /// Everyone who reaches it could read everything.
    #[error(
        "the socket for {section} that was handed over (LISTEN_FDS) listens at {address}: not a loopback address, and no \
         credentials are configured; accepted: a loopback address, a [[user]] who can log in there, or \
         {section}.allow_anonymous = true if that is wanted"
    )]
    Exposed {
        /// `http` or `mysql`.
        section: &'static str,
        /// Where it listens.
        address: SocketAddr,
    },
    /// The system.
    #[error("cannot use descriptor {fd}, which was handed over (LISTEN_FDS): {source}")]
    Refused {
        /// Its number.
        fd: usize,
        /// Why.
        source: io::Error,
    },
}

/// What a descriptor is called, if it is called anything, for errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " ('{}')", self.0)
        }
    }
}

impl Handed {
    /// What the environment of this process names; nothing when it names nothing, or somebody else. Call it before any
    /// thread starts, and once.
    ///
    /// # Errors
    /// The first descriptor that cannot be used.
    pub fn from_environment(config: &Config) -> Result<Self, HandedError> {
        // `from_env` takes the variables away, so that no child is misled by them.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut fds = ListenFd::from_env();
        let names: Vec<&str> = names.split(':').collect();
        let mut handed = Self::default();
        for at in 0..fds.len() {
            let name = names.get(at).copied().unwrap_or_default();
            handed.take(&mut fds, at, name, config)?;
        }
        handed.check_exposure(config)?;
        Ok(handed)
    }

    fn take(
        &mut self,
        fds: &mut ListenFd,
        at: usize,
        name: &str,
        config: &Config,
    ) -> Result<(), HandedError> {
        let fd = at + 3;
        let shown = || Name(name.to_owned());
        if name != "http"
            && name != "mysql"
            && let Ok(Some(socket)) = fds.take_udp_socket(at)
        {
            self.udp.push(socket);
            return Ok(());
        }
        let Ok(Some(listener)) = fds.take_tcp_listener(at) else {
            return Err(HandedError::NotASocket { fd, name: shown() });
        };
        let address = listener
            .local_addr()
            .map_err(|source| HandedError::Refused { fd, source })?;
        let at_port = |listen: Option<SocketAddr>| {
            listen.is_some_and(|listen| listen.port() == address.port())
        };
        let (place, section) = match name {
            "http" => (&mut self.http, "http"),
            "mysql" => (&mut self.mysql, "mysql"),
            _ if at_port(config.http.listen) => (&mut self.http, "http"),
            _ if at_port(config.mysql.listen) => (&mut self.mysql, "mysql"),
            _ => {
                return Err(HandedError::WhatFor {
                    fd,
                    name: shown(),
                    address,
                });
            }
        };
        match place.replace(listener) {
            None => Ok(()),
            Some(_) => Err(HandedError::Twice(section)),
        }
    }

    /// As for addresses of the configuration.
    fn check_exposure(&self, config: &Config) -> Result<(), HandedError> {
        let anybody = !config.users.is_empty();
        let with_password = config.users.iter().any(|user| user.password.is_some());
        for (section, listener, allowed) in [
            ("http", &self.http, config.http.allow_anonymous || anybody),
            (
                "mysql",
                &self.mysql,
                config.mysql.allow_anonymous || with_password,
            ),
        ] {
            let address = listener.as_ref().and_then(|it| it.local_addr().ok());
            if let Some(address) = address
                && !allowed
                && !address.ip().to_canonical().is_loopback()
            {
                return Err(HandedError::Exposed { section, address });
            }
        }
        Ok(())
    }
}
