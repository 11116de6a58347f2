//! Every address and parameter of HTTP, asked over packets of real PHP that came by UDP.

use crate::harness::{Here, Sender};
use crate::packets::corpus;

#[test]
fn reset_empties_rows_and_reports_and_keeps_counters() {
    let here = Here::start(&[]);
    let mut sender = Sender::new(&here.site);
    sender.send(&corpus("spec-vector"));
    sender.at_rest();
    assert_eq!(here.site.rows("report_by_script_name").len(), 1);
    assert_eq!(here.site.post("/api/v1/reset", "").status, 200);
    assert!(here.site.rows("report_by_script_name").is_empty());
    let status = here.site.status();
    assert_eq!(status.count("request_rows"), 0);
    assert_eq!(status.count("requests_merged"), 1);
    here.site.delete("/api/v1/reports/nothing").problem(404);
    here.stop();
}
