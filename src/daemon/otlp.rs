//! `[[otlp_input]]`: listeners for spans, bound before anything is received, like front ends, and
//! served like HTTP.

use std::net::TcpListener;
use std::sync::Arc;

use super::error::StartError;
use super::sockets::bind;
use crate::config::{Config, OtlpInput};
use crate::input::otlp::Source;
use crate::metrics::otlp::own_instance;
use crate::state::counters::SocketName;

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
