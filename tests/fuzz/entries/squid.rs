//! A log of Squid's: lines however they are cut into pieces, each as every format, then through
//! pool and reports.

use std::cell::RefCell;
use std::sync::Arc;

use super::live;
use super::packet::PATH;
use crate::config::Config;
use crate::input::record::TextLimits;
use crate::input::rewrite::NameRules;
use crate::input::squid::{Decoder, Ending, Lines, Source};

thread_local! {
    static SOURCE: RefCell<Arc<Source>> = RefCell::new({
        let text = "[[squid]]\nlisten = 'udp://127.0.0.1:0'\nclient = true\n";
        let config = Config::from_toml("pinbad.toml", text).expect("a configuration");
        Source::new(config.squids[0].clone())
    });
}

/// Any log.
pub fn squid(log: &[u8]) {
    let whole = lines(log, log.len().max(1));
    assert_eq!(lines(log, 7), whole, "in pieces they are the same lines");
    let source = SOURCE.with_borrow(Arc::clone);
    *source.progress.lock() = Default::default();
    let rules = NameRules::new(&[], live::hasher(), Arc::default());
    let mut decoder = Decoder::new(source, TextLimits::default(), live::hasher(), rules);
    PATH.with_borrow_mut(|path| path.take(&mut decoder, log));
}

/// The lines of bytes that come in pieces of this length.
fn lines(log: &[u8], piece: usize) -> Vec<(Vec<u8>, Ending)> {
    let (mut lines, mut got) = (Lines::default(), Vec::new());
    let mut take = |line: &[u8], ending| got.push((line.to_vec(), ending));
    for piece in log.chunks(piece) {
        lines.feed(piece, &mut take);
    }
    lines.end(Ending::Cut, &mut take);
    got
}
