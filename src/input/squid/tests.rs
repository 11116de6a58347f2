//! Lines of real logs and their content: by hand for one of each kind, by a second parser for all.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::activity::{Activity, Measure, State};
use super::line::parse;
use super::*;
use crate::clock::ManualClock;
use crate::config::Config;
use crate::input::pinba::reference::plain::{Plain, read_all};
use crate::input::record::micros;
use crate::input::rewrite::{NameRules, RuleCounters};
use crate::input::url::url_parts;
use crate::state::counters::SavedCounters;
use crate::telemetry::Counters;

fn corpus(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/squid");
    std::fs::read(folder.join(name)).unwrap()
}

/// The lines of a file, and how each ended.
fn lines_of(name: &str) -> Vec<(Vec<u8>, Ending)> {
    let mut got = Vec::new();
    let mut take = |line: &[u8], ending| got.push((line.to_vec(), ending));
    Lines::default().feed(&corpus(name), &mut take);
    got
}

pub(super) fn source(toml: &str) -> Arc<Source> {
    let text = format!("[[squid]]\n{toml}\n");
    let config = Config::from_toml("pinbad.toml", &text).unwrap();
    Source::new(config.squids[0].clone())
}

pub(super) const UDP: &str = "listen = \"udp://127.0.0.1:0\"";
const NAMED: &str = "listen = \"udp://127.0.0.1:0\"\nname = \"proxy\"\nclient = true";

pub(super) fn decoder(source: &Arc<Source>) -> Decoder {
    let (limits, hasher) = (TextLimits::default(), Hasher::with_seed(1));
    let rules = NameRules::new(&[], hasher.clone(), Arc::default());
    Decoder::new(Arc::clone(source), limits, hasher, rules)
}

/// The requests of datagrams, each with its sender's port.
fn sent(source: &Arc<Source>, datagrams: &[(u16, &[u8])]) -> Vec<Plain> {
    let (mut decoder, mut block) = (decoder(source), Vec::new());
    for (port, datagram) in datagrams {
        Decode::sender(&mut decoder, SocketAddr::from(([192, 0, 2, 7], *port)));
        let _counted = decoder.decode(datagram, 1_700_000_000, &mut block);
    }
    let counts = decoder.take_counts();
    assert_eq!(counts.datagrams_received(), datagrams.len() as u64);
    let requests = read_all(&block);
    assert_eq!(counts.requests_pushed(), requests.len() as u64);
    let counters = &source.counters;
    let known = [
        counters.requests.get(),
        counters.swaps.get(),
        counters.lines_repeated.get(),
        counters.lines_invalid.total(),
    ];
    assert_eq!(counters.lines_received.get(), known.iter().sum::<u64>());
    requests
}

/// A request as in `values.txt`.
fn shown(request: &Plain) -> String {
    let text = |bytes: &[u8]| match bytes {
        [] => "-".to_owned(),
        bytes => String::from_utf8(bytes.to_vec()).unwrap(),
    };
    let pairs = |pairs: Vec<String>| match pairs.len() {
        0 => "-".to_owned(),
        _ => pairs.join(" "),
    };
    let tags = request.tags.iter();
    let tags = tags.map(|(name, value)| format!("{}={}", text(name), text(value)));
    let (mut activities, mut others) = (Vec::new(), Vec::new());
    for timer in &request.timers {
        let [(name, value)] = &timer.tags[..] else { panic!("{timer:?}") };
        assert_eq!(timer.hit_count, 1);
        let (name, value) = (text(name), text(value).replace(' ', "_"));
        let us = micros(timer.times[0]);
        match name.as_str() {
            "activity" => activities.push(format!("{value}={us}")),
            _ => others.push(format!("{name}:{value}={us}")),
        }
    }
    format!(
        "{} {} {} {} {} {} | {} | {} | {}",
        text(request.schema.as_deref().unwrap_or_default()),
        text(&request.server_name),
        text(&request.script_name),
        request.status,
        micros(request.times[0]) / 1000,
        request.document_size,
        pairs(tags.collect()),
        pairs(activities),
        pairs(others),
    )
}

#[test]
fn lines_say_what_was_worked_out_by_hand() {
    let values = String::from_utf8(corpus("values.txt")).unwrap();
    let mut files = BTreeMap::new();
    let mut seen = 0;
    for value in values.lines().filter(|line| !line.starts_with('#')) {
        let (place, expected) = value.split_once(" | ").unwrap();
        let (name, number) = place.split_once(' ').unwrap();
        let lines = files.entry(name).or_insert_with(|| lines_of(name));
        let (line, ending) = &lines[number.parse::<usize>().unwrap() - 1];
        let source = source(NAMED);
        let datagram = match ending {
            Ending::Whole => [line, &b"\n"[..]].concat(),
            _ => line.clone(),
        };
        let requests = sent(&source, &[(1, &datagram)]);
        let [request] = &requests[..] else { panic!("{value}: {:?}", source.example.lock()) };
        assert_eq!(shown(request), expected, "{place}");
        assert_eq!((&request.hostname[..], request.request_count), (&b"proxy"[..], 1));
        seen += 1;
    }
    assert_eq!(seen, 21);
}

/// The patch's own samples, field by field.
#[test]
fn activities_are_what_the_patch_says_of_them() {
    let measures = |number: usize| match parse(&lines_of("patch-access.log")[number].0, false) {
        Ok(Line::Request(request)) => request.activities,
        other => panic!("{other:?}"),
    };
    let done = |start, first, total| Measure {
        start_us: Some(start),
        first_delay_us: Some(first),
        total_us: Some(total),
        resident_ms: None,
    };
    let unknown = Measure::default();
    let unfinished = Measure { start_us: Some(88_567), ..unknown };
    assert_eq!(
        measures(0),
        [
            done(0, 55_320, 55_320),
            done(72_028, 1395, 38_993),
            done(57_173, 3795, 4674),
            done(61_847, 10_181, 26_720),
            unknown,
            unfinished,
            unknown,
        ]
    );
    let resident = Measure { start_us: None, resident_ms: Some(38_024), ..done(0, 16_356, 16_356) };
    let second = measures(1);
    assert_eq!(
        second,
        [done(0, 1453, 1453), done(1453, 1205, 1205), unknown, unknown, unknown, resident, unknown,]
    );
    assert_eq!(resident.spent_us(), None, "it is no part of this request");
    assert_eq!(
        [unknown, unfinished, resident].map(|it| it.state()),
        [State::Unknown, State::Unfinished, State::Done]
    );
}

/// The wall clock may be set ahead and back: sums stay in their window until that is over.
#[test]
fn sums_leave_their_window_on_the_monotonic_clock() {
    let source = source(UDP);
    source.sums.lock().window_secs = 240;
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let mut decoder = decoder(&source).with_clock(Arc::<ManualClock>::clone(&clock));
    let mut shown_after = |name: &str| {
        let line = format!("1.000 SWAPIN 200 1 1 1 t/{name} 1/1 GET u 2/2\n");
        let _counted = decoder.decode(line.as_bytes(), clock.unix_secs(), &mut Vec::new());
        sums::swaps([&*source].into_iter(), sums::now(clock.mono_ms())).len()
    };
    assert_eq!(shown_after("a"), 1);
    clock.set_unix_ms(1_700_086_400_000);
    assert_eq!(shown_after("b"), 2);
    clock.set_unix_ms(1_600_000_000_000);
    assert_eq!(shown_after("c"), 3);
    clock.advance_ms(300_000);
    assert_eq!(shown_after("d"), 1);
}

#[test]
fn swaps_are_what_the_patch_says_of_them() {
    let swaps: Vec<_> = lines_of("patch-store.log")
        .iter()
        .map(|(line, _)| match parse(line, false) {
            Ok(Line::Swap(swap)) => (
                swap.time_ms,
                String::from_utf8(swap.action.to_vec()).unwrap(),
                String::from_utf8(swap.mime.to_vec()).unwrap(),
                swap.object_bytes,
                swap.first_delay_us.zip(swap.total_us),
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    let swap = |time, action: &str, mime: &str, bytes, times| {
        (time, action.to_owned(), mime.to_owned(), Some(bytes), times)
    };
    assert_eq!(
        swaps,
        [
            swap(873_497_945_884, "SWAPOUT", "image/gif", 2186, Some((13_240, 13_240))),
            swap(873_497_960_924, "RELEASE", "text/html", 53, None),
            swap(873_497_970_671, "SWAPIN", "text/html", 1718, Some((17_709, 17_709))),
        ]
    );
}

/// Compares every line of a capture with a second parser.
#[test]
fn every_line_of_todays_squid_is_what_its_members_say() {
    let source = source(NAMED);
    let log = corpus("udp.log");
    let text = String::from_utf8(log.clone()).unwrap();
    let datagrams: Vec<(u16, &[u8])> =
        log.split_inclusive(|byte| *byte == b'\n').map(|line| (1, line)).collect();
    let requests = sent(&source, &datagrams);
    assert_eq!(requests.len(), 613);
    assert_eq!(source.counters.lines_lost.get(), 0, "one was cut, and the next run is another");
    for (line, request) in text.lines().zip(&requests) {
        let said: BTreeMap<&str, &str> =
            line.split(' ').skip(1).filter_map(|it| it.split_once('=')).collect();
        let number = |name: &str| said[name].parse::<u64>().ok();
        let tag = |name: &str| {
            let named = request.tags.iter().find(|(it, _)| it == name.as_bytes());
            named.map_or("-", |(_, value)| std::str::from_utf8(value).unwrap())
        };
        let url = said["url"].replace("%7C", "|").replace("%22", "\"").replace("%7B", "{");
        let path = match url.strip_prefix("http://") {
            Some(rest) => rest[rest.find('/').unwrap()..].split('?').next().unwrap(),
            None if said["rm"] == "CONNECT" => "",
            None => &url,
        };
        assert_eq!(request.script_name, path.as_bytes(), "{line}");
        assert_eq!(request.status, said["hs"].parse::<u32>().unwrap());
        assert_eq!(Some(micros(request.times[0])), number("tr").map(|ms| ms * 1000));
        assert_eq!(Some(u64::from(request.document_size)), number("out"));
        for (name, member) in
            [("code", "ss"), ("hierarchy", "sh"), ("method", "rm"), ("mime", "mt")]
        {
            assert_eq!(tag(name), said[member], "{line}");
        }
        assert_eq!(tag("peer"), said["peer"].replace("-:-", "-"));
        assert_eq!(tag("client"), said["cl"].split(':').next().unwrap());
        if let Some(host) = said.get("host").filter(|host| **host != "-") {
            assert_eq!(request.server_name, host.as_bytes());
        }
        let spent = |activity: Activity| {
            let name = activity.name().as_bytes();
            let tag = (b"activity".to_vec(), name.to_vec());
            let timer = request.timers.iter().find(|timer| timer.tags[0] == tag);
            timer.map(|timer| micros(timer.times[0]) / 1000)
        };
        assert_eq!(spent(Activity::Dns), number("dt"));
        assert_eq!(spent(Activity::ServerIn), number("pt"));
        let server_out = number("pt").zip(number("tt")).map(|(pt, tt)| tt - pt);
        assert_eq!(spent(Activity::ServerOut), server_out);
        for unknown in
            [Activity::ClientIn, Activity::ClientOut, Activity::DiskIn, Activity::DiskOut]
        {
            assert_eq!(spent(unknown), None);
        }
    }
}

/// Two logs of the same requests agree in all common fields.
#[test]
fn what_two_formats_say_of_the_same_requests_agrees() {
    let key = |(line, ending): &(Vec<u8>, Ending)| match parse(line, *ending == Ending::Cut) {
        Ok(Line::Request(it)) => {
            let end = it.start_ms + it.elapsed_ms;
            let texts =
                [it.code, it.method.unwrap_or_default(), it.mime.as_deref().unwrap_or_default()];
            (end, it.status, it.sent_bytes, texts.concat())
        }
        other => panic!("{other:?}"),
    };
    let mut of_access: BTreeMap<_, usize> = BTreeMap::new();
    for line in lines_of("access.log") {
        *of_access.entry(key(&line)).or_default() += 1;
    }
    let mut missing = 0;
    for line in lines_of("udp.log") {
        match of_access.get_mut(&key(&line)) {
            Some(left @ 1..) => *left -= 1,
            _ => missing += 1,
        }
    }
    // Squid rounds the start; and of the line that was cut in both, only one has the type.
    assert!(missing <= 613 / 2, "{missing}");
}

#[test]
fn lines_that_cannot_be_used_are_counted_and_the_last_is_shown() {
    use BadLine::{
        BadNumber, CutOff, MissingField, StoreLogWithoutTimings, TooLong, UnknownFormat,
    };
    let of_today = lines_of("store.log");
    let long = vec![b'a'; LINE_BYTES_MAX + 1];
    for (line, (reason, field)) in cases![
        &b"hello\n"[..] => (UnknownFormat, "");
        b"\x01\x02\xff garbage\n" => (UnknownFormat, "");
        b"sq2 start=1.000 tr=1 ss=TCP_HIT\n" => (UnknownFormat, "");
        b"sq1 start=1.000 tr=1 nonsense ss=TCP_HIT\n" => (UnknownFormat, "");
        b"sq1 start=1.000 tr=1\n" => (MissingField, "");
        b"sq1 start=1.000 ss=TCP_HIT\n" => (MissingField, "");
        b"sq1 start=1.000 tr=1 ss=TCP" => (CutOff, "");
        b"sq1 start=1 tr=1 ss=TCP_HIT\n" => (BadNumber, "start");
        b"sq1 start=1.000 tr=-1 ss=TCP_HIT\n" => (BadNumber, "tr");
        b"sq1 start=1.000 tr=+1 ss=TCP_HIT\n" => (BadNumber, "tr");
        b"1.000 1 c TCP_HIT/200 1 GET /\n" => (UnknownFormat, "");
        b"1.000 1 c TCP_HIT/200 1 GET\0" => (CutOff, "");
        b"1.000 x c TCP_HIT/200 1 GET / - NONE/- -\n" => (BadNumber, "elapsed");
        b"1.000 1 c TCP_HIT/200 1 GET / - NONE/- - 0/1/1 0/1/1\n" => (UnknownFormat, "");
        &[&of_today[0].0[..], b"\n"].concat() => (StoreLogWithoutTimings, "");
        &long => (TooLong, "");
        b"sq1 start=1.000 tr=1 ss=TCP_HIT hs=x\n" => (BadNumber, "hs");
        b"1.000 1 c TCP_HIT/200 x GET / - NONE/- -\n" => (BadNumber, "bytes");
        b"1.000 1 c TCP_HIT/200 1 GET / - NONE/- - 0/1/1 0/1/1 0/1/1 0/x/1 0/1/1 0/1/1\n" => (BadNumber, Activity::ALL[3].name());
    ] {
        let source = source(UDP);
        assert_eq!(sent(&source, &[(1, line)]), []);
        let example = source.example.lock().clone().unwrap();
        assert_eq!((example.reason, &*example.field), (reason.name(), field), "{}", example.line);
        assert_eq!(source.counters.lines_invalid.get()[reason as usize], 1);
        assert!(example.line.is_ascii() && example.line.len() <= 4 * 160);
        assert!(!example.line.contains(|c: char| c.is_ascii_control()));
    }
    assert!(
        of_today.iter().all(|(line, _)| parse(line, false) == Err(StoreLogWithoutTimings.into()))
    );
    let source = source(UDP);
    sent(&source, &[(1, &b"it's \"so\" \\\"\x01\n"[..])]);
    assert_eq!(source.example.lock().clone().unwrap().line, r#"it's "so" \\"\x01"#);
}

#[test]
fn a_line_that_was_cut_anywhere_is_taken_or_counted_and_says_nothing_else() {
    let whole = &lines_of("udp.log")[2].0;
    let Ok(Line::Request(all)) = parse(whole, false) else { panic!() };
    for length in 0..whole.len() {
        let Ok(Line::Request(it)) = parse(&whole[..length], true) else {
            continue;
        };
        assert_eq!((it.start_ms, it.elapsed_ms, it.code), (all.start_ms, all.elapsed_ms, all.code));
        assert!(it.status == all.status || it.status == 0, "{length}");
        assert!(it.sent_bytes == all.sent_bytes || it.sent_bytes == 0, "{length}");
        assert!(it.sequence.is_none_or(|number| Some(number) == all.sequence), "{length}");
        assert!(it.method.is_none_or(|it| Some(it) == all.method), "{length}");
        assert!(it.peer.is_none_or(|it| Some(it) == all.peer), "{length}");
        assert!(it.mime.is_none_or(|it| Some(it) == all.mime), "{length}");
    }
}

#[test]
fn datagrams_hold_many_lines_and_each_once() {
    let source = source(UDP);
    let log = corpus("udp.log");
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let five = [&lines[..5].concat()[..], b"\0not a line\n"].concat();
    let again = lines[3..8].concat();
    let gap = [lines[11], lines[12]].concat();
    let requests =
        sent(&source, &[(1, &five), (1, &again), (1, &gap), (1, b"junk"), (2, lines[0])]);
    assert_eq!(requests.len(), 5 + 3 + 2, "the first came once more over another port");
    let counters = &source.counters;
    assert_eq!(counters.lines_repeated.get(), 2 + 1);
    assert_eq!(counters.lines_lost.get(), 3);
    assert_eq!(counters.lines_invalid.total(), 2);
    assert_eq!(requests[0].hostname, b"192.0.2.7");
    assert_eq!(requests[0].tags.len(), 5, "who asked is nobody's business");
    let known = &source.progress.lock().runs;
    assert_eq!((known.len(), known[0].next), (1, 13));
}

/// Killed with lines in the ring: the next process reads them again, and its sums have them
/// already.
#[test]
fn sums_have_a_line_once_through_a_kill() {
    let swap = b"1.000 SWAPIN 200 1 1 1 t/x 1/1 GET u 2/2";
    let request = b"sq1 start=1.000 tr=4 ss=TCP_IMS_HIT out=5 peer=-:- url=http://h/";
    let start = |config: &str, saved: Option<(&[u8], Vec<sums::SavedSums>)>, known| {
        let source = source(config);
        source.sums.lock().window_secs = 900;
        let counters = Counters { squids: vec![Arc::clone(&source)], ..Counters::new(1) };
        if let Some((saved, sums)) = saved {
            let saved: SavedCounters = postcard::from_bytes(saved).unwrap();
            saved.restore(&counters, &[], &[]);
            sums.into_iter().for_each(|it| source.sums.lock().restore(it, 1));
        }
        source.begin(known);
        let decoder = decoder(&source);
        if source.is_followed() {
            let position = serde_json::json!({"device": 1, "inode": 2, "offset": 0, "head": 3});
            source.mark(serde_json::from_value(position).unwrap(), &counters.sockets[0]);
        }
        (source, decoder, counters)
    };
    let read = |decoder: &mut Decoder, lines: u64| {
        for _ in 0..lines {
            assert!(decoder.take(request, Ending::Whole, 1, &mut Vec::new()));
            assert!(decoder.take(swap, Ending::Whole, 1, &mut Vec::new()));
        }
        let _counts = decoder.publish();
    };
    let counted = |source: &Source| {
        let requests = sums::savings([source].into_iter(), 1);
        let swaps = sums::swaps([source].into_iter(), 1);
        (requests[0].answers.count, swaps[0].1.count)
    };
    // Three of ten were merged, and what history has goes on to the fifth.
    let fifth = Reading {
        requests: Tally { lines: 5, ..Tally::default() },
        swaps: Tally { lines: 5, ..Tally::default() },
        ..Reading::default()
    };
    for (config, known, again, merged) in [
        ("path = '/nowhere'", None, 10, 3),
        ("path = '/nowhere'", Some(fifth), 5, 0),
        // Nothing of these comes again.
        (UDP, None, 0, 0),
    ] {
        let (source, mut decoder, counters) = start(config, None, None);
        read(&mut decoder, 10);
        counters.sockets[0].requests_pushed.add(10);
        counters.sockets[0].requests_popped.add(3);
        let mut saved = SavedCounters::of(&counters, &[]);
        let sums = saved.take_sums(&counters.squids);
        assert_eq!(counted(&source), (10, 10));
        let saved = postcard::to_extend(&saved, Vec::new()).unwrap();
        let (source, mut decoder, _counters) = start(config, Some((&saved[..], sums)), known);
        assert_eq!(source.progress.lock().merged, merged, "{config}");
        read(&mut decoder, again + 1);
        assert_eq!(counted(&source), (11, 11), "{config}: {again} once more");
    }
}

/// A position in a file of this number.
fn position(file: u64) -> file::Position {
    file::Position::of([1, file, 100, 3]).unwrap()
}

/// The last position that a process before left is in a file that may be gone by now, while its
/// sums have lines of the next one.
#[test]
fn sums_have_a_line_of_the_next_file_once_through_a_kill() {
    let swap = b"1.000 SWAPIN 200 1 1 1 t/x 1/1 GET u 2/2";
    let request = b"sq1 start=1.000 tr=4 ss=TCP_IMS_HIT out=5 peer=-:- url=http://h/";
    let start = || {
        let source = source("path = '/nowhere'");
        source.sums.lock().window_secs = 900;
        let counters = Counters { squids: vec![Arc::clone(&source)], ..Counters::new(1) };
        (source, counters)
    };
    let read = |decoder: &mut Decoder, lines: u64| {
        for _ in 0..lines {
            assert!(decoder.take(request, Ending::Whole, 1, &mut Vec::new()));
            assert!(decoder.take(swap, Ending::Whole, 1, &mut Vec::new()));
        }
        let _counts = decoder.publish();
    };
    for (is_first_gone, second, new) in [(false, 2, 2), (true, 2, 2), (false, 3, 7), (true, 3, 7)] {
        let (source, counters) = start();
        source.begin(None);
        let mut decoder_before = decoder(&source);
        decoder_before.begin_file(Some(position(1)), |_| false);
        source.mark(position(1), &counters.sockets[0]);
        read(&mut decoder_before, 10);
        let mut saved = SavedCounters::of(&counters, &[]);
        decoder_before.begin_file(Some(position(2)), |_| false);
        read(&mut decoder_before, 5);
        let sums = saved.take_sums(&counters.squids);
        let saved = postcard::to_extend(&saved, Vec::new()).unwrap();
        let (source, counters) = start();
        let saved: SavedCounters = postcard::from_bytes(&saved).unwrap();
        saved.restore(&counters, &[], &[]);
        sums.into_iter().for_each(|it| source.sums.lock().restore(it, 1));
        source.begin(None);
        assert_eq!(source.progress.lock().file, Some(position(1)));
        let mut decoder = decoder(&source);
        read(&mut decoder, if is_first_gone { 0 } else { 10 });
        decoder.begin_file(Some(position(second)), |known| known == position(second));
        read(&mut decoder, 7);
        let requests = sums::savings([&*source].into_iter(), 1);
        let swaps = sums::swaps([&*source].into_iter(), 1);
        let counted = (requests[0].answers.count, swaps[0].1.count);
        assert_eq!(counted, (15 + new, 15 + new), "first gone: {is_first_gone}, then {second}");
    }
}

/// Also in a process that goes on with the file of the one before.
#[test]
fn sums_know_how_far_their_file_was_read() {
    let source = source("path = '/nowhere'");
    source.begin(None);
    let start = file::Position::of([1, 1, 0, 3]).unwrap();
    source.sums.lock().begin_file(LineNumbers::default(), Some(start), |_| false);
    for file in [1, 2] {
        source.mark(position(file), &SocketCounters::default());
        let known = source.sums.lock().file.map(|it| it.0);
        assert_eq!(known, Some(position(1)));
    }
}

/// Also if there are more positions than are kept.
#[test]
fn what_is_merged_behind_a_position_is_of_the_same_file() {
    let source = source("path = '/nowhere'");
    source.begin(None);
    let (mut decoder, counters) = (decoder(&source), SocketCounters::default());
    let of_first = 2 * MARKS_MAX as u64;
    let start = |file| file::Position::of([1, file, 0, 0]).unwrap();
    for (file, requests) in [(1, of_first), (2, 3)] {
        decoder.begin_file(Some(start(file)), |_| false);
        source.mark(start(file), &counters);
        for _ in 0..requests {
            counters.requests_pushed.add(1);
            source.mark(position(file), &counters);
        }
    }
    let file_at = |left| source.at(left).0.file;
    // At the start of a file nothing of it was merged.
    for (first, file) in [(0, 1), (of_first, 2)] {
        assert_eq!(file_at(first), Some(start(file)));
        assert_eq!((file_at(first + 1), source.at(first + 1).0.merged), (Some(position(file)), 0));
    }
    assert_eq!(file_at(of_first - 1), Some(position(1)));
    for left in of_first + 1..=of_first + 3 {
        assert_eq!(file_at(left), Some(position(2)));
    }
    assert_eq!(source.at(of_first + 2).0.merged, 1);
}

#[test]
fn urls_come_apart() {
    for (url, schema, host, path) in cases![
        "http://h/" => Some("http"), "h", "/";
        "http://h" => Some("http"), "h", "/";
        "https://u:p@h.example:8443/a/b;c?d#e" => Some("https"), "h.example", "/a/b;c";
        "http://[2001:db8::1]:80/x" => Some("http"), "[2001:db8::1]", "/x";
        "http://h?q=/x" => Some("http"), "h", "/";
        "ftp://h/a%20b" => Some("ftp"), "h", "/a%20b";
        "/only/a/path?x" => None, "", "/only/a/path";
        "error:invalid-request" => None, "", "error:invalid-request";
        "*" => None, "", "*";
        "" => None, "", "";
    ] {
        let place = url_parts(url.as_bytes(), false);
        assert_eq!(place.schema, schema.map(str::as_bytes), "{url}");
        assert_eq!((place.host, place.path), (host.as_bytes(), path.as_bytes()), "{url}");
    }
    for (url, host) in [("h.example:443", "h.example"), ("[::1]:443", "[::1]")] {
        let place = url_parts(url.as_bytes(), true);
        assert_eq!((place.schema, place.host, place.path), (None, host.as_bytes(), &b""[..]));
    }
}

#[test]
fn name_rules_apply() {
    let rules = "[[rewrite]]\nfield = 'script_name'\npattern = '^/c'\nreplace = '/C'\n\
                 [[rewrite]]\nfield = '+peer'\npattern = ':\\d+$'\nreplace = ''\n\
                 [[rewrite]]\nfield = '@activity'\nprefix = 'server'\nreplace = 'origin'\n";
    let rules = Config::from_toml("pinbad.toml", rules).unwrap().rewrites;
    let hasher = Hasher::with_seed(1);
    let counters = Arc::new(RuleCounters::new(rules.len()));
    let rules = NameRules::new(&rules, hasher.clone(), counters);
    let mut decoder = Decoder::new(source(UDP), TextLimits::default(), hasher, rules);
    let mut block = Vec::new();
    let (line, _) = &lines_of("udp.log")[2];
    assert!(decoder.take(line, Ending::Whole, 1, &mut block));
    let requests = read_all(&block);
    assert_eq!(
        shown(&requests[0]),
        "http 127.0.0.1 /Cache 200 45 5342 | code=TCP_MISS hierarchy=HIER_DIRECT peer=127.0.0.1 method=GET \
         mime=text/plain | origin=1000 origin=43000 | bottleneck:server=44000 bottleneck:client_or_proxy=1000"
    );
}
