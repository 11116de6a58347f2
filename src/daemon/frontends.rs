//! The front ends: HTTP and the MySQL wire, each on a runtime of its own.
//!
//! Their addresses are bound before anything is received, so that one in use aborts the start; they
//! are served once the catalog is ready, until [`Frontends::stop`].

use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::sync::watch;
use tracing::{debug, warn};

use super::error::StartError;
use super::otlp::OpenInput;
use super::threads::Vital;
use crate::access::tls::{Acceptor, Certificates, Tls, TlsError};
use crate::access::{Access, UserStore};
use crate::alert::Alerts;
use crate::config::{Config, FrontConfig};
use crate::daemon::memory_plan::MemoryPlan;
use crate::http::{self, HttpSettings};
use crate::metrics::Metrics;
use crate::query::catalog::Catalog;
use crate::series::Series;
use crate::sql::Engine;
use crate::telemetry::Counters;

/// The parts of the daemon that front ends read from.
pub(super) struct Served<'a> {
    pub(super) config: &'a Config,
    pub(super) catalog: &'a Arc<Catalog>,
    pub(super) users: &'a Arc<UserStore>,
    pub(super) series: Option<Series>,
    pub(super) metrics: Metrics,
    pub(super) alerts: &'a Arc<Alerts>,
    /// Runs statements; `None` in a build without SQL.
    pub(super) engine: Option<Engine>,
    pub(super) counters: &'a Counters,
}

/// The running front ends.
#[derive(Debug)]
pub(super) struct Frontends {
    /// The address of HTTP, with the real port.
    pub(super) http: Option<SocketAddr>,
    /// The address for MySQL clients, with the real port.
    pub(super) mysql: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    running: Vec<Front>,
    /// The certificates of front ends with TLS.
    pub(super) certificates: Vec<Arc<Tls>>,
    /// Those read at the start.
    read: Certificates,
}

/// TLS of a front end, and the new acceptor for its connections.
pub(super) type NewCertificate = (Arc<Tls>, Acceptor);

/// A front end: its task, on its own runtime.
#[derive(Debug)]
struct Front {
    name: &'static str,
    task: tokio::task::JoinHandle<()>,
    runtime: tokio::runtime::Runtime,
}

impl Frontends {
    /// Serves on each of the listeners.
    pub(super) fn start(
        served: &Served<'_>,
        (http, mysql): (Option<TcpListener>, Option<TcpListener>),
        otlps: Vec<OpenInput>,
    ) -> Result<Self, StartError> {
        let mut frontends = Self {
            http: None,
            mysql: None,
            stop: watch::Sender::new(false),
            running: Vec::new(),
            certificates: Vec::new(),
            read: Certificates::default(),
        };
        if let Some(listener) = http {
            frontends.http = Some(frontends.start_http(served, listener)?);
        }
        for input in otlps {
            frontends.start_otlp(served, input)?;
        }
        if let Some(listener) = mysql {
            frontends.mysql = frontends.start_mysql(served, listener)?;
        }
        Ok(frontends)
    }

    /// Reads the files of certificates and keys again, for each front end that has them; nothing
    /// changes yet.
    pub(super) fn read_certificates(&self) -> Result<Vec<NewCertificate>, TlsError> {
        let mut read = Certificates::default();
        let each = self.certificates.iter();
        each.map(|tls| Ok((Arc::clone(tls), tls.read_again(&mut read)?))).collect()
    }

    /// Serves HTTP; returns the address with its real port.
    fn start_http(
        &mut self,
        served: &Served<'_>,
        listener: TcpListener,
    ) -> Result<SocketAddr, StartError> {
        let config = served.config;
        let front = config.http.front();
        let stopped = self.stopped();
        self.start_front(("HTTP", 2), front, config, listener, |listener, address, tls| {
            let mut names = config.http.host_names.clone();
            names.push(address.ip().to_string());
            let settings = HttpSettings {
                access: Access::new(served.users, front.allow_anonymous, "HTTP"),
                tls,
                open_health: config.http.open_health,
                memory_plan: MemoryPlan::of(config).lines.into(),
                series: served.series.clone(),
                metrics: served.metrics.clone(),
                alerts: served.alerts.clone(),
                ..HttpSettings::new(&names)
            };
            let answers = (Arc::clone(served.catalog), served.engine.clone());
            http::serve(listener, answers, settings, stopped)
        })
    }

    /// Serves an OTLP input.
    fn start_otlp(&mut self, served: &Served<'_>, input: OpenInput) -> Result<(), StartError> {
        let (source, listener) = input;
        let config = Arc::clone(&source.config);
        let (front, stopped) = (config.front(), self.stopped());
        // A second thread takes over from the first with every body: more than it saves.
        let clients = ("OpenTelemetry", 1);
        let serve = |listener, _, tls| {
            let access = Access::new(served.users, front.allow_anonymous, "OTLP");
            let settings = HttpSettings { access, tls, ..HttpSettings::new(&[]) };
            http::serve_spans(listener, source, settings, stopped)
        };
        self.start_front(clients, front, served.config, listener, serve).map(drop)
    }

    /// Starts a front end on its own runtime of so many threads. `serve` gets the listener, the
    /// address to reach it by, and TLS.
    pub(super) fn start_front<S: Future<Output = ()> + Send + 'static>(
        &mut self,
        (clients, threads): (&'static str, usize),
        front: FrontConfig<'_>,
        config: &Config,
        listener: TcpListener,
        serve: impl FnOnce(tokio::net::TcpListener, SocketAddr, Option<Arc<Tls>>) -> S,
    ) -> Result<SocketAddr, StartError> {
        let failed = |what| move |source| StartError::Thread { what, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name(front.section)
            .enable_all()
            .build()
            .map_err(failed("the threads of a front end"))?;
        let on_runtime = |listener: TcpListener| {
            let _entered = runtime.enter();
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        };
        let listener = on_runtime(listener).map_err(failed("the listener of a front end"))?;
        let bound = listener.local_addr();
        let bound = bound.map_err(failed("the listener of a front end"))?;
        let address = front.listen.unwrap_or(bound);
        let tls = front.tls().map(|files| Tls::load(&files, &mut self.read).map(Arc::new));
        let tls = tls.transpose()?;
        let encrypted = tls.is_some();
        self.certificates.extend(tls.clone());
        // An operator who set up TLS for one front end may think that it covers both.
        let is_wanted = !config.users.is_empty() || config.has_tls();
        if !encrypted && !address.ip().to_canonical().is_loopback() && is_wanted {
            let section = front.section;
            warn!(
                %address,
                "Passwords and answers cross the network unencrypted; set {section}.tls_cert and {section}.tls_key."
            );
        }
        let serve = serve(listener, address, tls);
        let vital = Vital(front.section.to_owned());
        let task = runtime.spawn(async move {
            let _vital = vital;
            serve.await;
        });
        self.running.push(Front { name: clients, task, runtime });
        debug!(address = %bound, tls = encrypted, "Listening for {clients}.");
        Ok(bound)
    }

    /// Completes when the front ends are to stop.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stopped = self.stop.subscribe();
        async move {
            // An error means that the daemon is gone, which is a stop too.
            let _gone = stopped.wait_for(|stop| *stop).await;
        }
    }

    /// Stops the front ends and waits for them.
    pub(super) fn stop(&mut self) {
        self.stop.send_replace(true);
        for front in self.running.drain(..) {
            if front.runtime.block_on(front.task).is_err() {
                warn!(front = front.name, "A front end ended in a panic.");
            }
            front.runtime.shutdown_background();
        }
    }
}

impl Drop for Frontends {
    fn drop(&mut self) {
        self.stop();
    }
}
