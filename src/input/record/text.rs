//! Converts bytes of a packet to text of a record: always UTF-8, never longer than the limit.
//!
//! Strings of Pinba clients are whatever PHP had: mostly ASCII, sometimes Latin-1 or cut in
//! mid-character. Each byte that is not part of UTF-8 becomes the four characters `\xNN`
//! (lower-case hexadecimal); a text too long is cut where a character or such an escape ends. The
//! cap applies to the result. The writer calls this for the four texts of a request, and once for
//! each dictionary word that a tag uses.

use super::counts::bump;
use super::reject::Repair;
use crate::limits::{
    SCRIPT_NAME_BYTES_DEFAULT, TEXT_BYTES_DEFAULT, TEXT_BYTES_MAX, TEXT_BYTES_MIN,
};

/// Length limits of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Most bytes of a hostname, server name, schema, tag name or tag value.
    pub(in crate::input) text_bytes: usize,
    /// Most bytes of a script name.
    pub(in crate::input) script_name_bytes: usize,
}

impl TextLimits {
    /// Keeps `text_bytes` of hostname, server name, schema and every dictionary word,
    /// `script_name_bytes` of a script name. Both are clamped to
    /// [`TEXT_BYTES_MIN`]..=[`TEXT_BYTES_MAX`].
    pub fn new(text_bytes: usize, script_name_bytes: usize) -> Self {
        Self {
            text_bytes: text_bytes.clamp(TEXT_BYTES_MIN, TEXT_BYTES_MAX),
            script_name_bytes: script_name_bytes.clamp(TEXT_BYTES_MIN, TEXT_BYTES_MAX),
        }
    }
}

impl Default for TextLimits {
    fn default() -> Self {
        Self::new(TEXT_BYTES_DEFAULT, SCRIPT_NAME_BYTES_DEFAULT)
    }
}

/// Appends `raw` as text of at most `cap` bytes, and counts changes.
#[inline(always)]
pub(super) fn append(
    out: &mut Vec<u8>,
    raw: &[u8],
    cap: usize,
    repaired: &mut [u64; Repair::COUNT],
) {
    if raw.len() <= cap && is_ascii(raw) {
        out.extend_from_slice(raw);
    } else {
        append_repaired(out, raw, cap, repaired);
    }
}

#[inline(never)]
fn append_repaired(out: &mut Vec<u8>, raw: &[u8], cap: usize, repaired: &mut [u64; Repair::COUNT]) {
    // Each input byte gives at least one byte of text, so nothing that begins past `cap` can be
    // kept; three more bytes complete a character that begins before it. This bounds the work on a
    // text of 65,000 bytes.
    let near = raw.get(..cap.saturating_add(4)).unwrap_or(raw);
    let mut room = cap;
    let mut bad = false;
    let mut cut = false;
    'chunks: for chunk in near.utf8_chunks() {
        let valid = chunk.valid();
        let fits = valid.floor_char_boundary(room.min(valid.len()));
        out.extend_from_slice(valid.as_bytes().get(..fits).unwrap_or(&[]));
        room = room.saturating_sub(fits);
        if fits < valid.len() {
            cut = true;
            break;
        }
        for byte in chunk.invalid() {
            bad = true;
            if room < ESCAPE_BYTES {
                cut = true;
                break 'chunks;
            }
            out.extend_from_slice(&escape(*byte));
            room = room.saturating_sub(ESCAPE_BYTES);
        }
    }
    if cut {
        bump(repaired, Repair::TextCut as usize);
    }
    if bad {
        bump(repaired, Repair::TextNotUtf8 as usize);
    }
}

/// Bytes of one `\xNN`.
const ESCAPE_BYTES: usize = 4;

fn escape(byte: u8) -> [u8; ESCAPE_BYTES] {
    let digit = |nibble: u8| *b"0123456789abcdef".get(usize::from(nibble)).unwrap_or(&b'?');
    [b'\\', b'x', digit(byte >> 4), digit(byte & 0xf)]
}

/// Checks eight bytes at a time, the last eight overlapping: most texts are too short for the
/// library's version to pay off.
#[inline(always)]
pub(super) fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if let Some(last) = bytes.last_chunk::<8>() {
        let mut all = u64::from_le_bytes(*last);
        for eight in bytes.as_chunks::<8>().0 {
            all |= u64::from_le_bytes(*eight);
        }
        all & HIGH == 0
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (u32::from_le_bytes(*first) | u32::from_le_bytes(*last)) & 0x8080_8080 == 0
    } else {
        bytes.iter().fold(0, |all, byte| all | byte) & 0x80 == 0
    }
}

/// Compares two texts. Most have up to 16 bytes: for those a call costs more than the comparison.
#[inline(always)]
pub(crate) fn is_same(a: &[u8], b: &[u8]) -> bool {
    /// The first and the last bytes, which may overlap.
    #[inline(always)]
    fn ends<const BYTES: usize>(text: &[u8]) -> Option<[&[u8; BYTES]; 2]> {
        Some([text.first_chunk()?, text.last_chunk()?])
    }
    a.len() == b.len()
        && match a.len() {
            0..4 => a.iter().eq(b),
            4..8 => ends::<4>(a) == ends::<4>(b),
            8..=16 => ends::<8>(a) == ends::<8>(b),
            _ => a == b,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(raw: &[u8], cap: usize) -> (String, u64, u64) {
        let mut out = b"before|".to_vec();
        let mut repaired = [0; Repair::COUNT];
        append(&mut out, raw, cap, &mut repaired);
        let text = String::from_utf8(out.split_off(7)).expect("text is UTF-8");
        assert_eq!(out, b"before|");
        assert!(text.len() <= cap, "{} > {cap}", text.len());
        (text, repaired[Repair::TextCut as usize], repaired[Repair::TextNotUtf8 as usize])
    }

    /// At each length, with a difference at each position.
    #[test]
    fn texts_are_the_same_if_all_their_bytes_are() {
        for len in 0..40 {
            let text: Vec<u8> = (0..len).collect();
            assert!(is_same(&text, &text.clone()));
            assert!(!is_same(&text, &[&text[..], b"x"].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 0x80;
                assert!(!is_same(&text, &other), "{at} of {len}");
            }
        }
    }

    #[test]
    fn utf8_is_kept_as_it_is() {
        for sent in ["", "/index.php", "Größe", "日本語", "a\0b", "\\xff as sent", "🦀"] {
            assert_eq!(text(sent.as_bytes(), 255), (sent.to_owned(), 0, 0));
        }
    }

    #[test]
    fn each_bad_byte_is_escaped() {
        assert_eq!(text(b"caf\xe9", 255), ("caf\\xe9".into(), 0, 1));
        assert_eq!(text(b"\xff\xfe", 255), ("\\xff\\xfe".into(), 0, 1));
        // A three-byte character that ends after two.
        assert_eq!(text(b"a\xe6\x97b", 255), ("a\\xe6\\x97b".into(), 0, 1));
        // An overlong slash, a surrogate, past U+10FFFF.
        assert_eq!(text(b"\xc0\xaf", 255), ("\\xc0\\xaf".into(), 0, 1));
        assert_eq!(text(b"\xed\xa0\x80", 255), ("\\xed\\xa0\\x80".into(), 0, 1));
        assert_eq!(text(b"\xf4\x90\x80\x80", 255), ("\\xf4\\x90\\x80\\x80".into(), 0, 1));
    }

    #[test]
    fn cuts_at_a_character() {
        assert_eq!(text(b"abcdef", 5), ("abcde".into(), 1, 0));
        assert_eq!(text("abcdé".as_bytes(), 6), ("abcdé".into(), 0, 0));
        assert_eq!(text("abcdé".as_bytes(), 5), ("abcd".into(), 1, 0));
        assert_eq!(text("a日本".as_bytes(), 6), ("a日".into(), 1, 0));
        assert_eq!(text("🦀🦀".as_bytes(), 7), ("🦀".into(), 1, 0));
    }

    #[test]
    fn never_cuts_an_escape() {
        for cap in 4..8 {
            assert_eq!(text(b"\xff\xfe", cap), ("\\xff".into(), 1, 1), "cap {cap}");
        }
        assert_eq!(text(b"ab\xff", 5), ("ab".into(), 1, 1));
        // Text after an escape that does not fit is not pulled forward.
        assert_eq!(text(b"ab\xffz", 5), ("ab".into(), 1, 1));
    }

    #[test]
    fn a_long_text_is_read_only_as_far_as_it_is_kept() {
        let mut long = vec![b'x'; 60_000];
        long[59_000] = 0xff;
        assert_eq!(text(&long, 255), ("x".repeat(255), 1, 0), "the bad byte is past the cut");
        // A character that begins at the last position but does not fit.
        let mut edge = vec![b'x'; 254];
        edge.extend_from_slice("日本".as_bytes());
        assert_eq!(text(&edge, 255), ("x".repeat(254), 1, 0));
    }

    #[test]
    fn ascii_check_sees_every_position() {
        for len in 0..40 {
            let mut bytes = vec![b'a'; len];
            assert!(is_ascii(&bytes));
            for at in 0..len {
                bytes[at] = 0x80;
                assert!(!is_ascii(&bytes), "{at} of {len}");
                bytes[at] = 0x7f;
            }
        }
    }

    #[test]
    fn limits_are_brought_into_range() {
        assert_eq!(TextLimits::default(), TextLimits::new(255, 512));
        assert_eq!(TextLimits::new(0, usize::MAX), TextLimits::new(TEXT_BYTES_MIN, TEXT_BYTES_MAX));
    }
}
