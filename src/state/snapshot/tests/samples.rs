//! Samples of PHP's functions in a snapshot.

use super::*;
use crate::profile;

/// Samples come back with their ids, times and functions; what is sampled after that is of another
/// run. A smaller pool keeps the newest.
#[test]
fn samples_of_functions_come_back() {
    let (before, mut intake, clock) = profile::tests::profile();
    let line = profile::tests::sample;
    let feed = profile::tests::feed;
    clock.advance_ms(100_000);
    for number in 0..20_000 {
        let function = format!("f{}", number % 7);
        let bytes = line(number % 9, &format!("{}.5", 1 + number / 1_000), &function);
        feed(&before, &mut intake, 1, bytes.as_bytes());
    }
    let process = Process::start(PLAN);
    let cut = Cut::of(&process.live.read(), (&Counters::new(1), &[]), None);
    let subject = Subject {
        live: &process.live,
        profile: Some(&before),
        clock: &process.clock,
        stop: &Shutdown::new(),
    };
    let bytes = write(subject, cut, Vec::new()).unwrap().0;
    let restored = |samples: usize| {
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let after = Profile::new(before.sources.clone(), samples, clock);
        let mut live = PLAN.live(&Hasher::new(), Vec::new());
        restore(&bytes[..], &mut live, definitions(), &[], Some(&after), 0).unwrap();
        after
    };
    let shown = |profile: &Profile| {
        let segments = profile.snapshot().unwrap().segments;
        let of = segments.iter().flat_map(|segment| {
            let ids = segment.first_id..;
            ids.zip(&segment.samples).map(|(id, sample)| {
                let request = segment.request(sample);
                let texts = (segment.symbol(sample), segment.caller(sample));
                let time = request.run.time_us(sample.elapsed);
                format!("{id} {time} {:?} {:?} {texts:?} {sample:?}", request.key(), request.path)
            })
        });
        of.collect::<Vec<_>>()
    };
    let all = shown(&before);
    assert_eq!(all.len(), 20_000);
    let after = restored(100_000);
    assert_eq!(shown(&after), all);
    let mut intake = profile::Intake::new(Arc::clone(&after), profile::tests::named());
    feed(&after, &mut intake, 1, line(1, "30.0", "g").as_bytes());
    let newest = after.snapshot().unwrap().segments.pop().unwrap();
    assert_eq!((newest.first_id, newest.samples.len()), (20_001, 1));
    assert_eq!(newest.requests[0].run.number, 2);
    let fewer = shown(&restored(10_000));
    assert!(all.ends_with(&fewer) && fewer.len() > 1_000 && fewer.len() <= 10_000);
}

/// Whatever a snapshot has for samples, nothing else is damaged.
#[test]
fn what_can_be_no_samples_is_refused() {
    let text = |id: u64, request: u32, run: u32| {
        let sample = json!({"elapsed": 1, "used": 1, "peak": 1, "request": request, "symbol": 7,
            "caller": 8, "arguments": 9, "opcode": 9, "line": 1, "offset": 1,
            "sample_type": "User"});
        let texts = ["a", "b", "c", "d", "e"];
        let asked = json!({"run": run, "pid": 1, "elapsed": 1, "newest": 1, "texts": texts});
        let saved = json!({"first_id": id, "samples": [sample], "requests": [asked],
            "runs": [[3, "web", 5]], "frames": [], "texts": []});
        serde_json::from_value(saved).unwrap()
    };
    let clock = Arc::new(ManualClock::new(0));
    let profile = Profile::new(Vec::new(), 100, clock);
    assert!(profile.restore(text(5, 0, 0)).is_ok());
    for (id, request, run) in [(6, 1, 0), (6, 0, 1), (5, 0, 0), (u64::MAX, 0, 0)] {
        assert!(profile.restore(text(id, request, run)).is_err(), "{id}");
    }
    assert!(profile.restore(text(6, 0, 0)).is_ok());
    // Functions that it does not have are unknown.
    assert_eq!(profile.recent(None).unwrap().requests.len(), 1);
}
