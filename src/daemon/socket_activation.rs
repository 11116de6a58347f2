//! Socket activation: takes sockets opened by systemd, or another supervisor with the same
//! protocol.
//!
//! `LISTEN_FDS` is their number, from descriptor 3 on, `LISTEN_PID` the process that they are for,
//! `LISTEN_FDNAMES` their names. A socket named `udp`, `http` or `mysql` is used for that; any
//! other is recognised by its type and port: UDP is for packets, TCP for the front end whose
//! `listen` has its port. Read once, before any thread starts; they replace the sockets that
//! `daemon` would open. They outlive the process: data that arrives between two processes waits in
//! the kernel.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use listenfd::ListenFd;
use socket2::SockRef;

use crate::config::Config;

/// The sockets passed by the supervisor, by use.
#[derive(Debug, Default)]
pub struct ActivatedSockets {
    /// For packets, each with a receiver.
    pub udp: Vec<UdpSocket>,
    /// For HTTP.
    pub http: Option<TcpListener>,
    /// For MySQL clients.
    pub mysql: Option<TcpListener>,
}

impl ActivatedSockets {
    /// The sockets that the environment passes to this process, if any. Call it once, before any
    /// thread starts.
    ///
    /// # Errors
    /// The first unusable descriptor, and what is accepted instead.
    pub(crate) fn from_environment(config: &Config) -> Result<Self, String> {
        // `from_env` removes the variables, so that no child process is misled by them.
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut fds = ListenFd::from_env();
        let names: Vec<&str> = names.split(':').collect();
        let mut activated = Self::default();
        for at in 0..fds.len() {
            let name = names.get(at).copied().unwrap_or_default();
            activated.take(&mut fds, at, name, config)?;
        }
        activated.check_exposure(config)?;
        Ok(activated)
    }

    fn take(
        &mut self,
        fds: &mut ListenFd,
        at: usize,
        name: &str,
        config: &Config,
    ) -> Result<(), String> {
        let refused = |what: &str| {
            let name = match name {
                "" => String::new(),
                name => format!(" ('{name}')"),
            };
            format!("descriptor {}{name} was handed over (LISTEN_FDS) and {what}", at + 3)
        };
        if !["http", "mysql"].contains(&name)
            && let Ok(Some(socket)) = fds.take_udp_socket(at)
        {
            self.udp.push(socket);
            return Ok(());
        }
        let Ok(Some(listener)) = fds.take_tcp_listener(at) else {
            return Err(refused(
                "is neither a UDP socket nor a TCP listener; accepted: ListenDatagram= for packets, ListenStream= for \
                 HTTP and MySQL",
            ));
        };
        if !SockRef::from(&listener).is_listener().unwrap_or(true) {
            return Err(refused("does not listen; accepted: ListenStream= with Accept=no"));
        }
        let address = listener.local_addr();
        let address = address.map_err(|error| refused(&format!("cannot be used: {error}")))?;
        let at_port = |listen: Option<SocketAddr>| {
            listen.is_some_and(|listen| listen.port() == address.port())
        };
        let (slot, section) = match name {
            "mysql" => (&mut self.mysql, "mysql"),
            _ if name == "http" || at_port(config.http.listen) => (&mut self.http, "http"),
            _ if at_port(config.mysql.listen) => (&mut self.mysql, "mysql"),
            _ => {
                return Err(refused(&format!(
                    "listens at {address}, where neither http.listen nor mysql.listen is; accepted: the port of one of \
                     them, or FileDescriptorName=http or mysql"
                )));
            }
        };
        match slot.replace(listener) {
            None => Ok(()),
            Some(_) => Err(format!(
                "two TCP sockets were handed over (LISTEN_FDS) for {section}; accepted: one"
            )),
        }
    }

    /// Applies the same check as for configured addresses.
    fn check_exposure(&self, config: &Config) -> Result<(), String> {
        let anybody = !config.users.is_empty();
        let with_password = config.users.iter().any(|user| user.password.is_some());
        for (front, listener, users) in [
            (config.http.front(), &self.http, anybody),
            (config.mysql.front(), &self.mysql, with_password),
        ] {
            let address = listener.as_ref().and_then(|it| it.local_addr().ok());
            if let Some(address) = address
                && front.is_open(address, users)
            {
                let section = front.section;
                return Err(format!(
                    "the socket for {section} that was handed over (LISTEN_FDS) listens at {address}: not a loopback \
                     address, and no credentials are configured; accepted: a loopback address, a [[user]] who can log \
                     in there, or {section}.allow_anonymous = true if that is wanted"
                ));
            }
        }
        Ok(())
    }
}
