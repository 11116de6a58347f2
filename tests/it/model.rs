//! The reports against a naive recount.
//!
//! Random packets go through the decoder into the engine, at random moments of a clock that is
//! moved by hand, and into a plain list. Every now and then a report is read, column by column, and
//! held against sums over the list. Nothing of the recount is taken from the engine: keys, filters,
//! columns and formulas are written down from the specification.
//!
//! A failure names its seed. `MODEL_SEED=<n>` runs that one alone; `MODEL_ROUNDS=<n>` runs so many
//! times as many seeds.

mod cases;
mod compare;
mod recount;
mod reports;
mod traffic;
mod world;

use pinbad::pool::HELD_MS;
use traffic::Variety;
use world::{Plan, World};

/// Runs a plan over some seeds, so many steps each.
fn run(what: &str, plan: &Plan, seeds: std::ops::Range<u64>, steps: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("MODEL_SEED") {
        Some(seed) => vec![seed],
        None => {
            let rounds = number("MODEL_ROUNDS").unwrap_or(1);
            (seeds.start..seeds.start + (seeds.end - seeds.start) * rounds).collect()
        }
    };
    for seed in seeds {
        let mut step = 0;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut world = World::new(seed, plan.clone());
            while step < steps {
                step += 1;
                world.step()?;
            }
            world.check_all()
        }));
        let problem = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(problem)) => problem,
            Err(_) => "panicked, see above".to_owned(),
        };
        panic!("{what}, MODEL_SEED={seed}, step {step}: {problem}");
    }
}

#[test]
fn few_names() {
    run("few names", &Plan::default(), 1..4, 300);
}

#[test]
fn many_names_over_a_pinba_history() {
    let plan = Plan { variety: Variety::Many, history_secs: 900, ..Plan::default() };
    run("many names", &plan, 1..3, 300);
}

#[test]
fn a_raw_pool_that_holds_seconds() {
    let plan = Plan { request_rows: 60, timer_rows: 90, history_secs: 900, ..Plan::default() };
    run("a small raw pool", &plan, 1..3, 300);
}

#[test]
fn no_raw_data_and_a_short_history() {
    let plan = Plan { request_rows: 0, timer_rows: 0, history_secs: 5, ..Plan::default() };
    run("no raw data", &plan, 1..3, 300);
}

#[test]
fn more_keys_than_rows() {
    for (rows_max, variety) in [(1, Variety::Few), (7, Variety::Many), (40, Variety::Flood)] {
        let plan = Plan { rows_max, variety, ..Plan::default() };
        run(&format!("{rows_max} rows"), &plan, 1..2, 300);
    }
}

#[test]
fn a_flood_of_names_in_little_memory() {
    for memory_bytes in [0, 300_000, 1_000_000] {
        let plan = Plan { memory_bytes, variety: Variety::Flood, reports: 6, ..Plan::default() };
        run(&format!("{memory_bytes} bytes"), &plan, 1..2, 300);
        let mut world = World::new(1, plan);
        for _ in 0..60 {
            world.burst();
        }
        let (used, limit, folded) = world.live.reports.memory();
        assert!(folded > 0, "{used} bytes of {limit} fold nothing");
    }
}

/// StringInterner that only expired records used are forgotten, and not earlier than that.
#[test]
fn what_expired_leaves_no_words() {
    for seed in 1..3 {
        let plan = Plan { variety: Variety::Many, reports: 4, ..Plan::default() };
        let mut world = World::new(seed, plan);
        let step = |world: &mut World| {
            let done = world.step();
            done.unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        };
        for _ in 0..150 {
            step(&mut world);
        }
        let kept = world.names_after_a_flush();
        assert_eq!(kept, (3, 1, 0), "words, origins, tag sets; seed {seed}");
    }
}

/// Numbers of names that left the raw pool are given to others, while reports over longer windows
/// still count the former.
#[test]
fn numbers_that_stand_for_other_names() {
    let plan = Plan { variety: Variety::Many, history_secs: 5, ..Plan::default() };
    let mut world = World::new(1, plan);
    for _ in 0..20 {
        world.burst();
    }
    world.end_epoch();
    world.advance(10_000);
    // What left is held for a moment, for queries that began before.
    world.advance(HELD_MS);
    assert_eq!(world.live.pool.tag_sets.len(), 0);
    for _ in 0..20 {
        world.burst();
    }
    let done = world.check_all();
    done.unwrap_or_else(|problem| panic!("{problem}"));
}
