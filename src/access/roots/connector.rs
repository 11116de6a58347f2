//! A ureq agent with a rustls configuration of ours: its own connector takes a list of roots alone.
//!
//! TCP as usual, then TLS with the given configuration. No proxy.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, TcpConnector, Transport,
    TransportAdapter,
};
use ureq::{Agent, Error};

/// Creates an agent whose connections use TLS.
pub(super) fn agent_with(config: Config, tls: Arc<ClientConfig>) -> Agent {
    let connector = ().chain(TcpConnector::default()).chain(TlsConnector(tls));
    Agent::with_parts(config, connector, DefaultResolver::default())
}

#[derive(Debug)]
struct TlsConnector(Arc<ClientConfig>);

struct TlsTransport<Tcp: Transport> {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter<Tcp>>,
}

impl<Tcp: Transport> fmt::Debug for TlsTransport<Tcp> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTransport").finish_non_exhaustive()
    }
}

impl<Tcp: Transport> Connector<Tcp> for TlsConnector {
    type Out = TlsTransport<Tcp>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        tcp: Option<Tcp>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(tcp) = tcp else { return Ok(None) };
        let host = details.uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::Tls("the host in the URL is not a valid server name"))?;
        let mut conn = ClientConnection::new(Arc::clone(&self.0), name)?;
        let mut sock = TransportAdapter::new(tcp, details.current_time.clone());
        sock.set_timeout(details.timeout);
        conn.complete_io(&mut sock)?;
        let config = details.config;
        Ok(Some(TlsTransport {
            buffers: LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size()),
            stream: StreamOwned { conn, sock },
        }))
    }
}

impl<Tcp: Transport> Transport for TlsTransport<Tcp> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.sock.set_timeout(timeout);
        let (output, _) = self.buffers.output().split_at(amount);
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.sock.set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.sock.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
