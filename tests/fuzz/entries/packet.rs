//! A datagram: our decoder against prost and the rules, then twice through pool and reports, until
//! it has left them.

use std::cell::RefCell;

use super::live::{self, AWAY_MS};
use crate::input::Decode;
use crate::input::pinba::Decoder;
use crate::input::record::TextLimits;
use crate::merger::Live;

/// State that one thread keeps between datagrams.
pub(super) struct Path {
    live: Live,
    now_ms: u64,
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(Decoder::new(TextLimits::default(), live::hasher()));
    pub(super) static PATH: RefCell<Path> = RefCell::new(Path {
        // Fewer rows than one datagram with nested requests may bring.
        live: live::with_reports(16),
        now_ms: 0,
    });
}

/// Any datagram.
pub fn packet(datagram: &[u8]) {
    crate::input::pinba::reference::agree(datagram);
    DECODER.with_borrow_mut(|decoder| PATH.with_borrow_mut(|path| path.take(decoder, datagram)));
}

impl Path {
    pub(super) fn take(&mut self, decoder: &mut impl Decode, datagram: &[u8]) {
        let mut records = Vec::new();
        let taken = decoder.decode(datagram, 1_700_000_000, &mut records);
        let counts = decoder.take_counts();
        assert_eq!(counts.datagrams_received(), 1);
        let Ok(taken) = taken else {
            assert!(records.is_empty());
            return;
        };
        // Lines that are no requests.
        if taken == 0 {
            assert!(records.is_empty());
            return;
        }
        for _ in 0..2 {
            let (requests, _) = self.live.merge(&records, self.now_ms);
            assert_eq!(requests, u64::from(taken));
            self.now_ms += 1_000;
            self.live.advance(self.now_ms);
        }
        assert!(live::read_all(&self.live) > 0, "it is in the reports");
        self.now_ms += AWAY_MS;
        self.live.advance(self.now_ms);
        assert_eq!(live::read_all(&self.live), 0, "it has left the reports");
        assert_eq!(self.live.pool.requests.len(), 0, "it has left the pool");
    }
}
