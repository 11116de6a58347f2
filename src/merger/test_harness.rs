//! Pools and reports without threads, for unit tests and entries of fuzz targets: packets are put
//! in by hand, and time passes by hand.

use std::time::Duration;

use prost::Message as _;

use super::Live;
use crate::config::Config;
use crate::grammar::builtin;
use crate::grammar::native::ReportForm;
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, RepeatedTags, model};
use crate::input::record::{Confirmed, Hasher, TextLimits};
use crate::pool::Pool;
use crate::report::definition::{Defaults, Definition};
use crate::report::{DefinedBy, Reports, Ticks};

/// When each request was received, seconds since 1970.
pub(crate) const RECEIVED: u32 = 1_700_000_000;

/// The limits of a small world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) window: Duration,
    pub(crate) requests: usize,
    pub(crate) timers: usize,
    /// Bytes for strings and tag sets.
    pub(crate) words: usize,
    pub(crate) rows_max: usize,
    /// Bytes for reports.
    pub(crate) memory: usize,
}

impl Limits {
    /// A minute, and room for a thousand of everything.
    pub(crate) const SMALL: Self = Self {
        window: Duration::from_secs(60),
        requests: 1_000,
        timers: 1_000,
        words: 1 << 20,
        rows_max: 1_000,
        memory: 16 << 20,
    };

    /// A pool, and these reports over it.
    pub(crate) fn live(&self, hasher: &Hasher, reports: Vec<(Definition, DefinedBy)>) -> Live {
        let mut config = Config::default();
        config.pool.stats_history = self.window;
        config.pool.request_pool_size = self.requests;
        config.pool.timer_pool_size = self.timers;
        config.pool.words_memory = self.words;
        config.reports.rows_max = self.rows_max;
        config.reports.memory = self.memory;
        live(&config, hasher, reports)
    }
}

/// A pool and these reports over it, as configured.
pub(crate) fn live(
    config: &Config,
    hasher: &Hasher,
    definitions: Vec<(Definition, DefinedBy)>,
) -> Live {
    let ticks = Ticks::of(config.pool.stats_history);
    let pool = Pool::new(&config.pool, hasher.clone());
    let mut reports = Reports::new(&config.reports, ticks);
    reports.define_at_start(definitions, &pool, 0);
    Live::new(pool, reports, ticks)
}

/// The defaults of reports, over this window.
pub(crate) fn defaults(window: Duration) -> Defaults {
    Defaults { raw_window: window, ..Defaults::default() }
}

/// The report that a form in JSON defines.
pub(crate) fn definition(name: &str, json: &str, defaults: &Defaults) -> Definition {
    let members = serde_json::from_str(json).expect("JSON");
    let form = ReportForm::from_members(name, members).expect("a form");
    form.definition(defaults).expect("a report")
}

/// The built-in reports, and those that these forms define: names, and members in JSON.
pub(crate) fn with_own(defaults: &Defaults, own: &[(&str, &str)]) -> Vec<(Definition, DefinedBy)> {
    let own = own.iter().map(|(name, json)| definition(name, json, defaults));
    let all = builtin::reports(defaults).into_iter().chain(own);
    all.map(|it| (it, DefinedBy::BuiltIn)).collect()
}

/// The built-in reports, and one of each kind that keeps data of its own: of two windows, and with
/// a histogram of so many segments.
pub(crate) fn of_each_kind(
    defaults: &Defaults,
    windows: [&str; 2],
    segments: u32,
) -> Vec<(Definition, DefinedBy)> {
    let [short, long] = windows;
    let mut all = with_own(defaults, &[]);
    for json in [
        format!(
            r#"{{"level": "request", "keys": ["script_name", "+env"], "window": "{short}", "percentiles": [50, 99.9]}}"#
        ),
        format!(
            r#"{{"level": "timer", "keys": ["@group", {{"key": "@op", "missing": "empty"}}], "window": "{long}"}}"#
        ),
        format!(
            r#"{{"level": "packet", "filters": ["min_time=0.5"], "histogram": "hv=0:60000:{segments}"}}"#
        ),
        r#"{"comment": "tag2_info:group,op"}"#.to_owned(),
    ] {
        let report = definition(&format!("r{}", all.len()), &json, defaults);
        all.push((report, DefinedBy::RunTime));
    }
    all
}

/// A decoder whose records leave out tags that the pool of `live` knows. It has few places for
/// them, so that they change.
pub(crate) fn decoder(hasher: Hasher, live: &mut Live) -> Decoder {
    const PLACES: usize = 64;
    let confirmed = Confirmed::new(PLACES);
    live.pool.confirm_repeats(confirmed.clone());
    let repeats = RepeatedTags::new(PLACES, 0, confirmed);
    Decoder::new(TextLimits::default(), hasher).repeating(repeats)
}

/// Decodes one request, which must be good, to the end of `records`.
#[track_caller]
pub(crate) fn decode(decoder: &mut Decoder, sent: &model::Request, records: &mut Vec<u8>) {
    let taken = decoder.decode(&sent.encode_to_vec(), RECEIVED, records);
    assert_eq!(taken, Ok(1));
}
