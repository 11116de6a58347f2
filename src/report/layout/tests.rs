//! Values of every kind of column, computed by hand for one or two rows and compared as shown.

use super::*;
use crate::grammar::comment::{self, Comment};
use crate::grammar::native::ReportForm;
use crate::report::definition::{Columns, Defaults, Definition};
use crate::report::histogram::BUCKET_MAX;
use crate::report::totals::{Extremes, Totals};

fn read(comment: &str) -> Definition {
    match comment::parse("t", comment, &Defaults::default()) {
        Ok(Comment::Report(definition)) => *definition,
        other => panic!("{comment}: {other:?}"),
    }
}

/// A key of a hand-made reading.
enum Given {
    Text(&'static str),
    Status(u32),
    Other,
}
use Given::{Other, Status, Text};

fn reading(rows: &[(&[Given], Totals)]) -> Reading {
    let mut reading = Reading { window_secs: 60.0, covered_secs: 10, ..Reading::default() };
    for (keys, totals) in rows {
        reading.keys = keys.len();
        for key in *keys {
            let cell = match key {
                Text(text) => reading.cell(text),
                Status(status) => reading.cell(&status.to_string()),
                Other => None,
            };
            reading.key_cells.push(cell);
        }
        reading.grand += totals;
        reading.totals.push(*totals);
    }
    reading
}

const TOTALS: Totals = Totals {
    time: 2_500_000,
    ru_utime: 100_000,
    ru_stime: 50_001,
    traffic: 5120,
    memory: 4096,
    hits: 30,
    requests: 20,
    errors: 2,
    unmeasured: 5,
};

/// Another row, so that shares are not 100 %.
const MORE: Totals = Totals {
    time: 7_500_000,
    ru_utime: 300_000,
    ru_stime: 0,
    traffic: 0,
    memory: 4096,
    hits: 70,
    requests: 60,
    errors: 0,
    unmeasured: 0,
};

/// All values of a row as `name=value`, in column order.
fn row(definition: &Definition, reading: &Reading, row: usize) -> Vec<String> {
    let columns = definition.layout.columns().iter().enumerate();
    columns
        .map(|(at, column)| {
            let value = match definition.layout.value(reading, row, at) {
                Value::Null => "NULL".to_owned(),
                Value::Int(value) => value.to_string(),
                Value::Micros(us) => format!("{us}us"),
                Value::Float(value) => format!("{value}f"),
                Value::Text(text) => format!("'{text}'"),
            };
            format!("{}={value}", column.column.name)
        })
        .collect()
}

#[test]
fn index_values_are_pinbas() {
    const H: Given = Text("host");
    const SRV: Given = Text("srv");
    const SCR: Given = Text("/s.php");
    const SCH: Given = Text("https");
    const ST: Given = Status(200);
    const A: Given = Text("a1");
    const B: Given = Text("b2");
    const C: Given = Text("c3");
    let cases: [(&str, &[Given], &str); 36] = cases![
        "report1" => &[SCR], "/s.php";
        "report2" => &[SRV], "srv";
        "report3" => &[H], "host";
        "report4" => &[SRV, SCR], "srv//s.php";
        "report5" => &[H, SCR], "host//s.php";
        "report6" => &[H, SRV], "host/srv";
        "report7" => &[H, SRV, SCR], "host:srv//s.php";
        "report8" => &[ST], "200";
        "report9" => &[SCR, ST], "200:/s.php";
        "report10" => &[SRV, ST], "200srv";
        "report11" => &[H, ST], "200host";
        "report12" => &[H, SCR, ST], "200host//s.php";
        "report13" => &[SCH], "https";
        "report14" => &[SCR, SCH], "https:/s.php";
        "report15" => &[SRV, SCH], "https:srv";
        "report16" => &[H, SCH], "https:host";
        "report17" => &[H, SCR, SCH], "https/host//s.php";
        "report18" => &[H, ST, SCH], "200:https/host";
        "tag_info:a" => &[A], "a1";
        "tag2_info:a,b" => &[A, B], "a1|b2";
        "tagN_info:a" => &[A], "a1|";
        "tagN_info:a,b,c" => &[A, B, C], "a1|b2|c3|";
        "tag_report:a" => &[SCR, A], "/s.php|a1";
        "tag2_report:a,b" => &[SCR, A, B], "/s.php|a1|b2";
        "tagN_report:a,b" => &[SCR, A, B], "/s.php|a1|b2|";
        "tag_report2:a" => &[SCR, A, H, SRV], "/s.php|host|srv|a1";
        "tag2_report2:a,b" => &[SCR, A, B, H, SRV], "/s.php|host|srv|a1|b2";
        "tagN_report2:a,b" => &[SCR, A, B, H, SRV], "/s.php|host|srv|a1|b2|";
        "rtag_info:a" => &[A], "a1";
        "rtag2_info:a,b" => &[A, B], "a1|b2";
        "rtagN_info:a,b" => &[A, B], "a1|b2|";
        "rtag_report:a" => &[H, A], "a1";
        "rtag2_report:a,b" => &[H, A, B], "a1|b2";
        "rtagN_report:a,b" => &[H, A, B], "a1|b2|";
        "report12" => &[Other, Other, Other], "(other)(other)/(other)";
        "tag2_info:a,b" => &[Text("é|"), Other], "é||(other)";
    ];
    for (comment, keys, want) in cases {
        let definition = read(comment);
        assert_eq!(definition.keys.len(), keys.len(), "{comment}");
        let reading = reading(&[(keys, TOTALS)]);
        let at = definition.layout.position("index_value").unwrap();
        let value = definition.layout.value(&reading, 0, at);
        assert_eq!(value, Value::Text(want.into()), "{comment}");
        // The view of the same report finds the row by that text.
        let view = read(&format!("hv.{comment}"));
        assert!(!view.layout.segments(&reading, Some(want)).is_empty(), "hv.{comment}");
        assert!(view.layout.segments(&reading, Some("no such row")).is_empty());
        assert!(view.layout.segments(&reading, None).is_empty());
    }
}

#[test]
fn base_rows_are_computed_as_pinba_documents_them() {
    let definition = read("report9:::90,99.9");
    let mut reading =
        reading(&[(&[Text("/a"), Status(200)], TOTALS), (&[Text("/b"), Status(500)], MORE)]);
    reading.ranks = 3;
    reading.quantiles = vec![0.125, 0.5, 0.75, f64::NAN, f64::NAN, f64::NAN];
    assert_eq!(
        row(&definition, &reading, 0).join(" "),
        "req_count=20 req_per_sec=2f req_time_total=2500000us req_time_percent=25f \
         req_time_per_sec=0.25f ru_utime_total=100000us ru_utime_percent=25f \
         ru_utime_per_sec=0.01f ru_stime_total=50001us ru_stime_percent=100f \
         ru_stime_per_sec=0.0050001f traffic_total=5f traffic_percent=100f traffic_per_sec=0.5f \
         script_name='/a' status=200 memory_footprint_total=4f memory_footprint_percent=50f \
         req_time_median=0.125f index_value='200:/a' p90=0.5f p99_9=0.75f"
    );
    // A histogram without memory has no quantiles.
    assert_eq!(row(&definition, &reading, 1)[18], "req_time_median=NULL");
    assert_eq!(row(&definition, &reading, 1)[21], "p99_9=NULL");
}

#[test]
fn info_and_rows_of_nothing() {
    let definition = read("info");
    let empty: &[Given] = &[];
    let mut one = reading(&[(empty, TOTALS)]);
    one.ranks = 1;
    one.quantiles = vec![0.05];
    assert_eq!(
        row(&definition, &one, 0).join(" "),
        "req_count=20 time_total=2500000us ru_utime_total=100000us ru_stime_total=50001us \
         time_interval=10 kbytes_total=5f memory_footprint=4f req_time_median=0.05f"
    );
    // Native columns beside Pinba's are KiB too, and then no whole numbers.
    let more = definition.read_as(&Columns::Extended(vec![95.0]), &Defaults::default());
    let layout = more.unwrap().layout;
    let added = &layout.columns()[layout.position("traffic_total").unwrap()].column;
    assert_eq!((added.column_type, added.unit), (ColumnType::Double, Unit::Kib));
    // Shares of nothing: 0 in v1, NULL in v2.
    let none = reading(&[(&[Text("")], Totals { requests: 1, ..Totals::ZERO })]);
    let v1 = row(&read("report1"), &none, 0);
    assert!(v1.contains(&"req_time_percent=0f".to_owned()), "{v1:?}");
    let v2 = read("v2/request/60/~script/no_percentiles/no_filters");
    let v2 = row(&v2, &none, 0);
    assert!(v2.contains(&"req_time_percent=NULL".to_owned()), "{v2:?}");
    assert!(v2.contains(&"req_percent=100f".to_owned()), "{v2:?}");
}

#[test]
fn timer_rows_and_the_row_of_the_others() {
    let definition = read("tag_report2:a");
    let mut reading = reading(&[
        (&[Text("/a"), Text("x"), Text("h"), Text("s")], TOTALS),
        (&[Other, Other, Other, Other], MORE),
    ]);
    reading.ranks = 1;
    reading.quantiles = vec![0.1, 0.2];
    assert_eq!(
        row(&definition, &reading, 0).join(" "),
        "script_name='/a' tag_value='x' req_count=20 req_per_sec=2f hit_count=30 hit_per_sec=3f \
         timer_value=2500000us hostname='h' server_name='s' timer_median=0.1f \
         ru_utime_value=100000us ru_stime_value=50001us index_value='/a|h|s|x'"
    );
    let other = row(&definition, &reading, 1);
    assert_eq!(other[0], "script_name='(other)'");
    assert_eq!(other[12], "index_value='(other)|(other)|(other)|(other)'");
    // Numbers have no text for it.
    let by_status = read("report8");
    let reading = self::reading(&[(&[Other], TOTALS)]);
    assert!(row(&by_status, &reading, 0).contains(&"status=NULL".to_owned()));
    let by_status = read("v2/request/60/~status/no_percentiles/no_filters");
    assert_eq!(row(&by_status, &reading, 0)[0], "status='(other)'");
}

#[test]
fn v2_rows_divide_by_the_window_and_count_bytes() {
    let definition = read("v2/request/60/~status,+env/hv=0:100:100,p50/no_filters");
    let mut reading =
        reading(&[(&[Status(200), Text("prod")], TOTALS), (&[Status(404), Text("test")], MORE)]);
    reading.ranks = 2;
    reading.quantiles = vec![0.1, 0.15, 0.2, 0.25];
    reading.histograms = vec![vec![(0, 2), (7, 17), (BUCKET_MAX, 1)], vec![]];
    assert_eq!(
        row(&definition, &reading, 0).join(" "),
        "status='200' env='prod' req_count=20 req_per_sec=0.3333333333333333f req_percent=25f \
         req_time_total=2500000us req_time_per_sec=0.041666666666666664f req_time_percent=25f \
         ru_utime_total=100000us ru_utime_per_sec=0.0016666666666666668f ru_utime_percent=25f \
         ru_stime_total=50001us ru_stime_per_sec=0.00083335f ru_stime_percent=100f \
         traffic_total=5120 traffic_per_sec=85.33333333333333f traffic_percent=100f \
         memory_footprint=4096 memory_per_sec=68.26666666666667f memory_percent=50f p50=0.15f \
         histogram_data='hv=0:100:100;values=[7:17, min:2, max:1]'"
    );
    assert_eq!(row(&definition, &reading, 1)[21], "histogram_data=NULL");
    let packet = read("v2/packet/60/no_keys/hv=0:100:100,p50/no_filters");
    let empty: &[Given] = &[];
    let mut one = self::reading(&[(empty, TOTALS)]);
    one.ranks = 2;
    one.quantiles = vec![0.1, 0.15];
    one.histograms = vec![vec![(7, 20)]];
    assert_eq!(
        row(&packet, &one, 0).join(" "),
        "req_count=20 timer_count=30 time_total=2500000us ru_utime_total=100000us \
         ru_stime_total=50001us traffic=5120 memory_footprint=4096 p50=0.15f \
         histogram_data='hv=0:100:100;values=[7: 20]'"
    );
}

fn native(json: &str) -> Definition {
    let form: ReportForm = serde_json::from_str(json).unwrap();
    form.definition(&Defaults::default()).unwrap()
}

#[test]
fn native_rows_have_what_neither_original_has() {
    let definition = native(
        r#"{"name": "n", "level": "request", "keys": ["status", "+env"], "percentiles": [99.9]}"#,
    );
    assert!(definition.extremes);
    let mut reading = reading(&[(&[Status(200), Text("prod")], TOTALS), (&[Other, Other], MORE)]);
    reading.ranks = 2;
    // The middle of the last bucket lies beyond the longest time.
    reading.quantiles = vec![0.1, 0.151, 0.1, 0.2];
    reading.extremes = vec![
        Extremes { time_min: 10, time_max: 150_000, memory_peak_max: 4096 },
        Extremes::default(),
    ];
    assert_eq!(
        row(&definition, &reading, 0).join(" "),
        "status=200 tag_env='prod' req_count=20 req_per_sec=2f req_percent=25f error_count=2 \
         timer_count=30 req_time_total=2500000us req_time_per_sec=0.25f req_time_percent=25f \
         req_time_min=10us req_time_max=150000us req_time_median=0.1f p99_9=0.15f \
         ru_utime_total=100000us ru_utime_per_sec=0.01f ru_utime_percent=25f \
         ru_stime_total=50001us ru_stime_per_sec=0.0050001f ru_stime_percent=100f \
         traffic_total=5120 traffic_per_sec=512f traffic_percent=100f memory_footprint_total=4096 \
         memory_footprint_per_sec=409.6f memory_footprint_percent=50f memory_peak_max=4096 \
         unmeasured_count=5"
    );
    let timers = native(
        r#"{"name": "n", "level": "timer",
            "keys": ["script_name", "@group", "@value_min", "@__status", "+x"]}"#,
    );
    let names: Vec<&str> =
        timers.layout.columns().iter().map(|column| column.column.name.as_str()).collect();
    assert_eq!(
        names.join(" "),
        "script_name timer_group timer_timer_value_min timer___status tag_x \
         req_count req_per_sec req_percent hit_count hit_per_sec hit_percent \
         timer_value timer_value_per_sec timer_value_percent timer_value_min timer_value_max timer_median \
         ru_utime_total ru_utime_per_sec ru_utime_percent ru_stime_total ru_stime_per_sec ru_stime_percent unmeasured_count"
    );
}

#[test]
fn a_view_lists_every_segment() {
    let view = read("hv.tag_info:a");
    let mut reading = reading(&[(&[Text("x")], TOTALS), (&[Text("y")], MORE)]);
    reading.histograms = vec![vec![(0, 5)], vec![(2, 35), (1023, 35)]];
    let segments = view.layout.segments(&reading, Some("y"));
    assert_eq!(segments.len(), 1024);
    let row = |segment: i64, edge: f64, count: i64, percent: f64| {
        vec![
            Value::Text("y".into()),
            Value::Int(segment),
            Value::Float(edge),
            Value::Int(count),
            Value::Float(percent),
        ]
    };
    assert_eq!(segments[0], row(0, 0.0, 0, 0.0));
    assert_eq!(segments[2], row(2, 0.019_531_25, 35, 50.0));
    assert_eq!(segments[1023], row(1023, 9.990_234_375, 35, 50.0));
    // hv.info has one row, without an index_value, even before anything arrived.
    let info = read("hv.info").layout;
    let empty: &[Given] = &[];
    let reading = self::reading(&[(empty, Totals::ZERO)]);
    let segments = info.segments(&reading, None);
    assert_eq!(segments.len(), 1024);
    assert_eq!(segments[7][0], Value::Null);
    assert_eq!(segments[7][3], Value::Int(0));
    assert_eq!(segments[7][4], Value::Float(0.0));
    // Counts without buckets: unknown.
    let reading = self::reading(&[(empty, TOTALS)]);
    assert_eq!(info.segments(&reading, None)[7][3], Value::Null);
    assert!(read("report1").layout.segments(&reading, None).is_empty());
}

/// Whether any column needs the engine to keep histograms.
fn keeps_histograms(layout: &ColumnLayout) -> bool {
    let all = layout.want(0..layout.columns().len());
    all.quantiles || all.histograms
}

#[test]
fn only_what_is_shown_is_wanted() {
    let report1 = read("report1:::90").layout;
    assert!(keeps_histograms(&report1));
    assert_eq!(report1.want([0, 1]), Want::default());
    let keys = Want { keys: true, ..Want::default() };
    assert_eq!(read("report3").layout.want([14]), keys);
    let quantiles = Want { quantiles: true, ..Want::default() };
    let median = report1.position("req_time_median").unwrap();
    assert_eq!(report1.want([median]), quantiles);
    let v2 = read("v2/packet/60/no_keys/hv=0:100:100,p50/no_filters").layout;
    let histograms = Want { histograms: true, ..Want::default() };
    assert_eq!(v2.want([8]), histograms);
    let without = read("v2/packet/60/no_keys/no_percentiles/no_filters").layout;
    assert!(!keeps_histograms(&without));
    let view = read("hv.report1").layout;
    assert!(keeps_histograms(&view));
    assert_eq!(view.want([]), Want { histograms: true, ..keys });
}

#[test]
fn sums_past_64_bits_are_still_shown() {
    let huge =
        Totals { time: u128::from(u64::MAX) + 1, traffic: 1 << 70, requests: 1, ..Totals::ZERO };
    let definition = read("v2/request/60/~host/no_percentiles/no_filters");
    let reading = reading(&[(&[Text("h")], huge)]);
    let row = row(&definition, &reading, 0).join(" ");
    assert_has!(row => " req_time_total=18446744073709.55f ");
    assert_has!(row => " traffic_total=1180591620717411300000f ", " traffic_percent=100f ");
}
