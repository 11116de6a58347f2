//! `/api/v1/test-packet`: sends a packet like those of PHP's extension to the daemon's own address.
//!
//! It takes the path of every packet: a datagram to the first socket of `ingest.listen`, which may
//! refuse it. So it shows whether that path works, before any PHP sends anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use prost::Message as _;
use serde_json::{Map, Value as Json, json};

use crate::http::answer::format::{Answer, ok};
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::NoParams;
use crate::http::request_checks::JsonBody;
use crate::input::pinba::model::Request;

/// The script of the packet.
const SCRIPT: &str = "/test-packet";

/// `POST /api/v1/test-packet`
pub(in crate::http) async fn send(
    State(app): State<Arc<App>>,
    _: NoParams,
    body: JsonBody,
) -> Answer {
    body.nothing()?;
    let sent = app.query(|source| {
        let unavailable = |why: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, why);
        let target = target(&source.status());
        let target = target.ok_or_else(|| unavailable("no socket receives packets".to_owned()))?;
        let sent = send_to(target);
        sent.map_err(|error| unavailable(format!("cannot send to {target}: {error}")))?;
        Ok(json!({"sent_to": target.to_string(), "script_name": SCRIPT}))
    });
    ok(sent.await?)
}

/// The address of the first socket, as reachable from this machine.
fn target(status: &Map<String, Json>) -> Option<SocketAddr> {
    let sockets = status.get("sockets")?.as_array()?;
    let mut target: SocketAddr = sockets.first()?["address"].as_str()?.parse().ok()?;
    if target.ip().is_unspecified() {
        let is_v4 = target.is_ipv4();
        target.set_ip(if is_v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    Some(target)
}

fn send_to(target: SocketAddr) -> std::io::Result<()> {
    let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
    let any: IpAddr = if target.is_ipv4() { v4 } else { v6 };
    let socket = UdpSocket::bind((any, 0))?;
    // Never blocks: a datagram leaves at once, or not at all.
    socket.set_nonblocking(true)?;
    socket.send_to(&packet().encode_to_vec(), target).map(drop)
}

/// A plausible request: a tenth of a second, a third of it in a database.
fn packet() -> Request {
    let mut request = Request {
        request_time: Some(0.096),
        ru_utime: Some(0.024),
        ru_stime: Some(0.004),
        document_size: Some(2048),
        memory_peak: Some(2 << 20),
        status: Some(200),
        ..Request::named("pinbad", "test", SCRIPT)
    };
    request.add_tag("env", "test");
    let tags = [("group", "mysql"), ("server", "test")];
    request.add_timer_with_rusage(2, 0.032, (0.002, 0.001), &tags);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_to_the_first_socket() {
        let at = |address: &str| {
            let status = json!({"sockets": [{"address": address}, {"address": "10.0.0.1:1"}]});
            target(status.as_object().unwrap()).map(|it| it.to_string())
        };
        assert_eq!(at("0.0.0.0:30002").as_deref(), Some("127.0.0.1:30002"));
        assert_eq!(at("[::]:30002").as_deref(), Some("[::1]:30002"));
        assert_eq!(at("192.0.2.1:5").as_deref(), Some("192.0.2.1:5"));
        assert_eq!(at(""), None);
        assert_eq!(target(&Map::new()), None);
    }
}
