//! The MySQL wire: its protocol, asked by a client of our own that can also behave badly
//! ([`client`]), and the clients that people use, each with real packets behind it.

/// The mariadb tools.
mod cli;
/// A client in a few lines.
mod client;
/// Columns, which every front end shows as they are declared.
mod columns;
/// Connections: how many, for how long, killed, slow.
mod connections;
/// Drivers of PHP, Python, Node and Go.
mod drivers;
/// A MariaDB in front.
mod federated;
/// Grafana's data source and the dashboard that is shipped.
mod grafana;
/// Conversations that are cut, and random ones.
mod hostile;
/// Users and TLS.
mod login;
/// MySQL's tables about the daemon itself.
mod performance_schema;
/// Statements that clients send besides queries.
mod statements;
/// How clients are run.
pub(crate) mod tools;
/// The protocol: commands, errors, limits.
mod wire;

use std::net::SocketAddr;

use crate::harness::{Here, Site};
use crate::packets::request;

/// Settings of a daemon with the MySQL wire.
const MYSQL: &str = "mysql.listen=127.0.0.1:0";

/// A daemon that knows some requests.
struct Shop {
    here: Here,
    mysql: SocketAddr,
}

impl Shop {
    fn open() -> Self {
        Self::with(&[])
    }

    fn with(settings: &[&str]) -> Self {
        let settings: Vec<&str> = [MYSQL].into_iter().chain(settings.iter().copied()).collect();
        let here = Here::start(&settings);
        let mysql = here.site.mysql.unwrap();
        fill(&here.site);
        Self { here, mysql }
    }

    fn site(&self) -> &Site {
        &self.here.site
    }
}

/// Sends twelve requests: three hosts, two scripts, `s1.example` and `s1.example.org`, statuses 200
/// and 503, one text that is not ASCII.
fn fill(site: &Site) {
    site.send((0..12_u32).map(|number| {
        let host = ["web1", "web2", "web3"][number as usize % 3];
        let server = ["s1.example", "s1.example.org"][number as usize % 2];
        let script = ["/index.php", "/каталог.php"][number as usize / 6];
        let mut request = request(host, server, script);
        request.request_time = Some(0.125 * (number + 1) as f32);
        request.status = Some(if number % 4 == 3 { 503 } else { 200 });
        request
    }));
}
