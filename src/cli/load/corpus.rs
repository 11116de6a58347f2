//! The packets of a run, encoded before it begins, so that sending costs no more than the kernel's part.
//!
//! Made once by `run` from `traffic`, then shared read-only by the senders, which go round in it, each from a place of
//! its own. All packets stand in one buffer, in the order of sending. Bounded by [`CORPUS_BYTES_MAX`]; what does not
//! fit is an error before anything is sent.

use std::collections::BTreeMap;

use prost::Message;

use crate::input::pinba::model::Request;
use crate::limits::UDP_PAYLOAD_BYTES_MAX;

use super::totals::{Tally, Totals};
use super::traffic::Traffic;
use super::{LoadError, TrafficOptions};

/// The most memory that prepared packets may take, bytes.
const CORPUS_BYTES_MAX: usize = 2 << 30;

/// Encoded packets.
#[derive(Debug)]
pub(super) struct Corpus {
    bytes: Vec<u8>,
    /// Where each packet begins, and where the last ends.
    bounds: Vec<usize>,
}

impl Corpus {
    /// The first `packets` packets (at least 1) of the traffic that `options` describe.
    ///
    /// # Errors
    /// When a packet does not fit a datagram, or all of them do not fit the memory for them.
    pub(super) fn new(options: &TrafficOptions, packets: usize) -> Result<Self, LoadError> {
        let mut traffic = Traffic::new(options);
        let (mut bytes, mut bounds) = (Vec::new(), vec![0]);
        for _ in 0..packets.max(1) {
            let request = traffic.next_request();
            let packet_bytes = request.encoded_len();
            if packet_bytes > UDP_PAYLOAD_BYTES_MAX {
                return Err(LoadError(format!(
                    "a packet would be {packet_bytes} bytes long, and a UDP datagram holds {UDP_PAYLOAD_BYTES_MAX}; ask \
                     for fewer --timers, --tags, --request-tags or --nested"
                )));
            }
            if bytes.len() + packet_bytes > CORPUS_BYTES_MAX {
                return Err(LoadError(format!(
                    "{} prepared packets fill 2 GiB; ask for no more than that with --corpus",
                    bounds.len() - 1
                )));
            }
            request
                .encode(&mut bytes)
                .expect("a Vec grows as it needs to");
            bounds.push(bytes.len());
        }
        Ok(Self { bytes, bounds })
    }

    /// The same packets in an order in which up to `run` of equal length follow one another. They stay in the order of
    /// their seed otherwise: a run begins its place where its last packet was.
    pub(super) fn in_runs(&self, run: usize) -> Self {
        let (mut bytes, mut bounds) = (Vec::with_capacity(self.bytes.len()), vec![0]);
        let mut append = |packets: Vec<usize>| {
            for index in packets {
                bytes.extend_from_slice(self.packet(index));
                bounds.push(bytes.len());
            }
        };
        // By length: the packets that wait until their run is full.
        let mut waiting: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for index in 0..self.len() {
            let packets = waiting.entry(self.packet(index).len()).or_default();
            packets.push(index);
            if packets.len() == run {
                append(std::mem::take(packets));
            }
        }
        waiting.into_values().for_each(append);
        Self { bytes, bounds }
    }

    /// How many packets there are; at least 1.
    pub(super) const fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// All packets together, bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Packet number `index`.
    pub(super) fn packet(&self, index: usize) -> &[u8] {
        &self.bytes[self.bounds[index]..self.bounds[index + 1]]
    }

    /// What senders have sent, each from its place in the corpus onwards: `(first packet, packets sent)`.
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
        let options = TrafficOptions {
            timers: 2,
            ..TrafficOptions::default()
        };
        let corpus = Corpus::new(&options, 100).unwrap();
        let mut traffic = Traffic::new(&options);
        assert_eq!(corpus.len(), 100);
        for index in 0..100 {
            assert_eq!(corpus.packet(index), traffic.packet());
        }
        assert_eq!(corpus.totals(&[(0, 100)]), traffic.totals());
    }

    #[test]
    fn runs_have_equal_lengths_and_lose_nothing() {
        let corpus = Corpus::new(&TrafficOptions::default(), 5000).unwrap();
        let runs = corpus.in_runs(16);
        assert_eq!(runs.totals(&[(0, 5000)]), corpus.totals(&[(0, 5000)]));
        let full = (0..5000 / 16).filter(|run| {
            let first = runs.packet(run * 16).len();
            (run * 16..run * 16 + 16).all(|index| runs.packet(index).len() == first)
        });
        assert!(full.count() > 250, "most packets are in full runs");
    }

    #[test]
    fn totals_follow_the_senders_round() {
        let options = TrafficOptions {
            timers: 1,
            ..TrafficOptions::default()
        };
        let corpus = Corpus::new(&options, 7).unwrap();
        let senders = [(0, 3), (5, 18), (6, 0), (2, 14)];
        let mut tally = Tally::default();
        for (first, sent) in senders {
            for step in 0..sent {
                let packet = corpus.packet((first + step as usize) % 7);
                tally.add_packet(&Request::decode(packet).unwrap(), packet.len(), 1);
            }
        }
        assert_eq!(corpus.totals(&senders), tally.totals());
        assert_eq!(corpus.totals(&senders).packets, 35);
    }

    #[test]
    fn a_packet_that_no_datagram_holds_is_refused() {
        let options = TrafficOptions {
            nested: 1500,
            ..TrafficOptions::default()
        };
        let error = Corpus::new(&options, 1).unwrap_err().to_string();
        assert!(error.contains("a UDP datagram holds 65507"), "{error}");
    }
}
