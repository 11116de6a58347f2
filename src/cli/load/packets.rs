//! The packets of a run, encoded in advance, so that sending costs no more than the kernel's part.
//!
//! Made once from `traffic`, then shared read-only by the senders, which cycle through them, each
//! from its own position. All packets stand in one buffer, in the order of sending. Bounded by
//! [`BYTES_MAX`]; exceeding it is an error before anything is sent.

use std::io;

use prost::Message;

use crate::input::pinba::model::Request;
use crate::limits::UDP_PAYLOAD_BYTES_MAX;

use super::totals::{Tally, Totals};
use super::traffic::Traffic;
use super::{LoadOptions, TrafficOptions};

/// Most memory for prepared packets, in bytes.
const BYTES_MAX: usize = 2 << 30;

/// Packets ready to be sent any number of times, also by several runs at different rates.
#[derive(Debug)]
pub struct Packets {
    bytes: Vec<u8>,
    /// Start of each packet, and the end of the last.
    bounds: Vec<usize>,
}

impl Packets {
    /// Encodes the packets that `options` describe, no more than will be sent.
    ///
    /// # Errors
    /// Fails if a packet does not fit a datagram, or all of them do not fit the memory for them.
    pub fn prepare(options: &LoadOptions) -> io::Result<Self> {
        let planned = options.packets_planned().unwrap_or(u64::MAX);
        let packets = planned.min(u64::from(options.corpus)) as usize;
        let packets = Self::new(&options.traffic, packets)?;
        Ok(match options.gso {
            1 => packets,
            _ => packets.in_runs(),
        })
    }

    /// Encodes the first `packets` packets (at least 1) of the traffic that `options` describe.
    fn new(options: &TrafficOptions, packets: usize) -> io::Result<Self> {
        let mut traffic = Traffic::new(options);
        let (mut bytes, mut bounds) = (Vec::new(), vec![0]);
        for prepared in 0..packets.max(1) {
            let request = traffic.next_request();
            let packet_bytes = request.encoded_len();
            if packet_bytes > UDP_PAYLOAD_BYTES_MAX {
                return Err(io::Error::other(format!(
                    "a packet would be {packet_bytes} bytes long, and a UDP datagram holds {UDP_PAYLOAD_BYTES_MAX}; ask \
                     for fewer --timers, --tags, --request-tags or --nested"
                )));
            }
            if bytes.len() + packet_bytes > BYTES_MAX {
                return Err(io::Error::other(format!(
                    "{prepared} prepared packets fill 2 GiB; ask for no more than that with --corpus"
                )));
            }
            request.encode(&mut bytes)?;
            bounds.push(bytes.len());
        }
        Ok(Self { bytes, bounds })
    }

    /// Reorders the packets so that many of equal length follow one another: sorted by length
    /// within groups of a few thousand, otherwise in the order of their seed.
    fn in_runs(&self) -> Self {
        const TOGETHER: usize = 4_096;
        let mut order: Vec<usize> = (0..self.len()).collect();
        for together in order.chunks_mut(TOGETHER) {
            together.sort_by_key(|index| self.packet(*index).len());
        }
        let (mut bytes, mut bounds) = (Vec::with_capacity(self.bytes.len()), vec![0]);
        for index in order {
            bytes.extend_from_slice(self.packet(index));
            bounds.push(bytes.len());
        }
        Self { bytes, bounds }
    }

    /// Number of packets; at least 1.
    pub(super) const fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Mean length of a packet, in bytes.
    pub fn bytes_mean(&self) -> f64 {
        self.bytes.len() as f64 / self.len() as f64
    }

    /// Packet number `index`.
    pub(super) fn packet(&self, index: usize) -> &[u8] {
        &self.bytes[self.bounds[index]..self.bounds[index + 1]]
    }

    /// Totals of the packets sent; `senders` holds `(first packet, packets sent)` for each.
    pub(super) fn totals(&self, senders: &[(usize, u64)]) -> Totals {
        let mut tally = Tally::default();
        let len = self.len() as u64;
        for index in 0..self.len() {
            let times = senders.iter().map(|(first, sent)| {
                let place = (index as u64 + len - *first as u64) % len;
                sent / len + u64::from(place < sent % len)
            });
            let times: u64 = times.sum();
            if times > 0 {
                let packet = self.packet(index);
                let request = Request::decode(packet).expect("we encoded it");
                tally.add_packet(&request, packet.len(), times);
            }
        }
        tally.totals()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_the_packets_of_the_traffic_in_order() {
        let options = TrafficOptions { timers: 2, ..TrafficOptions::default() };
        let packets = Packets::new(&options, 100).unwrap();
        let mut traffic = Traffic::new(&options);
        assert_eq!(packets.len(), 100);
        let mut tally = Tally::default();
        for index in 0..100 {
            let request = traffic.next_request();
            assert_eq!(packets.packet(index), request.encode_to_vec());
            tally.add_packet(&request, request.encoded_len(), 1);
        }
        assert_eq!(packets.totals(&[(0, 100)]), tally.totals());
    }

    #[test]
    fn runs_have_equal_lengths_and_lose_nothing() {
        let packets = Packets::new(&TrafficOptions::default(), 5000).unwrap();
        let runs = packets.in_runs();
        assert_eq!(runs.totals(&[(0, 5000)]), packets.totals(&[(0, 5000)]));
        let lengths: Vec<usize> = (0..5000).map(|index| runs.packet(index).len()).collect();
        let long = lengths.chunk_by(|a, b| a == b).filter(|run| run.len() >= 16);
        let in_long: usize = long.map(<[usize]>::len).sum();
        assert!(in_long > 4000, "most packets are in long runs: {in_long}");
    }

    #[test]
    fn totals_follow_the_senders_round() {
        let options = TrafficOptions { timers: 1, ..TrafficOptions::default() };
        let packets = Packets::new(&options, 7).unwrap();
        let senders = [(0, 3), (5, 18), (6, 0), (2, 14)];
        let mut tally = Tally::default();
        for (first, sent) in senders {
            for step in 0..sent {
                let packet = packets.packet((first + step as usize) % 7);
                tally.add_packet(&Request::decode(packet).unwrap(), packet.len(), 1);
            }
        }
        assert_eq!(packets.totals(&senders), tally.totals());
        assert_eq!(packets.totals(&senders).packets, 35);
    }

    #[test]
    fn a_packet_that_no_datagram_holds_is_refused() {
        let options = TrafficOptions { nested: 1500, ..TrafficOptions::default() };
        let error = Packets::new(&options, 1).unwrap_err().to_string();
        assert!(error.contains("a UDP datagram holds 65507"), "{error}");
    }
}
