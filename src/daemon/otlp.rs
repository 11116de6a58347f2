//! `[[otlp_input]]`: what takes spans is bound before anything is received, as front ends are, and served like HTTP.

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

/// Binds what the entries listen on. Each says from then on where that is.
pub(crate) fn open(config: &Config) -> Result<Vec<OpenInput>, StartError> {
    let opened = config.otlp_inputs.iter().map(|input| {
        let bind = || -> std::io::Result<_> {
            let listener = TcpListener::bind(input.listen)?;
            // More may wait to be accepted than the standard library has it.
            rustix::net::listen(&listener, 1024)?;
            Ok((listener.local_addr()?, listener))
        };
        let (listen, listener) = bind().map_err(|source| StartError::OtlpInput {
            place: input.location.to_string(),
            address: input.listen,
            source,
        })?;
        let source = Source::new(OtlpInput {
            listen,
            ..input.clone()
        });
        Ok(OpenInput { source, listener })
    });
    opened.collect()
}

/// What a status and a snapshot call the socket counters of a source.
pub(super) fn name(source: &Source) -> SocketName {
    SocketName {
        address: format!("otlp://{}", source.config.listen),
        cookie: 0,
    }
}
