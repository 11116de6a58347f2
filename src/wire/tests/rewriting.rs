//! The seam for name rules: what they are asked, and that their results are what everything else sees.

use prost::Message as _;

use super::packets::{good, good_nested};
use super::*;

/// Rules that cut the query string, rename a host, and shorten the values of some tags.
#[derive(Debug, Default)]
struct Rules {
    asked_for_values: Vec<(String, String)>,
    /// What a tag value with name `long` becomes.
    long: Vec<u8>,
}

impl Rewrite for Rules {
    fn is_active(&self) -> bool {
        true
    }

    fn field(&mut self, field: TextField, text: &[u8], fresh: &mut Vec<u8>) -> bool {
        assert!(fresh.is_empty());
        assert!(std::str::from_utf8(text).is_ok());
        match field {
            TextField::ScriptName => {
                let Some(query) = text.iter().position(|byte| *byte == b'?') else {
                    return false;
                };
                fresh.extend_from_slice(&text[..query]);
                true
            }
            TextField::Hostname => {
                fresh.extend_from_slice(b"host \xff of any length ");
                fresh.extend_from_slice(&[b'h'; 400]);
                true
            }
            TextField::ServerName | TextField::Schema => false,
        }
    }

    fn tag_value(&mut self, name: &[u8], value: &[u8], fresh: &mut Vec<u8>) -> bool {
        assert!(fresh.is_empty());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        self.asked_for_values.push((text(name), text(value)));
        match name {
            b"user" => {
                fresh.push(b'*');
                true
            }
            b"long" => {
                fresh.extend_from_slice(&self.long);
                true
            }
            _ => false,
        }
    }
}

fn ruled(packet: &model::Request) -> (Outcome, Rules) {
    let mut decoder = Decoder::with_rules(TextLimits::default(), hasher(), Rules::default());
    let outcome = decode_with(&mut decoder, &packet.encode_to_vec());
    (outcome, std::mem::take(decoder.rules_mut()))
}

fn tag(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (name.as_bytes().to_vec(), value.as_bytes().to_vec())
}

#[test]
fn fields_are_rewritten_before_anything_is_hashed() {
    let mut packet = good();
    packet.script_name = Some(b"/a?id=1".to_vec());
    let (outcome, _) = ruled(&packet);
    let request = &outcome.requests[0];
    assert_eq!(request.script_name, b"/a");
    assert_eq!(request.server_name, b"example.org");
    let host = format!("host \\xff of any length {}", "h".repeat(400));
    assert_eq!(
        request.hostname,
        &host.as_bytes()[..255],
        "mended and cut like any text"
    );
    assert_eq!(outcome.counts.mended_by(Mend::TextNotUtf8), 1);
    assert_eq!(outcome.counts.mended_by(Mend::TextCut), 1);
    let h = hasher();
    assert_eq!(
        request.identity_hash,
        h.hash_identity(
            &request.hostname,
            b"example.org",
            b"/a",
            Some(b"https"),
            200
        )
    );
    // Two scripts that the rules make one are one.
    packet.script_name = Some(b"/a?id=2".to_vec());
    assert_eq!(
        ruled(&packet).0.requests[0].identity_hash,
        request.identity_hash
    );
}

#[test]
fn tag_values_are_rewritten_under_their_name_only() {
    let mut packet = model::Request::named("h", "s", "/");
    packet.add_tag("user", "17");
    packet.add_tag("order", "17");
    packet.add_timer(1, 1.0, &[("user", "17"), ("op", "get")]);
    packet.add_timer(1, 1.0, &[("user", "18"), ("order", "17")]);
    let (outcome, rules) = ruled(&packet);
    let request = &outcome.requests[0];
    assert_eq!(request.tags, [tag("user", "*"), tag("order", "17")]);
    assert_eq!(request.timers[0].tags, [tag("user", "*"), tag("op", "get")]);
    assert_eq!(
        request.timers[1].tags,
        [tag("user", "*"), tag("order", "17")]
    );
    assert!(
        rules
            .asked_for_values
            .contains(&("order".into(), "17".into()))
    );
    let h = hasher();
    let expected = h.hash_tags([(&b"user"[..], &b"*"[..]), (b"op", b"get")]);
    assert_eq!(request.timers[0].tags_hash, expected);
}

#[test]
fn a_pair_is_asked_for_once_while_it_stays_the_same() {
    let mut packet = model::Request::named("h", "s", "/");
    for _ in 0..500 {
        packet.add_timer(1, 1.0, &[("user", "17"), ("op", "get")]);
    }
    let (outcome, rules) = ruled(&packet);
    assert_eq!(outcome.requests[0].timers.len(), 500);
    assert_eq!(rules.asked_for_values.len(), 2);
}

/// What rules make too large is refused alone, and the decoder goes on.
#[test]
fn a_record_that_rules_make_too_large_is_refused_and_counted() {
    let rules = Rules {
        long: vec![b'x'; 255],
        ..Rules::default()
    };
    let mut decoder = Decoder::with_rules(TextLimits::default(), hasher(), rules);
    let mut nested = good_nested("/nested");
    for number in 0..2000 {
        nested.add_timer(1, 1.0, &[("long", format!("{number}"))]);
        nested.timer_ru_utime.push(0.0);
    }
    let mut packet = good();
    packet.requests = vec![nested];
    let outcome = decode_with(&mut decoder, &packet.encode_to_vec());
    assert_eq!(outcome.result, Ok(1));
    assert_eq!(outcome.counts.requests_invalid_by(Refusal::TooLarge), 1);

    let alone = packet.requests.pop().unwrap().encode_to_vec();
    let outcome = decode_with(&mut decoder, &alone);
    assert_eq!(outcome.result, Err(Refusal::TooLarge));
    let outcome = decode_with(&mut decoder, &good().encode_to_vec());
    assert_eq!(outcome.result, Ok(1));
}
