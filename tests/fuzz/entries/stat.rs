//! A stream of the stat extension: lines however they are cut into pieces, each through the pool of
//! samples.

use std::cell::RefCell;
use std::sync::Arc;

use crate::input::rewrite::NameRules;
use crate::input::stat::Lines;
use crate::input::stat::line::{Line, split};
use crate::profile::{Names, Pool, Run};

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool::new(10_000));
}

/// Any stream.
pub fn stat(stream: &[u8]) {
    let whole = lines(stream, stream.len().max(1));
    assert_eq!(lines(stream, 7), whole, "in pieces they are the same lines");
    let run = Arc::new(Run::new(1, "host".into()));
    POOL.with_borrow_mut(|pool| {
        let rules = NameRules::new(&[], super::live::hasher(), Arc::default());
        let (mut taken, mut names) = (0, Names::new(rules));
        for (line, _) in whole.iter().filter(|(_, is_whole)| *is_whole) {
            let add = |line: Line<'_>| pool.add(&run, Some("/var/www"), &line, &mut names, |_| {});
            taken += usize::from(split(line).and_then(add).is_ok());
        }
        let snapshot = pool.snapshot().expect("nobody holds an older one");
        assert!(snapshot.len() >= taken.min(64));
        for segment in &snapshot.segments {
            for sample in &segment.samples {
                let _shown =
                    (segment.request(sample), segment.symbol(sample), segment.caller(sample));
                let _shown = (segment.arguments(sample), segment.opcode(sample), sample.line());
            }
        }
        drop(snapshot);
        pool.clear();
        assert_eq!(pool.len(), 0);
    });
}

/// The lines of bytes that come in pieces of this length, and whether each was whole. Of one that
/// is too long the piece decides how much was seen.
fn lines(stream: &[u8], piece: usize) -> Vec<(Vec<u8>, bool)> {
    let (mut lines, mut got) = (Lines::default(), Vec::new());
    for piece in stream.chunks(piece) {
        lines.feed(piece, |line, whole| {
            let line = if whole { line } else { &[] };
            got.push((line.to_vec(), whole));
        });
    }
    got
}
