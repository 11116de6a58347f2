//! What a start opens before anything is received. Whatever it cannot use ends the start here, so
//! that nothing has to be taken back.

use std::net::TcpListener;
use std::sync::Arc;

use super::alerts;
use super::error::StartError;
use super::instruments;
use super::otlp::{self, OpenInput};
use super::releases;
use super::socket_activation::ActivatedSockets;
use super::sockets;
use super::squid::{self, OpenSource};
use super::startup;
use super::{defaults, no_history};
use crate::access::Users;
use crate::alert::Alerts;
use crate::clock::Clock;
use crate::config::Config;
use crate::input::udp::socket::ReceiveSocket;
use crate::query::definitions::Definitions;
use crate::release::Releases;
use crate::report::WatchSettings;
use crate::report::definition::Defaults;
use crate::state::State;
use crate::state::document::Document;

/// Definitions, addresses and folders of a start.
pub(super) struct Opened {
    pub(super) defaults: Defaults,
    pub(super) definitions: Definitions,
    pub(super) users: Users,
    /// What the last hour, the metrics and history keep.
    pub(super) watch: WatchSettings,
    pub(super) sockets: Vec<ReceiveSocket>,
    pub(super) otlps: Vec<OpenInput>,
    pub(super) squids: Vec<OpenSource>,
    /// The folders for data that were missing, which the start makes.
    pub(super) made: Option<String>,
    pub(super) state: Option<State>,
    pub(super) alerts: Arc<Alerts>,
    /// With the file in which they are kept.
    pub(super) releases: (Releases, Option<Document>),
    pub(super) http: Option<TcpListener>,
    pub(super) mysql: Option<TcpListener>,
}

impl Opened {
    /// Opens all of it.
    ///
    /// # Errors
    /// Everything that the start cannot use, but for history and what is restored.
    pub(super) fn open(
        config: &Config,
        clock: &dyn Clock,
        activated: ActivatedSockets,
    ) -> Result<Self, StartError> {
        no_history(config)?;
        if let Some(problem) = config.shipping_refused() {
            return Err(StartError::Push(problem));
        }
        if clock.unix_ms() == 0 {
            return Err(StartError::Clock);
        }
        startup::check_pools(&config.pool)?;
        instruments::start(&config.instruments);
        let defaults = defaults(config);
        let mut definitions = Definitions::new(&config.configured_reports, &defaults)?;
        let users = Users::load(&config.users, |name| std::env::var_os(name))?;
        let watch = startup::watched(config, &definitions)?;
        let sockets = sockets::open_sockets(config, activated.udp)?;
        let otlps = otlp::open(config)?;
        let squids = squid::open(config)?;
        // After the sockets: a second daemon with the same configuration should fail on its port.
        let made = startup::missing_folders(config);
        let state = startup::open_state(config, clock, &mut definitions, &defaults)?;
        if !config.alerts.is_empty() || !config.slos.is_empty() {
            definitions.add_alerts(!config.slos.is_empty());
        }
        let rules = alerts::rules(config, &definitions.reports).map_err(alerts::first)?;
        let alerts = Arc::new(Alerts::new(config, rules));
        let of_state = state.as_ref().map(|it| &it.folder);
        let releases = releases::open(config, of_state, clock)?;
        if let Some(tag) = releases.0.tag()
            && !definitions.add_releases(&tag, &defaults)
        {
            drop(releases.0.watch(""));
        }
        let http = sockets::open_front("http", config.http.listen, activated.http)?;
        let mysql = sockets::open_front("mysql", config.mysql.listen, activated.mysql)?;
        Ok(Self {
            defaults,
            definitions,
            users,
            watch,
            sockets,
            otlps,
            squids,
            made,
            state,
            alerts,
            releases,
            http,
            mysql,
        })
    }
}
