//! Splits bytes into lines: each ends with a newline, or a NUL where Squid cut it.
//!
//! An incomplete line waits for the rest, up to [`LINE_BYTES_MAX`]; of a longer line the start is
//! kept and the rest skipped, so that a sender that never ends a line takes no more than that.

use crate::limits::LINE_BYTES_MAX;

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With a newline.
    Whole,
    /// With a NUL, or not at all.
    Cut,
    /// It is longer than [`LINE_BYTES_MAX`]; this is its start.
    TooLong,
}

/// Most bytes that Squid writes in one piece, without the end: a line that long was cut.
const CUT_BYTES: usize = 8191;

/// An incomplete line.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
    /// Whether there was more than is held.
    over: bool,
}

impl Lines {
    /// Adds bytes and passes each line that ends in them to `take`, except empty ones.
    pub fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8], Ending)) {
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | 0)) {
            let (piece, [end, rest @ ..]) = bytes.split_at_checked(at).unwrap_or_default() else {
                break;
            };
            bytes = rest;
            let ending = match *end {
                b'\n' => Ending::Whole,
                _ => Ending::Cut,
            };
            if self.held.is_empty() && piece.len() <= LINE_BYTES_MAX {
                give(piece, ending, &mut take);
            } else {
                self.hold(piece);
                self.end(ending, &mut take);
            }
        }
        self.hold(bytes);
    }

    /// Ends the incomplete line, and passes it to `take`.
    pub fn end(&mut self, ending: Ending, take: &mut impl FnMut(&[u8], Ending)) {
        let ending = match std::mem::take(&mut self.over) {
            true => Ending::TooLong,
            false => ending,
        };
        give(&self.held, ending, take);
        self.held.clear();
    }

    /// Bytes kept of the incomplete line.
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn hold(&mut self, piece: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.held.len());
        let kept = piece.get(..room).unwrap_or(piece);
        self.held.extend_from_slice(kept);
        self.over |= kept.len() < piece.len();
    }
}

fn give(line: &[u8], ending: Ending, take: &mut impl FnMut(&[u8], Ending)) {
    if !line.trim_ascii().is_empty() {
        let was_cut = ending == Ending::Whole && line.len() >= CUT_BYTES;
        take(line, if was_cut { Ending::Cut } else { ending });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of bytes that arrive in pieces of this length.
    fn lines(bytes: &[u8], piece: usize) -> Vec<(Vec<u8>, Ending)> {
        let (mut lines, mut got) = (Lines::default(), Vec::new());
        let mut take = |line: &[u8], ending| got.push((line.to_vec(), ending));
        for piece in bytes.chunks(piece) {
            lines.feed(piece, &mut take);
        }
        lines.end(Ending::Cut, &mut take);
        got
    }

    #[test]
    fn however_they_come_they_are_the_same() {
        let text = b"one\ntwo\0\0three\r\n\n  \nfour";
        let expected = [
            (b"one".to_vec(), Ending::Whole),
            (b"two".to_vec(), Ending::Cut),
            (b"three\r".to_vec(), Ending::Whole),
            (b"four".to_vec(), Ending::Cut),
        ];
        for piece in 1..text.len() {
            assert_eq!(lines(text, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_line_without_end_takes_what_a_line_may_take() {
        let mut long = vec![b'x'; 1 << 20];
        long.extend_from_slice(b"\nnext\n");
        for piece in [1 << 10, 50_000, 2 << 20] {
            let [(first, ending), next] = &lines(&long, piece)[..] else { panic!() };
            assert_eq!((first.len(), *ending), (LINE_BYTES_MAX, Ending::TooLong));
            assert_eq!(*next, (b"next".to_vec(), Ending::Whole));
        }
    }

    #[test]
    fn as_long_as_squid_writes_is_cut() {
        let line = [&vec![b'x'; CUT_BYTES][..], b"\n"].concat();
        assert_eq!(lines(&line, 99)[0].1, Ending::Cut);
        assert_eq!(lines(&line[1..], 99)[0].1, Ending::Whole);
    }
}
