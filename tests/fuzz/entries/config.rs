//! A configuration file: every error has its words; what is accepted has a memory plan and its
//! rules work.

use std::sync::Arc;

use crate::config::Config;
use crate::daemon::memory_plan::MemoryPlan;
use crate::input::rewrite::{Chain, NameRules, Rewrite as _, RuleCounters, TextField};

/// Longer ones are the time of the TOML parser and nothing else.
const BYTES_MAX: usize = 16 << 10;

/// Any text as `pinbad.toml`.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.len() > BYTES_MAX {
        return;
    }
    match Config::from_toml("pinbad.toml", text) {
        Err(errors) => assert!(!errors.to_string().is_empty()),
        Ok(config) => {
            assert!(!MemoryPlan::of(&config).to_string().is_empty());
            let counters = Arc::new(RuleCounters::new(config.rewrites.len()));
            let mut rules = NameRules::new(&config.rewrites, super::live::hasher(), counters);
            for field in [TextField::ScriptName, TextField::Hostname] {
                let chain: Option<Chain> = rules.field_chain(field);
                let mut fresh = Vec::new();
                if let Some(chain) = chain {
                    rules.apply(chain, "/größe/17/a?b=c".as_bytes(), &mut fresh);
                }
                assert!(std::str::from_utf8(&fresh).is_ok(), "rules keep UTF-8");
            }
        }
    }
}
