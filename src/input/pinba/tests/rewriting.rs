//! The interface to name rules: the texts they get, and the effects of their results.

use std::cell::RefCell;
use std::sync::Arc;

use prost::Message as _;

use super::packets::{good, good_nested};
use super::*;
use crate::config::Config;

/// Rules that cut the query string, rename a host, and shorten the values of some tags.
#[derive(Debug, Default)]
struct Rules {
    asked_for_names: RefCell<Vec<(TagOf, String)>>,
    asked_for_values: Vec<(Chain, String)>,
    /// The replacement for a tag value named `long`.
    long: Vec<u8>,
}

const SCRIPT: Chain = Chain::new(0);
const HOST: Chain = Chain::new(1);
const USER: Chain = Chain::new(2);
const LONG: Chain = Chain::new(3);
const ORDER: Chain = Chain::new(4);
const USER_OF_REQUEST: Chain = Chain::new(5);

impl Rewrite for Rules {
    fn field_chain(&self, field: TextField) -> Option<Chain> {
        match field {
            TextField::ScriptName => Some(SCRIPT),
            TextField::Hostname => Some(HOST),
            TextField::ServerName | TextField::Schema => None,
        }
    }

    fn has_tag_chains(&self) -> bool {
        true
    }

    fn tag_chain(&self, of: TagOf, name: &[u8]) -> Option<Chain> {
        let text = String::from_utf8(name.to_vec()).unwrap();
        self.asked_for_names.borrow_mut().push((of, text));
        match (of, name) {
            (TagOf::Request, b"user") => Some(USER_OF_REQUEST),
            (TagOf::Timer, b"user") => Some(USER),
            (TagOf::Timer, b"long") => Some(LONG),
            (_, b"order") => Some(ORDER),
            _ => None,
        }
    }

    fn apply(&mut self, chain: Chain, text: &[u8], fresh: &mut Vec<u8>) -> bool {
        assert!(fresh.is_empty());
        let sent = std::str::from_utf8(text).unwrap();
        match chain {
            SCRIPT => {
                let Some(query) = text.iter().position(|byte| *byte == b'?') else {
                    return false;
                };
                fresh.extend_from_slice(&text[..query]);
                return true;
            }
            HOST => {
                fresh.extend_from_slice(b"host \xff of any length ");
                fresh.extend_from_slice(&[b'h'; 400]);
                return true;
            }
            _ => self.asked_for_values.push((chain, sent.to_owned())),
        }
        fresh.extend_from_slice(match chain {
            USER => b"*",
            USER_OF_REQUEST => b"+",
            LONG => &self.long,
            _ => return false,
        });
        true
    }

    fn publish_counts(&mut self) {}
}

fn ruled(packet: &model::Request) -> (Outcome, Rules) {
    let mut decoder = Decoder::with_rules(TextLimits::default(), hasher(), Rules::default());
    let outcome = decode_with(&mut decoder, &packet.encode_to_vec());
    (outcome, std::mem::take(&mut decoder.rules))
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
    assert_eq!(request.hostname, &host.as_bytes()[..255], "repaired and cut like any text");
    assert_eq!(outcome.counts.repaired_by(Repair::TextNotUtf8), 1);
    assert_eq!(outcome.counts.repaired_by(Repair::TextCut), 1);
    let h = hasher();
    assert_eq!(
        request.identity_hash,
        h.hash_identity(&request.hostname, b"example.org", b"/a", Some(b"https"), 200)
    );
    // Two scripts that the rules map to one are one.
    packet.script_name = Some(b"/a?id=2".to_vec());
    assert_eq!(ruled(&packet).0.requests[0].identity_hash, request.identity_hash);
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
    assert_eq!(request.tags, [tag("user", "+"), tag("order", "17")]);
    assert_eq!(request.timers[0].tags, [tag("user", "*"), tag("op", "get")]);
    assert_eq!(request.timers[1].tags, [tag("user", "*"), tag("order", "17")]);
    let asked = |chain, value: &str| (chain, value.to_owned());
    assert_eq!(
        rules.asked_for_values,
        [asked(USER_OF_REQUEST, "17"), asked(ORDER, "17"), asked(USER, "17"), asked(USER, "18")],
        "under `order` the word is the same for request and timer, and so are the rules"
    );
    let h = hasher();
    let expected = h.hash_tags([(&b"user"[..], &b"*"[..]), (b"op", b"get")]);
    assert_eq!(request.timers[0].tags_hash, expected);
}

#[test]
fn each_name_and_each_value_is_asked_for_once_a_request() {
    let mut packet = model::Request::named("h", "s", "/");
    for number in 0..500 {
        // One word as value of three names in turn, and as a name.
        let name = ["user", "op", "order", "17"][number % 4];
        packet.add_timer(1, 1.0, &[(name, "17")]);
    }
    let (outcome, rules) = ruled(&packet);
    assert_eq!(outcome.requests[0].timers.len(), 500);
    assert_eq!(outcome.requests[0].timers[496].tags, [tag("user", "*")]);
    assert_eq!(outcome.requests[0].timers[498].tags, [tag("order", "17")]);
    assert_eq!(rules.asked_for_names.borrow().len(), 4);
    let asked = |chain| (chain, "17".to_owned());
    assert_eq!(rules.asked_for_values, [asked(USER), asked(ORDER)]);
}

/// A record that rules make too large is refused alone, and the decoder goes on.
#[test]
fn a_record_that_rules_make_too_large_is_refused_and_counted() {
    let rules = Rules { long: vec![b'x'; 255], ..Rules::default() };
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
    assert_eq!(outcome.counts.requests_invalid_by(RejectReason::TooLarge), 1);

    let alone = packet.requests.pop().unwrap().encode_to_vec();
    let outcome = decode_with(&mut decoder, &alone);
    assert_eq!(outcome.result, Err(RejectReason::TooLarge));
    let outcome = decode_with(&mut decoder, &good().encode_to_vec());
    assert_eq!(outcome.result, Ok(1));
}

/// The rules in `text`, in a decoder with these limits.
fn configured(text: &str, limits: TextLimits) -> Decoder<NameRules> {
    let rules = Config::from_toml("pinbad.toml", text).unwrap().rewrites;
    let counters = Arc::new(RuleCounters::new(rules.len()));
    Decoder::with_rules(limits, hasher(), NameRules::new(&rules, hasher(), counters))
}

fn with(text: &str, packet: &model::Request) -> Outcome {
    let mut decoder = configured(text, TextLimits::default());
    decode_with(&mut decoder, &packet.encode_to_vec())
}

#[test]
fn configured_rules_change_each_field_and_no_other() {
    let sent = good();
    let before = decode(&sent.encode_to_vec()).requests.remove(0);
    for field in ["hostname", "server_name", "script_name", "schema"] {
        let rule = format!("[[rewrite]]\nfield = '{field}'\npattern = '.*'\nreplace = 'new'\n");
        let mut after = with(&rule, &sent).requests.remove(0);
        assert_ne!(after.identity_hash, before.identity_hash);
        after.identity_hash = before.identity_hash;
        let mut expected = before.clone();
        match field {
            "hostname" => expected.hostname = b"new".to_vec(),
            "server_name" => expected.server_name = b"new".to_vec(),
            "script_name" => expected.script_name = b"new".to_vec(),
            _ => expected.schema = Some(b"new".to_vec()),
        }
        assert_eq!(after, expected, "{field}");
    }
    // A schema that was not sent is not invented.
    let mut sent = sent;
    sent.schema = None;
    let rule = "[[rewrite]]\nfield = 'schema'\npattern = '.*'\nreplace = 'new'\n";
    assert_eq!(with(rule, &sent).requests[0].schema, None);
}

#[test]
fn configured_rules_change_the_named_tag_of_request_or_timer_only() {
    let mut packet = model::Request::named("db-17", "s", "db-17");
    packet.add_tag("server", "db-17");
    packet.add_tag("db-17", "server");
    packet.add_timer(1, 1.0, &[("server", "db-17"), ("host", "db-17"), ("server", "db-18")]);
    packet.add_timer(1, 1.0, &[("host", "db-17"), ("db-17", "server"), ("server", "server")]);
    let before = decode(&packet.encode_to_vec()).requests.remove(0);

    let rule =
        |field: &str| format!("[[rewrite]]\nfield = '{field}'\npattern = '\\d+'\nreplace = '*'\n");
    let of_timers = with(&rule("@server"), &packet).requests.remove(0);
    let mut expected = before.clone();
    expected.timers[0].tags =
        vec![tag("server", "db-*"), tag("host", "db-17"), tag("server", "db-*")];
    expected.timers[0].tags_hash = of_timers.timers[0].tags_hash;
    assert_ne!(of_timers.timers[0].tags_hash, before.timers[0].tags_hash);
    assert_eq!(of_timers, expected);

    let of_request = with(&rule("+server"), &packet).requests.remove(0);
    let mut expected = before.clone();
    expected.tags = vec![tag("server", "db-*"), tag("db-17", "server")];
    expected.tags_hash = of_request.tags_hash;
    assert_ne!(of_request.tags_hash, before.tags_hash);
    assert_eq!(of_request, expected);

    let none = with(&rule("@serve"), &packet).requests.remove(0);
    assert_eq!(none, before);
}

#[test]
fn the_cap_holds_for_what_rules_make_and_not_for_what_they_see() {
    let limits = TextLimits::new(32, 40);
    let long = format!("/a/{}?{}", "b".repeat(20), "c".repeat(3000));
    let mut packet = model::Request::named("h", "s", &*long);
    packet.add_tag("t", format!("{}.example", "d".repeat(200)));
    let mut decoder = configured(
        "[[rewrite]]\nfield = 'script_name'\ncut = '?'\n\
         [[rewrite]]\nfield = '+t'\npattern = '^d+\\.example$'\nreplace = 'short'\n",
        limits,
    );
    let outcome = decode_with(&mut decoder, &packet.encode_to_vec());
    assert_eq!(outcome.requests[0].script_name, &long.as_bytes()[..23]);
    assert_eq!(outcome.requests[0].tags, [tag("t", "short")]);
    assert_eq!(outcome.counts.repaired, [0; Repair::COUNT], "nothing of the names was lost");

    // Cut before the rules saw it.
    let long = format!("/a?{}", "c".repeat(5_000));
    let packet = model::Request::named("h", "s", &*long);
    let outcome = decode_with(&mut decoder, &packet.encode_to_vec());
    assert_eq!(outcome.requests[0].script_name, b"/a");
    assert_eq!(outcome.counts.repaired_by(Repair::TextCut), 1);

    // Longer than the limit: cut at a character, and counted.
    let mut decoder = configured(
        "[[rewrite]]\nfield = 'hostname'\npattern = '.'\nreplace = '0123456789012345678901234567890ä'\n\
         [[rewrite]]\nfield = '+t'\npattern = '^.*$'\nreplace = '$0$0é$0'\n",
        limits,
    );
    let mut packet = model::Request::named("h", "s", "/");
    packet.add_tag("t", "1234567890abcde");
    let outcome = decode_with(&mut decoder, &packet.encode_to_vec());
    assert_eq!(outcome.requests[0].hostname, b"0123456789012345678901234567890");
    let cut = "1234567890abcde1234567890abcdeé";
    assert_eq!(cut.len(), 32);
    assert_eq!(outcome.requests[0].tags, [tag("t", cut)]);
    assert_eq!(outcome.counts.repaired_by(Repair::TextCut), 2);
}

#[test]
fn what_is_not_utf8_is_made_so_before_rules_see_it() {
    let mut packet = model::Request::named("h", "s", "");
    packet.script_name = Some(b"/caf\xe9/\xc3\xa4?x=\xff".to_vec());
    let rules = "[[rewrite]]\nfield = 'script_name'\ncut = '?'\n\
                 [[rewrite]]\nfield = 'script_name'\npattern = '.$'\nreplace = '[$0]'\n";
    let outcome = with(rules, &packet);
    assert_eq!(outcome.requests[0].script_name, "/caf\\xe9/[ä]".as_bytes());
    assert_eq!(outcome.counts.repaired_by(Repair::TextNotUtf8), 1);
    // A rule that changes nothing counts nothing twice.
    let outcome = with("[[rewrite]]\nfield = 'script_name'\ncut = '#'\n", &packet);
    assert_eq!(outcome.requests[0].script_name, "/caf\\xe9/ä?x=\\xff".as_bytes());
    assert_eq!(outcome.counts.repaired_by(Repair::TextNotUtf8), 1);
}

/// Rules that match nothing, or change nothing, give exactly the bytes of a decoder without rules.
#[test]
fn rules_without_effect_leave_every_byte_as_it_is() {
    let mut of_no_effect = String::new();
    for field in "hostname server_name script_name schema +env @group @op".split(' ') {
        let entry = format!("[[rewrite]]\nfield = '{field}'\n");
        of_no_effect +=
            &format!("{entry}pattern = '.+'\nreplace = '$0'\n{entry}cut = 'no such text'\n");
        of_no_effect += &format!("{entry}prefix = 'no such text'\nreplace = ''\n");
    }
    let mut plain = decoder();
    let mut empty = configured("", TextLimits::default());
    let mut ruled = configured(&of_no_effect, TextLimits::default());
    let mut requests = 0;
    let mut packets: Vec<Vec<u8>> =
        super::corpus::all().into_iter().map(|(_, packet)| packet).collect();
    packets.push(good().encode_to_vec());
    for (round, packet) in packets.iter().chain(&packets).enumerate() {
        let mut blocks = [Vec::new(), Vec::new(), Vec::new()];
        let [of_plain, of_empty, of_ruled] = &mut blocks;
        let result = plain.decode(packet, RECEIVED_SECS, of_plain);
        assert_eq!(empty.decode(packet, RECEIVED_SECS, of_empty), result);
        assert_eq!(ruled.decode(packet, RECEIVED_SECS, of_ruled), result);
        assert_eq!(of_plain, of_empty, "packet {round}");
        assert_eq!(of_plain, of_ruled, "packet {round}");
        let counts = plain.take_counts();
        assert_eq!(empty.take_counts(), counts);
        assert_eq!(ruled.take_counts(), counts);
        requests += result.unwrap_or(0);
    }
    assert!(requests > 40, "{requests}");
}
