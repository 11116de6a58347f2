//! `[[otlp_input]]`: listeners for spans, bound before anything is received, like front ends, and
//! served like HTTP.

use std::net::TcpListener;
use std::sync::Arc;

use super::error::StartError;
use crate::config::{Config, OtlpInput};
use crate::input::otlp::Source;
use crate::state::counters::SocketName;

/// An input that can be served.
pub(crate) struct OpenInput {
    pub(super) source: Arc<Source>,
    pub(super) listener: TcpListener,
}

/// Binds the addresses of the entries, and records each bound address.
pub(crate) fn open(config: &Config) -> Result<Vec<OpenInput>, StartError> {
    let opened = config.otlp_inputs.iter().map(|input| {
        let bind = || -> std::io::Result<_> {
            let listener = TcpListener::bind(input.listen)?;
            // A larger backlog than the standard library's.
            rustix::net::listen(&listener, 1024)?;
            Ok((listener.local_addr()?, listener))
        };
        let (listen, listener) = bind().map_err(|source| StartError::OtlpInput {
            place: input.location.to_string(),
            address: input.listen,
            source,
        })?;
        let source = Source::new(OtlpInput { listen, ..input.clone() });
        Ok(OpenInput { source, listener })
    });
    opened.collect()
}

/// The name of a source's socket counters in status and snapshot.
pub(super) fn name(source: &Source) -> SocketName {
    SocketName { address: format!("otlp://{}", source.config.listen), cookie: 0 }
}
