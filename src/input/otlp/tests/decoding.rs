//! Both decoders compared with the messages of the crate `opentelemetry-proto`, and the bodies and
//! spans they refuse.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Reference;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{self as common, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as trace;
use prost::Message as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::super::attributes::{FactsAt, Keys};
use super::super::protobuf;
use super::super::span::{self, Batch};
use super::*;
use crate::limits::{BODY_SPANS_MAX, SPAN_ATTRIBUTES_MAX};

/// Resources and spans with their facts, and the numbers of spans received and refused.
type Decoded = (Vec<Told>, Vec<(span::Span, Told)>, u64, u64);

/// The texts of a span or resource, by the numbers of their attributes.
type Told = Vec<(u8, Vec<u8>)>;

fn decode(form: Form, body: &[u8]) -> Result<Decoded, BodyRefusal> {
    let keys = Keys::new(&["tenant".to_owned()], None);
    let body = form.protobuf(body).map_err(|(reason, _)| reason)?;
    let mut batch = Batch { now_ns: NOW_NS, ..Batch::default() };
    protobuf::decode(&body, &keys, &mut batch).map_err(|_| BodyRefusal::BadProtobuf)?;
    let told = |facts: FactsAt| -> Told {
        let facts = facts.among(&batch.texts);
        let told = (0..64).filter_map(|at| Some((at, facts.first_of(1 << at)?.to_vec())));
        told.collect()
    };
    // Hashes are keyed, and of the resource as it was sent; and places of texts differ.
    let facts = FactsAt::default();
    let resources = batch.resources.iter().map(|it| told(*it));
    let spans = batch.spans.iter();
    let spans = spans.map(|it| (span::Span { facts, group: 0, ..*it }, told(it.facts)));
    let refused = batch.refused.iter().sum();
    Ok((resources.collect(), spans.collect(), batch.received, refused))
}

fn attribute(key: &str, value: AnyValue) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(common::AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn some_attributes(dice: &mut StdRng) -> Vec<KeyValue> {
    const NAMES: [&str; 9] = [
        "http.route",
        "http.response.status_code",
        "db.system.name",
        "db.query.text",
        "db.unheard.of",
        "host.name",
        "tenant",
        "url.full",
        "nothing",
    ];
    let mut attributes = Vec::new();
    for _ in 0..dice.random_range(0..7) {
        let value = match dice.random_range(0..6) {
            0 => AnyValue::StringValue("größe /x".to_owned()),
            1 => AnyValue::IntValue(dice.random_range(-9..9)),
            2 => AnyValue::BoolValue(dice.random()),
            3 => AnyValue::DoubleValue(dice.random_range(0..99).into()),
            4 => AnyValue::ArrayValue(ArrayValue::default()),
            _ => AnyValue::StringValue(String::new()),
        };
        attributes.push(attribute(NAMES[dice.random_range(0..NAMES.len())], value));
    }
    attributes
}

fn some_span(dice: &mut StdRng) -> trace::Span {
    let id = |bytes: u8, dice: &mut StdRng| match dice.random_range(0..20) {
        0 => vec![1; 3],
        1 => vec![0; bytes.into()],
        _ => vec![dice.random_range(1..200); bytes.into()],
    };
    let start = match dice.random_range(0..20) {
        0 => 0,
        1 => NOW_NS - 7_300_000_000_000,
        _ => NOW_NS - dice.random_range(0..1_000_000_000),
    };
    trace::Span {
        trace_id: id(16, dice),
        span_id: id(8, dice),
        parent_span_id: if dice.random() { id(8, dice) } else { Vec::new() },
        name: "GET /x".to_owned(),
        kind: dice.random_range(0..7),
        start_time_unix_nano: start,
        end_time_unix_nano: start + dice.random_range(0..1_000_000),
        attributes: some_attributes(dice),
        events: vec![trace::span::Event {
            name: ["exception", "log"][dice.random_range(0..2)].to_owned(),
            attributes: vec![attribute(
                "exception.type",
                AnyValue::StringValue("App\\Error".to_owned()),
            )],
            ..trace::span::Event::default()
        }],
        status: dice
            .random::<bool>()
            .then(|| trace::Status { code: dice.random_range(0..3), ..trace::Status::default() }),
        flags: [0, 0x100, 0x300][dice.random_range(0..3)],
        ..trace::Span::default()
    }
}

fn some_request(dice: &mut StdRng) -> Reference {
    let resource_spans = (0..dice.random_range(0..3)).map(|_| trace::ResourceSpans {
        resource: Some(Resource { attributes: some_attributes(dice), ..Resource::default() }),
        scope_spans: vec![trace::ScopeSpans {
            spans: (0..dice.random_range(0..4)).map(|_| some_span(dice)).collect(),
            ..trace::ScopeSpans::default()
        }],
        ..trace::ResourceSpans::default()
    });
    Reference { resource_spans: resource_spans.collect() }
}

/// Encodes a request as OTLP's JSON.
fn as_json(request: &Reference) -> Json {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
    let list = |attributes: &[KeyValue]| -> Json {
        let pairs = attributes.iter().map(|pair| {
            let value = match pair.value.as_ref().and_then(|it| it.value.clone()) {
                Some(AnyValue::StringValue(text)) => json!({ "stringValue": text }),
                Some(AnyValue::IntValue(number)) => json!({"intValue": number.to_string()}),
                Some(AnyValue::BoolValue(truth)) => json!({ "boolValue": truth }),
                Some(AnyValue::DoubleValue(number)) => json!({ "doubleValue": number }),
                _ => json!({"arrayValue": {"values": []}}),
            };
            json!({"key": pair.key, "value": value, "unheard": [1, {"of": null}]})
        });
        pairs.collect()
    };
    let of_span = |span: &trace::Span| {
        json!({
            "traceId": hex(&span.trace_id),
            "spanId": hex(&span.span_id).to_uppercase(),
            "parentSpanId": hex(&span.parent_span_id),
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": span.start_time_unix_nano.to_string(),
            "endTimeUnixNano": span.end_time_unix_nano,
            "attributes": list(&span.attributes),
            "events": span.events.iter().map(|event| json!({
                "name": event.name, "timeUnixNano": "5", "attributes": list(&event.attributes),
            })).collect::<Vec<_>>(),
            "status": span.status.as_ref().map(|it| json!({"code": it.code})),
            "flags": span.flags,
            "links": null,
        })
    };
    let resources = request.resource_spans.iter().map(|of| {
        let scopes = of.scope_spans.iter();
        let scopes: Vec<_> = scopes
            .map(|it| json!({"spans": it.spans.iter().map(of_span).collect::<Vec<_>>()}))
            .collect();
        json!({
            "scopeSpans": scopes,
            "resource": {"attributes": list(&of.resource.as_ref().unwrap().attributes)},
        })
    });
    json!({"resourceSpans": resources.collect::<Vec<_>>()})
}

#[test]
fn both_forms_tell_the_same_and_every_span_is_counted() {
    let mut dice = StdRng::seed_from_u64(38);
    let (mut spans, mut refused) = (0, 0);
    for _ in 0..2_000 {
        let request = some_request(&mut dice);
        let sent: usize =
            request.resource_spans.iter().map(|it| it.scope_spans[0].spans.len()).sum();
        let decoded = decode(Form::Protobuf, &request.encode_to_vec()).unwrap();
        let json = as_json(&request).to_string();
        assert_eq!(decode(Form::Json, json.as_bytes()).as_ref(), Ok(&decoded), "{json}");
        let (resources, taken, received, not_taken) = decoded;
        assert_eq!(received, sent as u64);
        assert_eq!(received, taken.len() as u64 + not_taken);
        // None without spans.
        let mut used: Vec<_> = taken.iter().map(|it| it.0.resource as usize).collect();
        used.dedup();
        assert_eq!(used, (0..resources.len()).collect::<Vec<_>>());
        spans += received;
        refused += not_taken;
    }
    assert!(refused > 100 && spans > refused * 2, "{refused} of {spans}");
}

#[test]
fn texts_of_floats_are_short_and_exact() {
    let text = |float| {
        let span = trace::Span {
            trace_id: vec![1; 16],
            span_id: vec![1; 8],
            start_time_unix_nano: NOW_NS,
            end_time_unix_nano: NOW_NS,
            attributes: vec![attribute("tenant", AnyValue::DoubleValue(float))],
            ..trace::Span::default()
        };
        let scope_spans = vec![trace::ScopeSpans { spans: vec![span], ..Default::default() }];
        let of_resource = trace::ResourceSpans { scope_spans, ..trace::ResourceSpans::default() };
        let request = Reference { resource_spans: vec![of_resource] };
        let (_, spans, ..) = decode(Form::Protobuf, &request.encode_to_vec()).unwrap();
        let [(_, told)] = &spans[..] else { panic!("{spans:?}") };
        let [(_, text)] = &told[..] else { panic!("{told:?}") };
        String::from_utf8(text.clone()).unwrap()
    };
    for float in [-5e-324, f64::MIN_POSITIVE, f64::MIN, 1.0 / 3.0, 1e-5 / 3.0, 1e16, 1e15 / 3.0] {
        let text = text(float);
        assert!(text.len() <= 24 && text.parse() == Ok(float), "{text}");
    }
    for (float, expected) in [(200.0, "200"), (0.5, "0.5"), (-0.0, "-0"), (f64::NAN, "NaN")] {
        assert_eq!(text(float), expected);
    }
}

#[test]
fn what_the_reference_takes_is_taken_and_what_it_refuses_mostly_not() {
    let mut dice = StdRng::seed_from_u64(39);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..300 {
        let bytes = some_request(&mut dice).encode_to_vec();
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            let mut bent = cut.to_vec();
            if let Some(byte) = bent.get_mut(length / 2) {
                *byte = dice.random();
            }
            for body in [cut, &bent] {
                let ours = decode(Form::Protobuf, body);
                match Reference::decode(body) {
                    Ok(_) => {
                        assert!(ours.is_ok(), "{body:?}");
                        taken += 1;
                    }
                    Err(_) => refused += u64::from(ours.is_err()),
                }
            }
        }
    }
    assert!(taken > 100 && refused > 10_000, "{taken}, {refused}");
}

/// Node's SDK cuts texts by UTF-16 units, and sends the half of a character as an escape.
#[test]
fn texts_of_json_that_are_cut_within_a_character_cost_nothing_else() {
    for cut in [&b"ab\\ud83d"[..], b"ab\\ud83dc", b"ab\xf0\x9f"] {
        let sent = span(7, (1, 0), 2, (0, 10), json!({"http.route": "ROUTE", "x": "ROUTE"}));
        let whole = body(json!({}), json!([sent]));
        let mut sent = Vec::new();
        for (nth, part) in whole.to_string().split("ROUTE").enumerate() {
            sent.extend_from_slice(if nth > 0 { cut } else { b"" });
            sent.extend_from_slice(part.as_bytes());
        }
        let mut world = World::new("");
        assert_eq!(world.take_bytes(&sent), Ok(0));
        world.finish();
        let shown = world.requests();
        assert!(shown.len() == 1 && shown[0].script.starts_with("ab"), "{shown:?}");
    }
}

/// As protobuf's mapping allows. Node's SDK sends whole numbers of any size as `intValue`.
#[test]
fn whole_numbers_may_be_written_as_floats_and_one_too_large_costs_nothing_else() {
    for (written, tags) in [
        ("5.0", "n=5"),
        ("1e3", "n=1000"),
        ("\"1e3\"", "n=1000"),
        ("-1.7e18", "n=-1700000000000000000"),
        ("1e+21", ""),
        ("1180591620717411303424", ""),
        ("18446744073709551615", ""),
        ("-1e300", ""),
        ("0.5", ""),
        ("\"NaN\"", ""),
    ] {
        let sent = span(7, (1, 0), 2, (0, 10), json!({"n": 777}));
        let sent = body(json!({}), json!([sent])).to_string().replace("\"777\"", written);
        let mut world = World::new("attributes = ['n']");
        assert_eq!(world.take_bytes(sent.as_bytes()), Ok(0), "{sent}");
        world.finish();
        let shown = world.requests();
        assert!(shown.len() == 1 && shown[0].tags == tags, "{written}: {shown:?}");
    }
    let mut sent = span(7, (1, 0), 2, (0, 10), json!({}));
    sent["status"] = json!({"code": 2});
    let whole = body(json!({}), json!([&sent])).to_string();
    for (member, float) in cases![
        "kind" => json!(2.0);
        "flags" => json!(257.0);
        "status" => json!({"code": 2.0});
        "startTimeUnixNano" => json!((NOW_NS - 1_000_000_000) as f64);
    ] {
        let mut floats = sent.clone();
        floats[member] = float;
        let floats = body(json!({}), json!([floats])).to_string();
        let [whole, floats] = [&whole, &floats].map(|it| decode(Form::Json, it.as_bytes()));
        assert_eq!(floats, whole, "{member}");
    }
    // One that its field cannot hold is none.
    for (member, float, refused) in cases![
        "kind" => json!(1e21), 0;
        "kind" => json!(0.5), 0;
        "flags" => json!(-1.0), 0;
        "endTimeUnixNano" => json!(1e21), 1;
        "endTimeUnixNano" => json!(0.5), 1;
    ] {
        let mut bad = sent.clone();
        bad[member] = float;
        let bad = body(json!({}), json!([bad])).to_string();
        let decoded = decode(Form::Json, bad.as_bytes());
        assert_eq!(decoded.map(|it| it.3), Ok(refused), "{bad}");
    }
}

#[test]
fn bad_json_is_described_with_its_place() {
    let problem = |body: &str| Form::Json.protobuf(body.as_bytes()).unwrap_err().1;
    assert_has!(problem("{\n \"resourceSpans\": 3}") => "a number, expected an object or a list of objects", "line 2 column");
    assert_has!(problem("{\"a\"") => "EOF", "line 1 column 4");
    assert_eq!(Form::Json.protobuf(b"{}").unwrap().len(), 0);
}

#[test]
fn what_is_no_body_is_refused_by_reason() {
    use Form::{Json as J, Protobuf as P};
    let deep = |open: &str, close: &str| {
        format!(r#"{{"x": {}1{}}}"#, open.repeat(2_000), close.repeat(2_000))
    };
    for (form, body, expected) in cases![
        P => "", Ok(0);
        P => "\u{1}", Err(BodyRefusal::BadProtobuf);
        J => "{}", Ok(0);
        J => "null", Ok(0);
        J => r#"{"resourceSpans": null, "x": 1}"#, Ok(0);
        J => "", Err(BodyRefusal::BadJson);
        J => "[]", Err(BodyRefusal::BadJson);
        J => "{} {}", Err(BodyRefusal::BadJson);
        J => r#"{"resourceSpans": 3}"#, Err(BodyRefusal::BadJson);
        J => r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"kind": "SPAN_KIND_SERVER"}]}]}]}"#,
            Err(BodyRefusal::BadJson);
        J => r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{}, null]}]}]}"#, Ok(1);
        J => &deep("[", "]"), Ok(0);
        J => &deep(r#"{"a":"#, "}"), Ok(0);
    ] {
        let received = decode(form, body.as_bytes()).map(|it| it.2);
        assert_eq!(received, expected, "{body:.80}");
    }
    // Deeply nested values are skipped by their length.
    let mut value = common::AnyValue::default();
    for _ in 0..40 {
        let values = vec![value];
        value = common::AnyValue { value: Some(AnyValue::ArrayValue(ArrayValue { values })) };
    }
    let mut span = some_span(&mut StdRng::seed_from_u64(1));
    span.attributes =
        vec![KeyValue { key: "tenant".to_owned(), value: Some(value), ..KeyValue::default() }];
    let mut request = Reference::default();
    request.resource_spans.push(trace::ResourceSpans {
        scope_spans: vec![trace::ScopeSpans { spans: vec![span], ..trace::ScopeSpans::default() }],
        ..trace::ResourceSpans::default()
    });
    assert_eq!(decode(P, &request.encode_to_vec()).unwrap().2, 1);
}

#[test]
fn what_is_too_much_is_counted() {
    let many: Vec<Json> = (0..SPAN_ATTRIBUTES_MAX + 5)
        .map(|at| json!({"key": format!("k{at}"), "value": {"intValue": at}}))
        .collect();
    let mut wide = span(1, (1, 0), 2, (0, 9), json!({}));
    wide["attributes"] = many.into();
    wide["events"] = (0..40).map(|_| json!({"name": "x"})).collect();
    let mut world = World::new("");
    world.take(json!({}), json!([wide]));
    assert_eq!(world.counters.attributes_over_limit.get(), 5);
    assert_eq!(world.counters.events_over_limit.get(), 8);
    // A list of many empty spans: 3 bytes each.
    let empty = vec![json!({}); BODY_SPANS_MAX + 3];
    let body = body(json!({}), empty.into()).to_string();
    assert_eq!(world.take_bytes(body.as_bytes()), Ok(BODY_SPANS_MAX as u64 + 3));
    assert_eq!(world.refused(SpanRefusal::TooMany), 3);
    assert_eq!(world.refused(SpanRefusal::TraceId), BODY_SPANS_MAX as u64);
}

#[test]
fn what_a_sampler_left_out_is_told_by_its_threshold() {
    for (state, sampled) in [
        ("ot=th:8", 1),
        ("vendor=x, ot=rv:6e6d1a75832a2f;th:8", 1),
        ("foot=th:1", 0),
        ("vendor=ot=th:1", 0),
        ("ot=rv:6e6d1a75832a2f", 0),
        ("", 0),
    ] {
        let mut sent = span(7, (1, 0), 2, (0, 10), json!({}));
        sent["traceState"] = json!(state);
        let mut world = World::new("");
        world.take(json!({}), json!([sent]));
        assert_eq!(world.counters.spans_sampled.get(), sampled, "{state}");
    }
}

#[test]
fn spans_that_the_daemon_pushed_itself_are_refused() {
    for (instance, scope, refused) in
        [("own", "pinbad", 1), ("other", "pinbad", 0), ("own", "x", 0)]
    {
        let sent = span(1, (1, 0), 2, (0, 9), json!({}));
        let mut sent = body(json!({"service.instance.id": instance}), json!([sent]));
        sent["resourceSpans"][0]["scopeSpans"][0]["scope"]["name"] = json!(scope);
        let sent = sent.to_string();
        let packed = super::super::json::as_protobuf(sent.as_bytes()).unwrap();
        for body in [sent.as_bytes(), &packed] {
            let mut world = World::new("");
            assert_eq!(world.take_bytes(body), Ok(refused), "{sent}");
            assert_eq!(world.refused(SpanRefusal::OwnSpan), refused);
            world.finish();
            assert_eq!(world.requests().len() as u64, 1 - refused);
        }
    }
}

#[test]
fn spans_are_refused_by_reason() {
    let good = || span(7, (1, 0), 2, (0, 10), json!({}));
    for (member, value, reason) in cases![
        "traceId" => json!("00"), SpanRefusal::TraceId;
        "traceId" => json!(format!("{:032x}", 0)), SpanRefusal::TraceId;
        "traceId" => json!("xyz"), SpanRefusal::TraceId;
        "traceId" => json!("ab".repeat(17)), SpanRefusal::TraceId;
        "spanId" => json!("0102"), SpanRefusal::SpanId;
        "spanId" => json!(null), SpanRefusal::SpanId;
        "parentSpanId" => json!("0"), SpanRefusal::ParentId;
        "parentSpanId" => json!(format!("{:016x}", 0)), SpanRefusal::ParentId;
        "startTimeUnixNano" => json!(0), SpanRefusal::Time;
        "startTimeUnixNano" => json!("-5"), SpanRefusal::Time;
        "endTimeUnixNano" => json!("9223372036854775808"), SpanRefusal::Time;
        "endTimeUnixNano" => json!(NOW_NS + 90_000_000_000_000), SpanRefusal::Time;
        "endTimeUnixNano" => json!(NOW_NS - 3_700_000_000_000), SpanRefusal::TooOld;
    ] {
        let mut world = World::new("");
        let mut bad = good();
        bad[member] = value;
        let body = body(json!({}), json!([bad, good()])).to_string();
        assert_eq!(world.take_bytes(body.as_bytes()), Ok(1), "{body}");
        assert_eq!(world.refused(reason), 1, "{body}");
        world.finish();
        assert_eq!(world.requests().len(), 1);
    }
}
