//! What the reports take, against `reports.memory`: names that never come twice, names that come again in every tick.

use std::time::Duration;

use prost::Message as _;

use super::super::*;
use crate::config::{PoolConfig, ReportsConfig};
use crate::report::definition::Defaults;
use crate::report::form::ReportForm;
use crate::report::{DefinedBy, builtin};
use crate::wire::{Decoder, Hasher, TextLimits, model};

const HISTORY: Duration = Duration::from_secs(60);
const MEMORY: usize = 4 << 20;

fn empty(hasher: &Hasher) -> Live {
    let history = Ticks::of(HISTORY);
    let config = PoolConfig {
        request_pool_size: 20_000,
        timer_pool_size: 40_000,
        stats_history: HISTORY,
        words_bytes: 8 << 20,
    };
    let pool = Pool::new(&config, hasher.clone());
    let config = ReportsConfig {
        rows_max: 2_000,
        memory_bytes: MEMORY,
        error_status: 500,
    };
    let mut reports = Reports::new(&config, history);
    let defaults = Defaults {
        history: HISTORY,
        ..Defaults::default()
    };
    let mut all: Vec<_> = builtin::reports(&defaults).into_iter().collect();
    for (name, level, keys) in [
        ("by_group", "timer", r#"["@group"]"#),
        ("by_env", "request", r#"["+env"]"#),
        ("by_both", "timer", r#"["script_name", "@group"]"#),
    ] {
        let form = format!(r#"{{"level": "{level}", "keys": {keys}, "percentiles": [95]}}"#);
        let members = serde_json::from_str(&form).unwrap();
        let form = ReportForm::from_members(name, members).unwrap();
        all.push(form.definition(&defaults).unwrap());
    }
    let all = all.into_iter().map(|it| (it, DefinedBy::BuiltIn)).collect();
    reports.define_at_start(all, &pool, 0);
    Live::new(pool, reports, history)
}

/// Everything in it is called by this number, the status too.
fn sent(number: u32) -> Vec<u8> {
    let word = |kind: &str| format!("{kind}-{number}");
    let mut request = model::Request::named(word("host"), word("server"), word("script"));
    request.schema = Some(word("schema").into_bytes());
    request.status = Some(number);
    request.request_time = Some(number as f32 / 1000.0);
    request.add_tag("env", word("env"));
    request.add_timer(1, 0.25, &[("group", &*word("group"))]);
    request.encode_to_vec()
}

/// The most that the reports took, when in each second these numbers come.
fn most(seconds: u32, numbers: impl Fn(u32) -> std::ops::Range<u32>) -> usize {
    let hasher = Hasher::new();
    let mut live = empty(&hasher);
    let mut decoder = Decoder::new(TextLimits::default(), hasher);
    let mut most = 0;
    let mut records = Vec::new();
    for second in 0..seconds {
        let now_ms = u64::from(second) * 1_000;
        live.advance(now_ms);
        for (at, number) in numbers(second).enumerate() {
            let taken = decoder.decode(&sent(number), 1_700_000_000, &mut records);
            assert_eq!(taken, Ok(1));
            if at % 100 == 99 {
                live.merge(&records, now_ms);
                records.clear();
            }
            most = most.max(live.reports.memory().0);
        }
    }
    most
}

#[test]
fn names_without_end() {
    let most = most(60, |second| second * 1_000..second * 1_000 + 1_000);
    assert!(most <= MEMORY, "{most}");
}
