//! The MySQL wire: Pinba's tables for every tool that speaks to MySQL or MariaDB.
//!
//! [`serve`] accepts connections on a listener that the daemon bound, on the runtime it is called
//! on. Each is a task (`session`) that reads packets from the socket (`frames`), authenticates the
//! client (`login`), passes statements to the [`Engine`] and writes its Arrow batches as rows
//! (`columns`, `cells`). Statements run on the engine's threads; this module only moves bytes.
//!
//! Bounds: connections (beyond the cap a client gets error 1040), the time for a login, for the
//! rest of a packet and for accepting an answer, idle time, the size of packets, prepared
//! statements per connection, and, over all connections, the memory of large packets and prepared
//! statements (`mysql.memory`). A slow client holds up only its own query. Every client error is
//! answered with an ERR packet.

mod cells;
mod columns;
mod commands;
mod connections;
mod errors;
mod federated;
mod frames;
mod interruption;
mod kill;
mod login;
mod packets;
mod session;
mod statements;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::warn;

use self::connections::Connections;
pub use self::frames::Patience;
use self::frames::{Budget, Frames};
use crate::access::Access;
use crate::access::accept::{self, Acceptor};
use crate::access::connection_limits::ConnectionLimits;
use crate::access::tls::Tls;
use crate::config::MySqlConfig;
use crate::sql::{Engine, SqlError};
use crate::telemetry::counters::MySqlCounters;

/// Prefix of the version in the greeting: clients of MariaDB strip it, others take the server for
/// MySQL 5.5.
const VERSION_PREFIX: &str = "5.5.5-";
/// The database.
const DATABASE: &str = "pinba";

/// Clients beyond the cap that get an error; further ones are just closed.
const TURNED_AWAY_MAX: usize = 32;
/// How long such a client may take to read it.
const TURNED_AWAY_TIME: Duration = Duration::from_secs(1);
/// Time for answers in progress to finish after a stop.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Limits of the wire.
#[derive(Debug, Clone)]
pub struct MySqlSettings {
    /// Access rules.
    pub access: Access,
    /// TLS for clients that ask for it.
    pub tls: Option<Arc<Tls>>,
    /// Limits from the configuration.
    pub limits: MySqlConfig,
    /// Time limit for a login.
    pub login_max: Duration,
    /// Time limits for the rest of a packet, and for accepting an answer.
    pub patience: Patience,
}

impl MySqlSettings {
    /// Settings with these limits.
    pub fn new(access: Access, tls: Option<Arc<Tls>>, limits: MySqlConfig) -> Self {
        Self {
            access,
            tls,
            limits,
            login_max: Duration::from_secs(10),
            patience: Patience { read: Duration::from_secs(30), write: Duration::from_secs(60) },
        }
    }
}

/// State shared by all connections.
#[derive(Debug)]
pub struct MySql {
    engine: Engine,
    settings: MySqlSettings,
    budget: Budget,
    connections: Arc<Connections>,
    counters: Arc<MySqlCounters>,
    started: Instant,
}

impl MySql {
    /// Creates the wire over `engine`.
    pub fn new(engine: Engine, settings: MySqlSettings, counters: Arc<MySqlCounters>) -> Self {
        Self {
            engine,
            budget: Budget::new(settings.limits.memory),
            settings,
            connections: Arc::default(),
            counters,
            started: Instant::now(),
        }
    }

    /// The line of COM_STATISTICS, as tools print it.
    fn statistics(&self) -> String {
        let uptime = self.started.elapsed().as_secs();
        let questions = self.counters.mysql_statements.get();
        let threads = self.connections.len();
        #[expect(clippy::cast_precision_loss, reason = "a rate with three digits after the point")]
        let rate = questions as f64 / uptime.max(1) as f64;
        format!(
            "Uptime: {uptime}  Threads: {threads}  Questions: {questions}  Slow queries: 0  Opens: 0  \
             Open tables: 0  Queries per second avg: {rate:.3}"
        )
    }
}

/// Serves clients until `stop` completes, then gives answers in progress a moment.
pub async fn serve(listener: TcpListener, service: MySql, stop: impl Future<Output = ()>) {
    let service = Arc::new(service);
    let connections_max = service.settings.limits.connections_max;
    let places = ConnectionLimits::new(connections_max, connections_max.div_ceil(2));
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    let (stop_all, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    let mut acceptor = Acceptor::new(listener, "MySQL");
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.as_mut() => break,
            accepted = acceptor.next() => accepted,
            // Keeps the set no larger than the number of live connections.
            Some(_) = tasks.join_next() => continue,
        };
        prepare(&stream);
        let peer = peer.ip().to_canonical();
        if let Some(place) = places.take(peer) {
            service.counters.mysql_connections.add(1);
            let entry = service.connections.enter();
            service.show_open();
            let (service, stopped) = (Arc::clone(&service), stopped.clone());
            tasks.spawn(async move {
                let _place = place;
                session::drive(stream, peer, Arc::clone(&service), entry, stopped).await;
                service.show_open();
            });
        } else {
            service.counters.mysql_connections_refused.add(1);
            if let Ok(permit) = Arc::clone(&turned_away).try_acquire_owned() {
                let patience = Patience { read: Duration::ZERO, write: TURNED_AWAY_TIME };
                let mut frames = Frames::new(stream, service.budget.clone(), patience);
                let full = SqlError::busy("Too many connections (mysql.connections_max)");
                frames.packet(|body| packets::error(body, &full, false));
                tasks.spawn(async move {
                    frames.close().await;
                    drop(permit);
                });
            }
        }
    }
    drop(acceptor);
    stop_all.send_replace(true);
    accept::finish(tasks, STOP_GRACE).await;
}

impl MySql {
    /// The answer to a client that sends these bytes and then closes its side, for tests that send
    /// invalid data.
    #[doc(hidden)]
    pub async fn converse(self: &Arc<Self>, bytes: &[u8]) -> Vec<u8> {
        use tokio::io::AsyncReadExt;

        let (here, there) = tokio::io::duplex(64 << 10);
        let (mut answers, mut commands) = tokio::io::split(there);
        let (_stop, stopped) = watch::channel(false);
        let entry = self.connections.enter();
        let peer = std::net::Ipv4Addr::LOCALHOST.into();
        let drive = session::drive(here, peer, Arc::clone(self), entry, stopped);
        let send = async {
            // The connection may be closed before everything is written.
            let _sent_away = commands.write_all(bytes).await;
            let _gone = commands.shutdown().await;
        };
        let mut heard = Vec::new();
        let hear = answers.read_to_end(&mut heard);
        let _done = tokio::join!(drive, send, hear);
        heard
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    fn show_open(&self) {
        let open = self.connections.len();
        self.counters.mysql_connections_open.set(open as u64);
    }
}

/// Sets socket options: answers are short, and a client whose machine is gone must not keep its
/// place for hours.
fn prepare(stream: &TcpStream) {
    let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(120));
    let set = stream
        .set_nodelay(true)
        .and_then(|()| socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive));
    if let Err(error) = set {
        warn!(%error, "Cannot set the options of a MySQL connection.");
    }
}
