//! A body with spans, protobuf or JSON, twice and then through pool and reports.

use crate::config::Config;

use super::live::{self, AWAY_MS};

thread_local! {
    static CONFIG: Config = {
        let text = "[[otlp_input]]\nlisten = '127.0.0.1:0'\ninternal = true\nattributes = ['tenant']\n";
        Config::from_toml("pinbad.toml", text).expect("a configuration")
    };
}

/// Any body.
pub fn otlp(body: &[u8]) {
    let records = CONFIG.with(|config| {
        let input = &config.otlp_inputs[0];
        crate::input::otlp::fuzz::records(input, &live::hasher(), body)
    });
    let mut live = live::with_reports(16);
    live.merge(&records, 0);
    live.advance(1_000);
    assert!(live::read_all(&live) > 0 || records.is_empty());
    live.advance(1_000 + AWAY_MS);
    assert_eq!(live::read_all(&live), 0, "it has left the reports");
}
