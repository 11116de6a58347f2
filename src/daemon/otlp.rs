//! `[[otlp_input]]`: listeners for spans, bound before anything is received, like front ends, and
//! served like HTTP. `[otlp]`: the thread that pushes.

use std::net::TcpListener;
use std::sync::Arc;

use super::error::StartError;
use super::sockets::bind;
use super::threads::Worker;
use crate::clock::Clock;
use crate::config::{Config, OtlpInput};
use crate::input::otlp::Source;
use crate::merger::SharedLive;
use crate::metrics::Metrics;
use crate::metrics::otlp::own_instance;
use crate::query::catalog::Catalog;
use crate::shutdown::Shutdown;
use crate::state::counters::SocketName;
use crate::telemetry::reading::Group;

/// An input that can be served.
pub(crate) type OpenInput = (Arc<Source>, TcpListener);

/// Binds the addresses of the entries, and records each bound address.
pub(crate) fn open(config: &Config) -> Result<Vec<OpenInput>, StartError> {
    let own_instance = own_instance(config);
    let opened = config.otlp_inputs.iter().map(|input| {
        let bound = bind(input.listen).and_then(|it| Ok((it.local_addr()?, it)));
        let (listen, listener) = bound.map_err(|source| StartError::Input {
            place: input.location.to_string(),
            what: "otlp_input.listen: cannot listen on",
            address: input.listen.to_string(),
            source,
        })?;
        Ok((Source::new(OtlpInput { listen, ..input.clone() }, own_instance.clone()), listener))
    });
    opened.collect()
}

/// The name of a source's socket counters in status and snapshot.
pub(super) fn name(source: &Source) -> SocketName {
    SocketName { address: format!("otlp://{}", source.config.listen), cookie: 0 }
}

/// Starts the thread that pushes metrics and spans, if a server is configured; `before`: the
/// daemon's own numbers when nothing had been received.
pub(super) fn start_push(
    config: &Config,
    metrics: &Metrics,
    catalog: &Arc<Catalog>,
    (clock, live): (&Arc<dyn Clock>, &SharedLive),
    before: Vec<Group>,
) -> Result<Option<Worker>, StartError> {
    let Some(push) = metrics.push() else { return Ok(None) };
    let (catalog, of_metrics) = (Arc::clone(catalog), metrics.clone());
    let own_numbers = move || [catalog.status_groups(), of_metrics.status()].concat();
    let pusher = push.pusher(config, clock, live, (Box::new(own_numbers), before));
    let run = move |stop: &Shutdown| pusher.run(stop);
    Worker::start("otlp-push", "the thread that pushes metrics and spans", run).map(Some)
}
