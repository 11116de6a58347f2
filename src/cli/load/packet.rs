//! Builds a request the way the PHP extension does (packet layout, dictionary order, merged
//! timers).
//!
//! `traffic` and `demo` describe a request in texts; this turns the texts into dictionary indexes.
//! It reproduces what a receiver may come to rely on: the dictionary is de-duplicated, request tags
//! come before timer tags, a request tag adds its value before its name and a timer tag its name
//! before its value, tags are sorted by name, and timers with equal tags are sent as one with their
//! hits and times summed. Encoding is prost's: unpacked repeated fields in the order of their
//! numbers, which is the extension's order too. Not the hot path: packets are made before they are
//! sent, so a linear search in a short dictionary is fine.

use std::time::Duration;

use prost::Message;

use crate::input::pinba::model::Request;

/// Rounds `secs` to the microsecond, as PHP's clocks measure it.
pub(super) fn whole_micros(secs: f64) -> Duration {
    Duration::from_micros((secs * 1e6) as u64)
}

/// Returns a part of `time`, rounded to the microsecond.
pub(super) fn share(time: Duration, part: f64) -> Duration {
    whole_micros(time.as_secs_f64() * part)
}

/// Adds request tags. Call it once, before adding timers: the extension fills the dictionary in
/// that order.
pub(super) fn set_request_tags<T: AsRef<[u8]>>(request: &mut Request, tags: &mut [(T, T)]) {
    tags.sort_unstable_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
    for (name, value) in tags {
        request.add_tag(name, value);
    }
}

/// Adds a timer, or adds its hits and time to the timer with exactly these tags. PHP itself works
/// during a little of `busy`, the part of `value` in which it did not just wait.
pub(super) fn add_timer<T: AsRef<[u8]>>(
    request: &mut Request,
    hits: u32,
    (value, busy): (Duration, Duration),
    tags: &mut [(T, T)],
) {
    tags.sort_unstable_by(|a, b| a.0.as_ref().cmp(b.0.as_ref()));
    let rusage = (share(busy, 0.1).as_secs_f32(), share(busy, 0.02).as_secs_f32());
    let value = value.as_secs_f32();
    if let Some(timer) = find_timer(request, tags) {
        request.timer_hit_count[timer] += hits;
        request.timer_value[timer] += value;
        request.timer_ru_utime[timer] += rusage.0;
        request.timer_ru_stime[timer] += rusage.1;
    } else {
        request.add_timer_with_rusage(hits, value, rusage, tags);
    }
}

/// Finds the timer with exactly these tags.
fn find_timer<T: AsRef<[u8]>>(request: &Request, tags: &[(T, T)]) -> Option<usize> {
    let is_word = |index: &u32, text: &T| request.dictionary[*index as usize] == text.as_ref();
    let mut start = 0;
    request.timer_tag_count.iter().position(|count| {
        let end = start + *count as usize;
        let names = &request.timer_tag_name[start..end];
        let pairs = names.iter().zip(&request.timer_tag_value[start..end]);
        start = end;
        names.len() == tags.len()
            && pairs
                .zip(tags)
                .all(|((name, value), tag)| is_word(name, &tag.0) && is_word(value, &tag.1))
    })
}

/// Pads the datagram to `bytes` with dictionary words that nothing refers to (within one byte: a
/// word takes at least two). Longer requests stay as they are. Keys and numbers are untouched, so
/// different sizes of the same seed are comparable.
pub(super) fn pad_to(request: &mut Request, bytes: usize) {
    loop {
        let missing = bytes.saturating_sub(request.encoded_len());
        // Field number and length take two bytes up to 127 bytes of text; longer gaps take more
        // words.
        let Some(text_bytes) = missing.checked_sub(2) else { return };
        let text_bytes = match text_bytes {
            // 128 would leave one byte that no word can fill.
            128 => 64,
            bytes => bytes.min(127),
        };
        request.dictionary.push(vec![b'x'; text_bytes]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_is_in_the_order_of_the_extension() {
        // The request of a recorded packet of PHP 8.2: three request tags and one timer.
        let mut request = Request::default();
        let mut tags = [("app", "shop"), ("env", "production"), ("browser", "chrome")];
        set_request_tags(&mut request, &mut tags);
        add_timer(
            &mut request,
            1,
            (Duration::from_millis(1), Duration::ZERO),
            &mut [("op", "get"), ("group", "redis")],
        );
        let expected = [
            "shop",
            "app",
            "chrome",
            "browser",
            "production",
            "env",
            "group",
            "redis",
            "op",
            "get",
        ];
        assert_eq!(request.dictionary, expected.map(str::as_bytes));
        assert_eq!((request.tag_name, request.tag_value), (vec![1, 3, 5], vec![0, 2, 4]));
        assert_eq!((request.timer_tag_name, request.timer_tag_value), (vec![6, 8], vec![7, 9]));
    }

    #[test]
    fn timers_with_equal_tags_are_sent_as_one() {
        let mut request = Request::default();
        add_timer(
            &mut request,
            1,
            (Duration::from_millis(250), Duration::ZERO),
            &mut [("group", "mysql"), ("server", "dbs1")],
        );
        add_timer(
            &mut request,
            1,
            (Duration::from_millis(500), Duration::ZERO),
            &mut [("group", "mysql"), ("server", "dbs2")],
        );
        add_timer(
            &mut request,
            1,
            (Duration::from_millis(125), Duration::ZERO),
            &mut [("server", "dbs1"), ("group", "mysql")],
        );
        add_timer(
            &mut request,
            1,
            (Duration::from_millis(1), Duration::ZERO),
            &mut [("group", "mysql")],
        );
        assert_eq!(request.timer_hit_count, [2, 1, 1]);
        assert_eq!(request.timer_value, [0.375, 0.5, 0.001]);
        assert_eq!(request.timer_tag_count, [2, 2, 1]);
    }

    #[test]
    fn padding_reaches_every_size_within_a_byte() {
        let empty = Request::named("host", "server", "script");
        let natural = empty.encoded_len();
        for bytes in natural..natural + 700 {
            let mut request = empty.clone();
            pad_to(&mut request, bytes);
            let missing = bytes - request.encoded_len();
            assert!(missing == 0 || bytes == natural + 1, "{bytes} bytes: {missing} missing");
        }
        let mut request = empty.clone();
        pad_to(&mut request, natural - 1);
        assert_eq!(request, empty);
    }
}
