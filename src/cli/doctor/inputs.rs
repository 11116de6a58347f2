//! Inputs: whether packets, spans (`[[otlp_input]]`), logs of Squid (`[[squid]]`) and samples
//! (`[[stat]]`) can be taken.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;

use super::{Finding, used};
use crate::config::units::{exact_bytes, rounded_bytes};
use crate::config::{Config, SquidFrom};
use crate::daemon::{self, StartError};
use crate::input::squid::file;
use crate::input::stat::client;
use crate::input::udp::socket::{RecvBuffer, SocketError};
use crate::shutdown::Shutdown;
use crate::value::text::joined;

/// Checks whether the UDP addresses can be bound, and the buffers their sockets get.
pub(super) fn udp(
    config: &Config,
    opened: Result<Vec<RecvBuffer>, SocketError>,
    serving: Option<&str>,
) -> Finding {
    let what = "UDP";
    let buffers = match (opened, serving) {
        (Ok(buffers), _) => buffers,
        (Err(SocketError::InUse { address }), Some(url)) => return used(what, address, url),
        (Err(SocketError::InUse { address }), None) if is_systemds(address) => {
            let found = format!(
                "{address} is held by {SOCKET_UNIT} of systemd, which starts pinbad and passes it on"
            );
            return Finding::right(what, found);
        }
        (Err(error), _) => return Finding::wrong(what, error.to_string(), ""),
    };
    let requested = config.ingest.recv_buffer;
    let granted = buffers.iter().map(|buffer| buffer.granted_bytes).min().unwrap_or_default();
    let mut found = format!(
        "{} can be bound; each socket gets a receive buffer of {}",
        joined(&config.ingest.listen, ", "),
        rounded_bytes(granted as u64)
    );
    if granted < requested {
        let requested = exact_bytes(requested as u64);
        found += &format!(", {requested} are requested (ingest.recv_buffer)");
    }
    let change = format!(
        "sysctl -w net.core.rmem_max={requested}     (and in /etc/sysctl.d/ for the next boot)\n\
         or give the program CAP_NET_ADMIN: setcap cap_net_admin+ep PATH, AmbientCapabilities= in systemd"
    );
    Finding::right(what, found).unless(granted >= requested, change)
}

/// The unit of the package that holds the UDP socket.
const SOCKET_UNIT: &str = "pinbad.socket";

/// Whether the socket unit is active and holds the port of this address.
fn is_systemds(address: SocketAddr) -> bool {
    let show = ["show", "--property=ActiveState,Listen", SOCKET_UNIT];
    let said = Command::new("systemctl").args(show).output();
    said.is_ok_and(|said| holds(&String::from_utf8_lossy(&said.stdout), address.port()))
}

/// Whether `systemctl show` says that the unit is active and listens on this UDP port.
pub(super) fn holds(properties: &str, port: u16) -> bool {
    let wanted = format!(":{port} (Datagram)");
    let listens = |line: &str| line.starts_with("Listen=") && line.ends_with(&wanted);
    properties.lines().any(|line| line == "ActiveState=active") && properties.lines().any(listens)
}

/// Checks whether the listeners of `[[otlp_input]]` can be bound.
pub(super) fn spans(config: &Config, serving: Option<&str>) -> Option<Finding> {
    let (what, inputs) = ("spans", &config.otlp_inputs);
    let listen = joined(inputs.iter().map(|input| input.listen), ", ");
    (!inputs.is_empty()).then(|| match daemon::otlp::open(config) {
        Ok(_) => Finding::right(what, format!("{listen} can be bound")),
        Err(error) => not_opened(what, &error, serving),
    })
}

/// The error of an input, unless the pinbad at `serving` has its address.
fn not_opened(what: &'static str, error: &StartError, serving: Option<&str>) -> Finding {
    match (error, serving) {
        (StartError::Input { address, source, .. }, Some(url))
            if source.kind() == ErrorKind::AddrInUse =>
        {
            used(what, address, url)
        }
        _ => Finding::wrong(what, error.to_string(), ""),
    }
}

/// Checks whether the sources of `[[squid]]` are available.
pub(super) fn squids(config: &Config, serving: Option<&str>) -> Vec<Finding> {
    let what = "Squid";
    if let Err(error) = daemon::squid::open(config) {
        return vec![not_opened(what, &error, serving)];
    }
    let found = config.squids.iter().map(|squid| match &squid.from {
        SquidFrom::File(path, _) => match file::check(path) {
            Ok(()) => Finding::right(what, format!("{} can be read", path.display())),
            Err(error) => {
                let found = format!("{} cannot be read now: {error}", path.display());
                let change = match error.kind() {
                    ErrorKind::Other => "name the log itself",
                    _ => "let the daemon's user read it, if it is there (on Debian: group proxy)",
                };
                Finding::better(what, found, change)
            }
        },
        from => Finding::right(what, format!("{from} can be bound")),
    });
    found.collect()
}

/// Checks the sources of `[[stat]]`: whether their sockets exist and accept this user.
pub(super) fn stats(config: &Config) -> Vec<Finding> {
    let sockets = config.stats.iter().flat_map(|stat| {
        let control = stat.control.as_ref().map(|it| ("stat control", it));
        [("stat", &stat.stream)].into_iter().chain(control)
    });
    let found = sockets.map(|(what, address)| match client::connect(address, &Shutdown::new()) {
        Ok(_) => Finding::right(what, format!("{address} can be connected to")),
        Err(error) if client::is_absent(address, &error) => {
            let found = format!(
                "{address} is not there yet: PHP makes it, with zend_extension=stat.so and this address in its php.ini"
            );
            Finding::right(what, found)
        }
        Err(error) => {
            let change = match error.kind() {
                ErrorKind::ConnectionRefused => {
                    "nobody serves it: start PHP, whose stat extension does"
                }
                ErrorKind::PermissionDenied => {
                    "let the daemon's user write to the socket, by a group or chmod"
                }
                _ => "see stat.stream and stat.control in PHP's php.ini",
            };
            let found = format!("{address} cannot be connected to: {error}");
            Finding::better(what, found, change)
        }
    });
    found.collect()
}
