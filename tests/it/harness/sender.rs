//! Sends datagrams, never more at once than the receive buffer of the daemon holds.

use std::net::{SocketAddr, UdpSocket};

use pinbad::input::pinba::model::Request;
use prost::Message as _;

use super::{Site, Status, await_condition};

/// Sends datagrams from several sockets in turn, never more at once than the daemon's receive
/// buffer holds.
#[derive(Debug)]
pub(crate) struct Sender<'a> {
    site: &'a Site,
    sources: Vec<(UdpSocket, SocketAddr)>,
    /// Bytes of receive buffer that a datagram may take, all in flight together.
    room: usize,
    in_flight: usize,
    /// How many datagrams were sent to each of the addresses.
    pub(crate) sent: Vec<u64>,
    /// How many had come before.
    before: u64,
}

impl<'a> Sender<'a> {
    /// One source for the first address.
    pub(crate) fn new(site: &'a Site) -> Self {
        let address = site.udp[0];
        Self::with_sources(site, &[address], 1)
    }

    /// So many sources for each of the addresses.
    pub(crate) fn with_sources(site: &'a Site, to: &[SocketAddr], sources: usize) -> Self {
        let status = site.status();
        let granted =
            status.sockets().iter().map(|socket| socket.count("recv_buffer_granted_bytes")).min();
        let from = |to: SocketAddr| SocketAddr::new(to.ip(), 0);
        Self {
            site,
            sources: (0..sources)
                .flat_map(|_| to)
                .map(|to| (UdpSocket::bind(from(*to)).unwrap(), *to))
                .collect(),
            room: usize::try_from(granted.unwrap()).unwrap(),
            in_flight: 0,
            sent: vec![0; site.udp.len()],
            before: status.count("datagrams_received") + status.count("kernel_drops"),
        }
    }

    /// Sends one datagram from source number `source`, counted round.
    pub(crate) fn send_from(&mut self, source: usize, datagram: &[u8]) {
        self.book(datagram);
        let (socket, to) = &self.sources[source % self.sources.len()];
        assert_eq!(socket.send_to(datagram, to).unwrap(), datagram.len());
        let address = self.site.udp.iter().position(|udp| udp == to).unwrap();
        self.sent[address] += 1;
    }

    /// Sends one datagram to the first address through a socket of the caller's.
    pub(crate) fn send_through(&mut self, socket: &UdpSocket, datagram: &[u8]) {
        self.book(datagram);
        let sent = socket.send_to(datagram, self.site.udp[0]).unwrap();
        assert_eq!(sent, datagram.len());
        self.sent[0] += 1;
    }

    /// Waits until there is room for one more datagram.
    fn book(&mut self, datagram: &[u8]) {
        // The kernel books up to a page more for each, and pages in powers of two.
        let booked = datagram.len() * 2 + 4096;
        if self.in_flight > 0 && self.in_flight + booked > self.room {
            self.settle();
        }
        self.in_flight += booked;
    }

    /// Sends one datagram.
    pub(crate) fn send(&mut self, datagram: &[u8]) {
        self.send_from(0, datagram);
    }

    /// All datagrams so far, those of before this sender included.
    pub(crate) fn total(&self) -> u64 {
        self.before + self.sent.iter().sum::<u64>()
    }

    /// Waits until all that was sent has been taken by the receivers.
    pub(crate) fn settle(&mut self) {
        let total = self.total();
        await_condition("the receivers have taken all", || {
            let status = self.site.status();
            let came = status.count("datagrams_received") + status.count("kernel_drops");
            if came == total { Ok(()) } else { Err(status) }
        });
        self.in_flight = 0;
    }

    /// Waits until all that was sent has become rows or is counted, and gives the counters.
    #[track_caller]
    pub(crate) fn at_rest(&self) -> Status {
        let status = self.site.at_rest(self.total());
        assert_eq!(status.count("kernel_drops"), 0, "{status:?}");
        status
    }
}

/// What is sent: bytes, or a request.
pub(crate) trait Datagram {
    fn into_bytes(self) -> Vec<u8>;
}

impl Datagram for Vec<u8> {
    fn into_bytes(self) -> Vec<u8> {
        self
    }
}

impl Datagram for Request {
    fn into_bytes(self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

impl Site {
    /// Sends these, and waits until all of them have become rows or are counted.
    #[track_caller]
    pub(crate) fn send<D: Datagram>(&self, datagrams: impl IntoIterator<Item = D>) -> Status {
        let mut sender = Sender::new(self);
        for datagram in datagrams {
            sender.send(&datagram.into_bytes());
        }
        sender.at_rest()
    }
}
