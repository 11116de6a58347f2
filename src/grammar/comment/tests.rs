//! COMMENTs of all kinds: their columns, in the order of the originals, and errors that point at
//! the part.

mod errors;

use std::time::Duration;

use super::*;
use crate::grammar::builtin;
use crate::report::definition::{
    Field, Filter, KeySource, Kind, Level, Missing, Occurrence, Pattern,
};
use crate::report::histogram::BucketLayout;
use crate::report::read::reading::Reading;
use crate::value::ColumnType;

fn read(comment: &str) -> Definition {
    match parse("t", comment, &Defaults::default()) {
        Ok(Comment::Report(definition)) => *definition,
        other => panic!("{comment}: {other:?}"),
    }
}

fn kind(definition: &Definition) -> (Kind, Level) {
    (definition.kind, definition.level)
}

fn linear(max_us: u64) -> BucketLayout {
    BucketLayout::Linear { max_us, size: 1024 }
}

fn names(definition: &Definition) -> String {
    let columns = definition.layout.columns().iter();
    columns.map(|column| column.column.name.as_str()).collect::<Vec<_>>().join(" ")
}

const SUMS: &str = "req_count req_per_sec req_time_total req_time_percent req_time_per_sec \
    ru_utime_total ru_utime_percent ru_utime_per_sec ru_stime_total ru_stime_percent ru_stime_per_sec \
    traffic_total traffic_percent traffic_per_sec";
const REST: &str = "memory_footprint_total memory_footprint_percent req_time_median index_value";

/// Built-in reports, report1 to report18, and their keys.
const BASE: [(&str, &str); 18] = cases![
    "report_by_script_name" => "script_name";
    "report_by_server_name" => "server_name";
    "report_by_hostname" => "hostname";
    "report_by_server_and_script" => "server_name script_name";
    "report_by_hostname_and_script" => "hostname script_name";
    "report_by_hostname_and_server" => "hostname server_name";
    "report_by_hostname_server_and_script" => "hostname server_name script_name";
    "report_by_status" => "status";
    "report_by_script_and_status" => "script_name status";
    "report_by_server_and_status" => "server_name status";
    "report_by_hostname_and_status" => "hostname status";
    "report_by_hostname_script_and_status" => "hostname script_name status";
    "report_by_schema" => "schema";
    "report_by_script_and_schema" => "script_name schema";
    "report_by_server_and_schema" => "server_name schema";
    "report_by_hostname_and_schema" => "hostname schema";
    "report_by_hostname_script_and_schema" => "hostname script_name schema";
    "report_by_hostname_status_and_schema" => "hostname status schema";
];

/// The other kinds, with their kind and keys in the grammar of pinba2.
const KINDS: [(&str, &str, &str); 16] = [
    ("info", "packet", "no_keys"),
    ("tag_info:a", "timer", "@a"),
    ("tag2_info:a,b", "timer", "@a,b"),
    ("tagN_info:a,b,c", "timer", "@a,@b,@c"),
    ("tag_report:a", "timer", "~script,@a"),
    ("tag2_report:a,b", "timer", "~script,@a,@b"),
    ("tagN_report:a,b", "timer", "~script,@a,@b"),
    ("tag_report2:a", "timer", "~script,~host,~server,@a"),
    ("tag2_report2:a,b", "timer", "~script,~host,~server,@a,@b"),
    ("tagN_report2:a,b", "timer", "~script,~host,~server,@a,@b"),
    ("rtag_info:a", "request", "+a"),
    ("rtag2_info:a,b", "request", "+a,+b"),
    ("rtagN_info:a,b", "request", "+a,+b"),
    ("rtag_report:a", "request", "~host,+a"),
    ("rtag2_report:a,b", "request", "~host,+a,+b"),
    ("rtagN_report:a,b", "request", "~host,+a,+b"),
];

#[test]
fn base_reports_have_pinbas_columns_in_pinbas_order() {
    let built_in: Vec<_> = builtin::comments().skip(1).collect();
    assert_eq!(built_in.len(), BASE.len());
    for (number, ((table, keys), built_in)) in (1..).zip(BASE.into_iter().zip(built_in)) {
        let comment = format!("report{number}");
        assert_eq!(built_in, (table, comment.as_str()));
        let definition = read(&comment);
        assert_eq!(names(&definition), format!("{SUMS} {keys} {REST}"), "{comment}");
        let fields: Vec<String> =
            definition.keys.iter().map(|key| key.source.to_string()).collect();
        assert_eq!(fields.join(" "), keys);
        assert!(definition.keys.iter().all(|key| key.missing == Missing::Empty));
        assert_eq!(kind(&definition), (Kind::Base, Level::Request));
        let with_percentiles = read(&format!("{comment}:::90,95,99.9"));
        assert_eq!(names(&with_percentiles), format!("{SUMS} {keys} {REST} p90 p95 p99_9"));
        assert_eq!(with_percentiles.percentiles, [90.0, 95.0, 99.9]);
    }
}

#[test]
fn info_has_its_columns_and_percentiles_follow() {
    let columns = "req_count time_total ru_utime_total ru_stime_total time_interval kbytes_total \
        memory_footprint req_time_median";
    assert_eq!(names(&read("info")), columns);
    let definition = read("info:::90,95");
    assert_eq!(names(&definition), format!("{columns} p90 p95"));
    assert_eq!(kind(&definition), (Kind::Base, Level::Packet));
}

#[test]
fn tag_reports_have_pinbas_columns_in_pinbas_order() {
    let head = "req_count req_per_sec hit_count hit_per_sec timer_value";
    let tail = "timer_median ru_utime_value ru_stime_value index_value p95";
    let two = "hostname server_name";
    for (comment, want) in cases![
        "tag_info:a::95" => format!("tag_value {head} {tail}");
        "tag2_info:a,b::95" => format!("tag1_value tag2_value {head} {tail}");
        "tagN_info:a::95" => format!("tag1_value {head} {tail}");
        "tagN_info:a,b,c::95" => format!("tag1_value tag2_value tag3_value {head} {tail}");
        "tag_report:a::95" => format!("script_name tag_value {head} {tail}");
        "tag2_report:a,b::95" => format!("script_name tag1_value tag2_value {head} {tail}");
        "tagN_report:a,b::95" => format!("script_name tag1_value tag2_value {head} {tail}");
        "tag_report2:a::95" => format!("script_name tag_value {head} {two} {tail}");
        "tag2_report2:a,b::95" => format!("script_name tag1_value tag2_value {head} {two} {tail}");
        "tagN_report2:a,b::95" => format!("script_name tag1_value tag2_value {head} {two} {tail}");
    ] {
        let definition = read(comment);
        assert_eq!(names(&definition), want, "{comment}");
        assert_eq!(kind(&definition), (Kind::Tag, Level::Timer));
    }
    for (comment, block) in [
        ("rtag_info:a::95", "tag_value"),
        ("rtag2_info:a,b::95", "tag1_value tag2_value"),
        ("rtagN_info:a,b,c::95", "tag1_value tag2_value tag3_value"),
        ("rtag_report:a::95", "hostname tag_value"),
        ("rtag2_report:a,b::95", "hostname tag1_value tag2_value"),
        ("rtagN_report:a::95", "hostname tag1_value"),
    ] {
        let definition = read(comment);
        assert_eq!(names(&definition), format!("{block} {SUMS} {REST} p95"), "{comment}");
        assert_eq!(kind(&definition), (Kind::RequestTag, Level::Request));
    }
}

#[test]
fn v2_reports_have_pinba2s_columns_in_pinba2s_order() {
    let request = "req_count req_per_sec req_percent req_time_total req_time_per_sec req_time_percent \
        ru_utime_total ru_utime_per_sec ru_utime_percent ru_stime_total ru_stime_per_sec ru_stime_percent \
        traffic_total traffic_per_sec traffic_percent memory_footprint memory_per_sec memory_percent";
    let timer = "req_count req_per_sec req_percent hit_count hit_per_sec hit_percent \
        time_total time_per_sec time_percent ru_utime_total ru_utime_per_sec ru_utime_percent \
        ru_stime_total ru_stime_per_sec ru_stime_percent";
    let packet =
        "req_count timer_count time_total ru_utime_total ru_stime_total traffic memory_footprint";
    for (comment, want) in cases![
        "v2/packet/60/no_keys/no_percentiles/no_filters" => packet.to_owned();
        "v2/info/60/no_keys/p95,hv=0:1000:100/no_filters" => format!("{packet} p95 histogram_data");
        "v2/request/60/~host,+env,~status/no_percentiles/no_filters" =>
            format!("host env status {request}");
        "v2/request/60/~script/percentiles=50:99.9,hv=0:1000:100,p100/no_filters" =>
            format!("script {request} p50 p99_9 p100 histogram_data");
        "v2/timer/60,5/~server,~schema,@group,plain,+env/no_percentiles/no_filters" =>
            format!("server schema group plain env {timer}");
        // Names in use.
        "v2/timer/60/~host,@host,+Host,@req_count,+hit_count,@time_percent/no_percentiles/no_filters" =>
            format!("host timer_host tag_Host timer_req_count tag_hit_count timer_time_percent {timer}");
        "v2/timer/60/@a,+a,+timer_a,@p50,@tag_a/hv=0:1000:100,p50/no_filters" =>
            format!("a tag_a timer_a timer_p50 timer_tag_a {timer} p50 histogram_data");
    ] {
        assert_eq!(names(&read(comment)), want, "{comment}");
    }
}

#[test]
fn types_follow_the_original_and_lengths_what_is_kept() {
    let base = read("report12:::90");
    let of = |definition: &Definition, name: &str| {
        let at = definition.layout.position(name).unwrap();
        definition.layout.columns()[at].column.column_type
    };
    assert_eq!(of(&base, "req_count"), ColumnType::Int);
    assert_eq!(of(&base, "req_per_sec"), ColumnType::Float);
    assert_eq!(of(&base, "script_name"), ColumnType::Varchar(512));
    assert_eq!(of(&base, "hostname"), ColumnType::Varchar(255));
    assert_eq!(of(&base, "status"), ColumnType::Int);
    assert_eq!(of(&base, "index_value"), ColumnType::Varchar(10 + 255 + 1 + 512));
    assert_eq!(of(&base, "p90"), ColumnType::Float);
    let tag = read("tagN_report2:a,__script_name");
    assert_eq!(of(&tag, "hit_count"), ColumnType::Int);
    assert_eq!(of(&tag, "tag1_value"), ColumnType::Varchar(255));
    assert_eq!(of(&tag, "tag2_value"), ColumnType::Varchar(512));
    let v2 = read("v2/request/60/~status/hv=0:1000:100,p50/no_filters");
    assert_eq!(of(&v2, "status"), ColumnType::Varchar(10));
    assert_eq!(of(&v2, "req_count"), ColumnType::BigInt);
    assert_eq!(of(&v2, "traffic_total"), ColumnType::BigInt);
    assert_eq!(of(&v2, "req_time_total"), ColumnType::Float);
    assert_eq!(of(&v2, "histogram_data"), ColumnType::Text);
    let packet = read("v2/packet/60/no_keys/no_percentiles/no_filters");
    assert_eq!(of(&packet, "time_total"), ColumnType::Double);
}

#[test]
fn histogram_views_exist_of_every_kind() {
    let of_kinds = KINDS.map(|(kind, v2, _)| match v2 {
        "packet" => (kind, Level::Packet),
        "timer" => (kind, Level::Timer),
        _ => (kind, Level::Request),
    });
    for (kind, level) in of_kinds.into_iter().chain([("report18", Level::Request)]) {
        let view = read(&format!("hv.{kind}"));
        assert_eq!(names(&view), "index_value segment time_value cnt percent", "{kind}");
        assert!(view.layout.is_histogram_view());
        assert_eq!(view.layout.segments(&Reading::default(), None).is_empty(), kind != "info");
        assert_eq!(view.buckets, linear(10_000_000));
        assert_eq!(view.level, level);
        let report = read(kind);
        assert_eq!((&view.keys, &view.filters), (&report.keys, &report.filters));
        assert_eq!(report.buckets, BucketLayout::LogLinear);
        assert!(!report.layout.is_histogram_view());
    }
    let view = read("hv.report1::histogram_max_time=2.9,min_time=1:50");
    assert_eq!(view.buckets, linear(2_000_000));
    assert!(view.percentiles.is_empty());
    let minute = read("report1::histogram_max_time=60");
    assert_eq!(minute.buckets, linear(60_000_000));
}

#[test]
fn v1_conditions_become_filters() {
    let tag = |name: &str, value: &str| {
        Filter::RequestTag(name.to_owned(), Pattern::Equals(value.to_owned()))
    };
    for (conditions, want) in cases![
        "" => vec![];
        "min_time=0,max_time=0.0" => vec![];
        "min_time=0.5" => vec![Filter::MinTime(500_000)];
        // Both bounds are inclusive.
        "max_time=0.1" => vec![Filter::TimeBelow(100_001)];
        "max_time=1.5,min_time=.25" => vec![Filter::MinTime(250_000), Filter::TimeBelow(1_500_001)];
        // Between two microseconds: the range contains the whole ones in it.
        "min_time=0.0000015,max_time=0.0000025" => vec![Filter::MinTime(2), Filter::TimeBelow(3)];
        "tag.env=prod,tag.dc=a=b" => vec![tag("env", "prod"), tag("dc", "a=b")];
        "tag.env=,min_time=2" => vec![Filter::MinTime(2_000_000), tag("env", "")];
    ] {
        assert_eq!(read(&format!("report1::{conditions}:50")).filters, want, "{conditions}");
    }
}

#[test]
fn v2_filters_exclude_the_upper_bound() {
    let is = |value: &str| Pattern::Equals(value.to_owned());
    let definition = read(
        "v2/timer/60/@a/no_percentiles/max_time=1,+env=a=b,~status=404,min_time=0.25,@group=db,~host=h",
    );
    assert_eq!(
        definition.filters,
        [
            Filter::MinTime(250_000),
            Filter::TimeBelow(1_000_000),
            Filter::RequestTag("env".to_owned(), is("a=b")),
            Filter::Field(Field::Status, is("404")),
            Filter::TimerTag("group".to_owned(), is("db")),
            Filter::Field(Field::Hostname, is("h")),
        ]
    );
    let off = read("v2/packet/60/no_keys/no_percentiles/min_time=0,max_time=0");
    assert_eq!(off.filters, []);
}

#[test]
fn repeated_tags_follow_pinba() {
    let occurrence = |comment: &str| read(comment).keys.last().map(|key| key.occurrence);
    assert_eq!(occurrence("tag_info:a"), Some(Occurrence::First));
    assert_eq!(occurrence("tag2_report:a,b"), Some(Occurrence::Last));
    assert_eq!(occurrence("tagN_info:a,b"), Some(Occurrence::First));
    assert_eq!(occurrence("rtag2_info:a,b"), Some(Occurrence::First));
    assert_eq!(occurrence("v2/timer/60/@a/no_percentiles/no_filters"), Some(Occurrence::First));
}

#[test]
fn fields_stand_in_for_the_tags_of_their_names() {
    let definition = read("tagN_info:group,server,__server_name,__hostname::90,95,99");
    let sources: Vec<&KeySource> = definition.keys.iter().map(|key| &key.source).collect();
    assert_eq!(sources[0], &KeySource::TimerTag("group".to_owned()));
    assert_eq!(
        sources[2..],
        [
            &KeySource::TimerTagOrField("__server_name".to_owned(), Field::ServerName),
            &KeySource::TimerTagOrField("__hostname".to_owned(), Field::Hostname),
        ]
    );
    assert_eq!(definition.keys[0].missing, Missing::Skip);
    assert_eq!(definition.keys[2].missing, Missing::Empty);
    for (name, field) in [
        ("__script_name", Field::ScriptName),
        ("__schema", Field::Schema),
        ("__status", Field::Status),
    ] {
        let definition = read(&format!("tag_info:{name}"));
        assert_eq!(definition.keys[0].source, KeySource::TimerTagOrField(name.to_owned(), field));
    }
    // Request tags are request tags, and other names with bars are names.
    assert_eq!(
        read("rtag_info:__hostname").keys[0].source,
        KeySource::RequestTag("__hostname".to_owned())
    );
    assert_eq!(read("tag_info:__host").keys[0].source, KeySource::TimerTag("__host".to_owned()));
}

#[test]
fn v1_kinds_have_the_keys_of_their_v2_counterparts() {
    let sources = |comment: &str| {
        let keys = read(comment).keys.into_iter();
        let mut keys: Vec<String> = keys.map(|key| key.source.to_string()).collect();
        keys.sort();
        keys
    };
    let mut pairs = KINDS.map(|(v1, kind, keys)| (v1.to_owned(), kind, keys.to_owned())).to_vec();
    for (number, (_, keys)) in (1..).zip(BASE) {
        let keys = keys
            .split(' ')
            .map(|key| format!("~{}", key.trim_end_matches("_name").trim_end_matches("name")));
        let keys: Vec<_> = keys.collect();
        pairs.push((format!("report{number}"), "request", keys.join(",")));
    }
    for (v1, kind, keys) in pairs {
        let v2 = format!("v2/{kind}/60/{keys}/no_percentiles/no_filters");
        assert_eq!(sources(&v1), sources(&v2), "{v1} and {v2}");
        assert_eq!(read(&v1).level, read(&v2).level);
    }
}

#[test]
fn v2_windows_and_missing_keys() {
    let window = |text: &str| read(&format!("v2/timer/{text}/@a/no_percentiles/no_filters")).window;
    assert_eq!(window("default_history_time"), Duration::from_secs(900));
    assert_eq!(window("60"), Duration::from_secs(60));
    assert_eq!(window("86400,3600"), Duration::from_secs(86_400));
    let missing = |comment: &str| -> Vec<Missing> {
        read(comment).keys.iter().map(|key| key.missing).collect()
    };
    assert_eq!(
        missing("v2/timer/60/~host,+a,@b/no_percentiles/no_filters"),
        [Missing::Skip, Missing::SkipEmpty, Missing::SkipEmpty]
    );
    assert_eq!(
        missing("v2/request/60/~schema,+a/no_percentiles/no_filters"),
        [Missing::Empty, Missing::SkipEmpty]
    );
    let definition = read("v2/request/60/~host/p99,hv=0:60000:32768,percentiles=50:75/no_filters");
    assert_eq!(definition.percentiles, [99.0, 50.0, 75.0]);
    assert_eq!(definition.buckets, BucketLayout::v2(0, 60_000, 32_768).unwrap());
}

#[test]
fn fixed_tables_are_known_by_their_comments() {
    let fixed = |comment: &str| match parse("t", comment, &Defaults::default()) {
        Ok(Comment::Fixed(table)) => table,
        other => panic!("{comment}: {other:?}"),
    };
    for table in FixedTable::PINBA {
        assert_eq!(fixed(table.comment()), table);
    }
    assert_eq!(fixed("active"), FixedTable::ActiveReports);
    assert_eq!(fixed("active_reports"), FixedTable::ActiveReports);
    let count = |table: FixedTable| table.columns(&Defaults::default()).len();
    assert_eq!(FixedTable::PINBA.map(count), [17, 4, 3, 2, 8, 9, 37, 29]);
}
