//! The native form in TOML and JSON; every COMMENT as a form and back; errors that name the part.

use super::*;
use crate::grammar::builtin;
use crate::report::definition::v1_kinds::{KINDS, Tags};
use crate::report::definition::{Field, KeySource, Missing, Occurrence, Pattern};

fn json(text: &str) -> ReportForm {
    serde_json::from_str(text).unwrap()
}

fn define(text: &str) -> Result<Definition, FormError> {
    json(text).definition(&Defaults::default())
}

fn refused(text: &str) -> String {
    match serde_json::from_str::<ReportForm>(text) {
        Err(error) => error.to_string(),
        Ok(form) => match form.definition(&Defaults::default()) {
            Err(error) => error.to_string(),
            Ok(read) => panic!("{text}: {read:?}"),
        },
    }
}

#[test]
fn a_member_that_is_wrong_is_named() {
    for (members, want) in cases![
        r#"{"level": "row"}"# =>
            "level: \"row\" is unknown; accepted: packet, request, timer, sample";
        r#"{"level": "requests"}"# =>
            "level: \"requests\" is unknown; did you mean \"request\"? accepted: packet, ";
        r#"{"level": "timer", "keys": [{"key": "+a", "miss": "skip"}]}"# =>
            "keys: \"miss\" is unknown; did you mean \"missing\"? accepted: key, ";
        r#"{"level": "timer", "windw": "1m"}"# =>
            "windw: is unknown; did you mean \"window\"? accepted: comment, ";
        r#"{"level": "timer", "history": 1}"# =>
            "history: invalid type: integer `1`, expected a boolean; accepted: true or false";
        r#"{"level": 7}"# => "level: not a text; accepted: packet, request, timer, sample";
    ] {
        let members = serde_json::from_str(members).unwrap();
        let error = ReportForm::from_members("n", members).unwrap_err();
        assert!(error.to_string().starts_with(want), "{error}");
    }
}

/// Also with a COMMENT; shown only if it was given.
#[test]
fn a_report_says_whether_its_past_is_kept() {
    for what in [r#""level": "packet""#, r#""comment": "report1""#] {
        for (said, kept) in [
            ("", None),
            (r#", "history": true"#, Some(true)),
            (r#", "history": false"#, Some(false)),
        ] {
            let definition = define(&format!(r#"{{"name": "x", {what}{said}}}"#)).unwrap();
            assert_eq!(definition.history, kept);
            let shown = serde_json::to_value(ReportForm::from(&definition)).unwrap();
            let shown = shown.get("history").map(|it| it.as_bool().unwrap());
            assert_eq!(shown, kept, "{what}{said}");
        }
    }
}

#[test]
fn toml_and_json_say_the_same() {
    let from_toml: ReportForm = toml::from_str(
        r#"
        name = "slow"
        level = "timer"
        keys = ["script_name", "+env", { key = "@group", missing = "empty" }, { key = "@g2", occurrence = "last" }]
        filters = ["min_time=0.5", "max_time<10", "server_name!=test", "+env=prod", "@server=db*"]
        percentiles = [50, 99.9]
        window = "10m"
        "#,
    )
    .unwrap();
    let from_json = json(
        r#"{"name": "slow", "level": "timer",
            "keys": ["script_name", "+env", {"key": "@group", "missing": "empty"},
                     {"key": "@g2", "occurrence": "last"}],
            "filters": ["min_time=0.5", "max_time<10", "server_name!=test", "+env=prod", "@server=db*"],
            "percentiles": [50, 99.9], "window": "10m"}"#,
    );
    assert_eq!(from_toml, from_json);
    let definition = from_json.definition(&Defaults::default()).unwrap();
    assert_eq!((definition.kind, definition.level), (Kind::Native, Level::Timer));
    assert_eq!(definition.window, Duration::from_secs(600));
    assert_eq!(definition.percentiles, [50.0, 99.9]);
    let (field, tag) = (KeySource::Field, KeySource::TimerTag);
    let keys = cases![
        field(Field::ScriptName) => Missing::Empty, Occurrence::First;
        KeySource::RequestTag("env".to_owned()) => Missing::Skip, Occurrence::First;
        tag("group".to_owned()) => Missing::Empty, Occurrence::First;
        tag("g2".to_owned()) => Missing::Skip, Occurrence::Last;
    ];
    let keys = keys.map(|(source, missing, occurrence)| Key { source, occurrence, missing });
    assert_eq!(definition.keys, keys);
    assert_eq!(
        definition.filters,
        [
            Filter::MinTime(500_000),
            Filter::TimeBelow(10_000_000),
            Filter::Field(Field::ServerName, Pattern::Differs("test".to_owned())),
            Filter::RequestTag("env".to_owned(), Pattern::Equals("prod".to_owned())),
            Filter::TimerTag("server".to_owned(), Pattern::StartsWith("db".to_owned())),
        ]
    );
    // And written as it was read.
    let out = serde_json::to_string(&ReportForm::from(&definition)).unwrap();
    assert_eq!(
        out,
        r#"{"name":"slow","level":"timer","keys":["script_name","+env",{"key":"@group","missing":"empty"},{"key":"@g2","occurrence":"last"}],"filters":["min_time=0.5","max_time<10","server_name!=test","+env=prod","@server=db*"],"percentiles":[50,99.9],"window":"10m"}"#
    );
}

#[test]
fn tables_say_what_texts_cannot() {
    let filter = |text: &str| {
        let form = format!(
            r#"{{"name": "n", "level": "timer", "keys": ["status"], "filters": [{text}]}}"#
        );
        define(&form).map(|definition| definition.filters[0].clone())
    };
    let is = |value: &str| Pattern::Equals(value.to_owned());
    for (text, want) in cases![
        r#"{"min_time": 0.1}"# => Filter::MinTime(100_000);
        r#"{"min_time": 0.1, "exclusive": true}"# => Filter::MinTime(100_001);
        r#"{"max_time": 1}"# => Filter::TimeBelow(1_000_001);
        r#"{"max_time": 1, "exclusive": true}"# => Filter::TimeBelow(1_000_000);
        r#"{"key": "+a=b", "equals": "x*"}"# => Filter::RequestTag("a=b".to_owned(), is("x*"));
        r#"{"key": "@a", "differs": "x*"}"# =>
            Filter::TimerTag("a".to_owned(), Pattern::Differs("x*".to_owned()));
        r#"{"key": "script_name", "starts_with": "/api"}"# =>
            Filter::Field(Field::ScriptName, Pattern::StartsWith("/api".to_owned()));
        r#""min_time>=0.1""# => Filter::MinTime(100_000);
        r#""min_time>0.1""# => Filter::MinTime(100_001);
        r#""max_time<=1""# => Filter::TimeBelow(1_000_001);
        r#""max_time=1""# => Filter::TimeBelow(1_000_001);
        r#""max_time<1""# => Filter::TimeBelow(1_000_000);
        r#""status=404""# => Filter::Field(Field::Status, is("404"));
        r#""status=5*""# => Filter::Field(Field::Status, Pattern::StartsWith("5".to_owned()));
        r#""schema=""# => Filter::Field(Field::Schema, is(""));
        r#""@__hostname=h""# => Filter::TimerTag("__hostname".to_owned(), is("h"));
        r#""hostname=a=b""# => Filter::Field(Field::Hostname, is("a=b"));
        r#""+env = prod""# => Filter::RequestTag("env".to_owned(), is("prod"));
        r#"" @a != b c ""# =>
            Filter::TimerTag("a".to_owned(), Pattern::Differs("b c".to_owned()));
        r#""min_time >= 0.1 ""# => Filter::MinTime(100_000);
        r#"{"key": "+a ", "equals": " b"}"# => Filter::RequestTag("a ".to_owned(), is(" b"));
    ] {
        assert_eq!(filter(text), Ok(want), "{text}");
    }
}

/// A form of a definition contains everything that the engine uses.
fn assert_round_trip(definition: &Definition) {
    let text = serde_json::to_string(&ReportForm::from(definition)).unwrap();
    let again = define(&text).unwrap();
    assert_eq!(again.level, definition.level, "{text}");
    assert_eq!(again.keys, definition.keys, "{text}");
    assert_eq!(again.filters, definition.filters, "{text}");
    assert_eq!(again.percentiles, definition.percentiles, "{text}");
    assert_eq!(again.window, definition.window, "{text}");
    assert_eq!(again.buckets, definition.buckets, "{text}");
}

#[test]
fn every_comment_is_a_form() {
    let mut comments: Vec<String> =
        builtin::comments().map(|(_, comment)| comment.to_owned()).collect();
    for kind in KINDS.iter().filter(|kind| kind.tags != Tags::None) {
        let tags = ["", "a", "a,b", "a,b,__hostname"][kind.tags as usize];
        comments.push(format!("{}:{tags}", kind.name));
    }
    for base in comments.clone() {
        let open = match base.contains(':') {
            true => base.clone(),
            false => format!("{base}:"),
        };
        comments
            .push(format!("{open}:min_time=0.5,max_time=1.000001,tag.env=prod*,tag.a=b!:50,99.9"));
        comments.push(format!("{open}:histogram_max_time=60:50"));
    }
    comments.extend(
        [
            "v2/packet/default_history_time/no_keys/no_percentiles/no_filters",
            "v2/request/60,1/~host,+env,~schema/hv=0:60000:32768,p95,p99.9/min_time=0.1,max_time=1.5",
            "v2/timer/86400/~script,@a,b,+c/percentiles=1:50,hv=100:1100:100/~status=200,+a=b,@c=d*",
            // Nothing is in between, and pinba2 accepts it; only a reversed range is an error.
            "v2/request/60/~host/no_percentiles/min_time=2,max_time=2",
            "v2/request/60/~host/no_percentiles/min_time=1.9999999,max_time=2",
            "report1::min_time=0.0000015,max_time=0.0000019",
        ]
        .map(str::to_owned),
    );
    assert!(comments.len() > 100);
    for comment in comments {
        let form = ReportForm::of_comment("t", &comment);
        assert_round_trip(&form.definition(&Defaults::default()).unwrap());
    }
}

#[test]
fn native_reports_survive_as_a_comment() {
    let definition = define(
        r#"{"name": "n", "level": "request", "keys": ["script_name", {"key": "+it's", "missing": "skip_empty"}],
            "filters": [{"key": "+a=b", "equals": "c*"}, {"key": "+a", "equals": " b"}, "status=5*"],
            "percentiles": [99.9], "window": 90, "histogram": "linear=5:500"}"#,
    )
    .unwrap();
    assert_round_trip(&definition);
    let mut form = serde_json::to_value(ReportForm::from(&definition)).unwrap();
    form.as_object_mut().unwrap().shift_remove("name");
    let again = read_comment("n", &form.to_string(), &Defaults::default()).unwrap();
    assert_eq!(again, Comment::Report(Box::new(definition)));
}

#[test]
fn windows_and_layouts_are_read() {
    let window =
        |text: &str| define(&format!(r#"{{"name": "n", "level": "packet", "window": {text}}}"#));
    for (text, secs, shown) in [
        (r#""60s""#, 60.0, "1m"),
        (r#""90s""#, 90.0, "90s"),
        (r#""2.5s""#, 2.5, "2.5s"),
        (r#""24h""#, 86_400.0, "1d"),
        (r#""1.5h""#, 5400.0, "90m"),
        (r#""7 d""#, 604_800.0, "7d"),
        ("300", 300.0, "5m"),
    ] {
        let definition = window(text).unwrap();
        assert_eq!(definition.window.as_secs_f64(), secs, "{text}");
        let window = ReportForm::from(&definition).window;
        assert_eq!(serde_json::to_value(window).unwrap(), shown);
    }
    for text in r#""" "s" "0" "10ms" "367d" -5 0.5 "1e3s""#.split(' ') {
        let error = window(text).unwrap_err().to_string();
        assert!(error.starts_with("window: "), "{text}: {error}");
        assert_has!(error => "15m"; "{text}");
    }
    let buckets = |text: &str| {
        define(&format!(r#"{{"name": "n", "level": "packet", "histogram": "{text}"}}"#))
            .map(|definition| definition.buckets)
    };
    for (text, layout) in cases![
        "log-linear" => BucketLayout::LogLinear;
        "linear=10" => BucketLayout::linear(10, 1024).unwrap();
        "linear=10:64" => BucketLayout::linear(10, 64).unwrap();
        "hv=0:100:50" => BucketLayout::v2(0, 100, 50).unwrap();
    ] {
        assert_eq!(buckets(text), Ok(layout), "{text}");
    }
    for text in "linear linear=x linear=0 linear=10:0 hv=1 exact".split(' ') {
        let error = buckets(text).unwrap_err().to_string();
        assert!(error.starts_with("histogram: "), "{text}: {error}");
    }
}

#[test]
fn errors_name_the_part() {
    let nineteen = (1..=19).map(|tag| format!("\"+t{tag}\"")).collect::<Vec<_>>().join(",");
    let nineteen = format!(r#"{{"name": "n", "level": "request", "keys": [{nineteen}]}}"#);
    for (form, want) in cases![
        r#"{"name": "n"}"# => "give either comment, or level";
        r#"{"name": "n", "level": "packet", "filters": ["min_tim=1"]}"# =>
            "'min_tim' is neither a field nor a tag; did you mean \"min_time\"? accepted: min_time, max_time, hostname, ";
        r#"{"name": "n", "comment": "report1", "window": "60s"}"# =>
            "cannot be given together with window";
        r#"{"name": "n", "comment": "report19"}"# => "position 1, 'report19': no such kind";
        r#"{"name": "n", "comment": "request"}"# => "always there";
        r#"{"name": "n", "commment": "report1"}"# =>
            "unknown field `commment`, expected one of `name`";
        r#"{"name": "", "comment": "report1"}"# => "name ''";
        r#"{"name": "a/b", "comment": "report1"}"# => "name 'a/b'";
        r#"{"name": ".a", "comment": "report1"}"# => "name '.a'";
        r#"{"name": "n", "level": "row"}"# => "unknown variant `row`, expected one of `packet`";
        r#"{"name": "n", "level": "packet", "keys": ["status"]}"# =>
            "keys: a report of level packet";
        r#"{"name": "n", "level": "timer"}"# => "keys: there must be 1 to 18 keys, not 0";
        nineteen.as_str() => "keys: there must be 1 to 18 keys, not 19";
        r#"{"name": "n", "level": "packet", "filters": ["min_time>2", "max_time<2"]}"# =>
            "filters: min_time is greater than max_time";
        r#"{"name": "n", "level": "request", "keys": ["status", "host"]}"# =>
            "keys[1]: 'host' is neither a field nor a tag; did you mean \"hostname\"? accepted: hostname, ";
        r#"{"name": "n", "level": "request", "keys": ["@a"]}"# =>
            "keys[0]: '@a': timer tags are for";
        r#"{"name": "n", "level": "request", "keys": ["+"]}"# => "keys[0]: '+': the tag's name";
        r#"{"name": "n", "level": "request", "keys": ["+a", {"key": "+a"}]}"# =>
            "keys[1]: the key '+a' is given twice";
        r#"{"name": "n", "level": "request", "keys": [{"key": "+a", "missing": "drop"}]}"# =>
            "expected one of `skip`";
        r#"{"name": "n", "level": "request", "keys": [{"key": "+a", "miss": "skip"}]}"# =>
            "unknown field `miss`";
        r#"{"name": "n", "level": "request", "keys": [5]}"# => "expected a key (hostname";
        r#"{"name": "n", "level": "request", "filters": [{"min_time": "x"}]}"# =>
            "expected seconds as a number, such as 0.5";
        r#"{"name": "n", "level": "request", "filters": [{"max_time": true}]}"# =>
            "expected seconds as a number, such as 0.5";
        r#"{"name": "n", "level": "packet", "percentiles": [50, 0]}"# =>
            "percentiles[1]: a percentile must be";
        r#"{"name": "n", "level": "packet", "percentiles": [101]}"# =>
            "percentiles[0]: a percentile must be";
        r#"{"name": "n", "level": "packet", "percentiles": [50, 50.0]}"# =>
            "percentiles[1]: the percentile 50 is given twice";
        r#"{"name": "n", "level": "packet", "percentiles": ["50"]}"# => "a number greater than 0";
        r#"{"name": "n", "level": "packet", "filters": ["time>1"]}"# =>
            "filters[0]: 'time>1': a filter is";
        r#"{"name": "n", "level": "packet", "filters": ["min_time<1"]}"# =>
            "min_time takes =, >= or >";
        r#"{"name": "n", "level": "packet", "filters": ["max_time=x"]}"# =>
            "filters[0]: 'x': must be seconds";
        r#"{"name": "n", "level": "packet", "filters": ["+a!=x*"]}"# => "takes a whole text";
        r#"{"name": "n", "level": "packet", "filters": ["@a=x"]}"# => "level timer only";
        r#"{"name": "n", "level": "packet", "filters": ["status=abc"]}"# =>
            "a status is a whole number";
        r#"{"name": "n", "level": "packet", "filters": ["min_time=2", "max_time=1"]}"# =>
            "filters: min_time is greater than max_time";
        r#"{"name": "n", "level": "packet", "filters": [{"min_time": 1, "equals": "x"}]}"# =>
            "a filter table has";
        r#"{"name": "n", "level": "packet", "filters": [{"key": "+a"}]}"# => "a filter table has";
        r#"{"name": "n", "level": "packet", "filters": [{"key": "+a", "equals": "x", "differs": "y"}]}"# =>
            "a filter table has";
        r#"{"name": "n", "comment": "{\"level\": \"packet\", \"x\": 1}"}"# =>
            "x: is unknown; accepted: comment, level";
    ] {
        let error = refused(form);
        assert!(error.contains(want), "{form}: {error}");
    }
}
