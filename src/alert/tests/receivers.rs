//! What receivers are told, silences and links.

use std::cmp::Reverse;

use serde_json::json;

use super::*;
use crate::clock::rfc3339;

/// An alert of one rule, as front ends show it.
pub(super) fn alert(phase: Phase, (started, ended): (u64, u64), silenced_by: Option<u64>) -> Alert {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\nwindow = 1\nmin_requests = 0\n"
    );
    let mut engine = Engine::new(&rules(&text), 1 << 20, 1);
    take(&mut engine, &second(1, &[("/a", (9, 0))]));
    let mut alert = shown(&engine).remove(0);
    let episode = &mut alert.episode;
    (episode.phase, episode.started, episode.ended) = (phase, started, ended);
    Alert { silenced_by, ..alert }
}

/// The alerts of an engine, as front ends show them.
fn shown(engine: &Engine) -> Vec<Alert> {
    let alerts = engine.alerts().map(|(rule, key, episode)| Alert {
        labels: rule.labels(key),
        rule: Arc::clone(rule),
        key: key.map(Box::from),
        episode: episode.clone(),
        link: "http://127.0.0.1/".to_owned(),
        silenced_by: None,
    });
    let mut alerts: Vec<Alert> = alerts.collect();
    alerts.sort_by_key(|it| (it.episode.phase, Reverse(it.episode.since)));
    alerts
}

/// The messages that a receiver takes: end, 0 for a firing alert, and its reason.
fn tell(receiver: &Receiver, engine: &Engine, now: u64) -> Vec<(u64, String)> {
    let messages = receiver.due(&shown(engine), now);
    let told = messages.iter().map(|it| (it.1.ended, it.1.reason.clone())).collect();
    receiver.told.lock().extend(messages);
    told
}

/// Pending alerts that come to nothing do not take the place of the alert before them.
#[test]
fn what_was_only_pending_leaves_the_alert_before_it() {
    let text = format!(
        "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"errors > 0\"\nwindow = 1\nmin_requests = 0\nfor = 2\n"
    );
    let rules = rules(&text);
    let mut engine = Engine::new(&rules, 1 << 20, 1);
    let settings = config("").alerting;
    let [hook, away, manager] =
        [true, true, false].map(|is_webhook| Receiver::new(is_webhook, "http://x", &settings));
    let found = |engine: &Engine| {
        let alerts = engine.alerts().map(|it| (it.2.phase, it.2.started, it.2.ended));
        alerts.collect::<Vec<_>>()
    };
    let phases = |engine: &mut Engine, unix, errors| -> Vec<Option<Phase>> {
        let happened = take(engine, &second(unix, &[("/a", (1, errors))]));
        happened.into_iter().map(|it| it.2).collect()
    };
    assert_eq!(phases(&mut engine, 1, 1), [Some(Phase::Pending)]);
    assert!(phases(&mut engine, 2, 1).is_empty());
    assert_eq!(phases(&mut engine, 3, 1), [Some(Phase::Firing)]);
    for receiver in [&hook, &manager] {
        assert_eq!(tell(receiver, &engine, 4), [(0, String::new())]);
    }
    // Over, and pending again before anyone is told.
    assert_eq!(phases(&mut engine, 4, 0), [Some(Phase::Resolved)]);
    assert_eq!(phases(&mut engine, 5, 1), [Some(Phase::Pending)]);
    let over = [(Phase::Resolved, 4, 5)];
    // Neither a removed rule nor a long stop takes the alert that is over with the pending one.
    let mut again = Engine::new(&rules, 1 << 20, 1);
    let saved = serde_json::to_string(&engine.save()).unwrap();
    again.restore(serde_json::from_str(&saved).unwrap(), 3_601);
    assert_eq!(found(&again), over);
    again.restore(engine.save(), 3_600);
    assert_eq!(found(&again)[0].0, Phase::Pending);
    again.replace(&[], 6, &mut |_, event| panic!("{event:?}"));
    assert_eq!(found(&again), over);
    assert_eq!(phases(&mut engine, 6, 0), [None], "dropped");
    assert_eq!(found(&engine), over);
    for receiver in [&hook, &away, &manager] {
        assert_eq!(tell(receiver, &engine, 7), [(5, String::new())]);
    }
    // It is forgotten when it would have been.
    for unix in 7..903 {
        phases(&mut engine, unix, unix % 2);
        assert!(tell(&hook, &engine, unix + 1).is_empty());
    }
    assert_eq!(found(&engine), over);
    (903..=904).for_each(|unix| _ = phases(&mut engine, unix, unix % 2));
    assert!(found(&engine).is_empty());
}

/// An alert that is over stays with the labels under which it was told.
#[test]
fn a_reload_repeats_no_end() {
    let rule = |severity: &str, script: &str| {
        rules(&format!(
            "[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhere = \"script_name={script}\"\nwhen = \"errors > 0\"\n\
             window = 1\nmin_requests = 0\nfor = 2\nseverity = \"{severity}\"\n"
        ))
    };
    let hook = Receiver::new(true, "http://x", &config("").alerting);
    let mut engine = Engine::new(&rule("page", "/a"), 1 << 20, 1);
    let mut now = 1;
    let mut seconds = |engine: &mut Engine, all: &[u64]| {
        for errors in all {
            take(engine, &second(now, &[("/a", (1, *errors))]));
            now += 1;
        }
        tell(&hook, engine, now)
    };
    let reload =
        |engine: &mut Engine, rules: &[Arc<Rule>]| engine.replace(rules, 0, &mut |_, _| ());
    let fired = || (0, String::new());
    assert_eq!(seconds(&mut engine, &[1, 1, 1]), [fired()]);
    assert_eq!(seconds(&mut engine, &[0]), [(5, String::new())]);
    for severity in ["info", "page"] {
        reload(&mut engine, &rule(severity, "/a"));
        assert!(seconds(&mut engine, &[0]).is_empty(), "{severity}");
    }
    // Another rule whose alerts have the same labels.
    reload(&mut engine, &rule("page", "/a*"));
    assert_eq!(seconds(&mut engine, &[0, 1, 1, 1]), [fired()]);
    assert_eq!(seconds(&mut engine, &[0]), [(12, String::new())]);
    assert!(seconds(&mut engine, &[1]).is_empty(), "the end of the one before");
    assert!(seconds(&mut engine, &[0]).is_empty());
    // One that fires ends under its old labels, and those before it are not told again.
    assert_eq!(seconds(&mut engine, &[1, 1, 1]), [fired()]);
    reload(&mut engine, &rule("info", "/a*"));
    assert_eq!(seconds(&mut engine, &[]), [(17, "rule".to_owned()), fired()]);
    assert!(seconds(&mut engine, &[1]).is_empty());
    assert_eq!(seconds(&mut engine, &[0]), [(19, String::new())]);
    assert!(seconds(&mut engine, &[1]).is_empty());
    // Nor after a restart.
    for (severity, alerts) in [("info", 1), ("ticket", 0)] {
        let mut again = Engine::new(&rule(severity, "/a*"), 1 << 20, 1);
        again.restore(engine.save(), 3_601);
        assert!(seconds(&mut again, &[]).is_empty(), "{severity}");
        assert_eq!(again.alerts().count(), alerts, "{severity}");
    }
}

#[test]
fn receivers_are_told_the_difference_once() {
    use Phase::{Firing, Pending, Resolved};
    // As a receiver that accepts everything; the end of each alert sent, 0 for a firing one.
    let told = |receiver: &Receiver, alert: Option<&Alert>, now| {
        let alerts: Vec<Alert> = alert.into_iter().cloned().collect();
        let messages = receiver.due(&alerts, now);
        let ended: Vec<u64> = messages.iter().map(|it| it.1.ended).collect();
        receiver.told.lock().extend(messages);
        ended
    };
    for is_webhook in [false, true] {
        let settings = config("alerting.period = \"60s\"").alerting;
        let receiver = Receiver::new(is_webhook, "http://x", &settings);
        assert_eq!(told(&receiver, Some(&alert(Pending, (0, 0), None)), 100), [0; 0]);
        let firing = alert(Firing, (100, 0), None);
        assert_eq!(told(&receiver, Some(&firing), 100), [0], "fires");
        assert_eq!(told(&receiver, Some(&firing), 159), [0; 0]);
        let again = told(&receiver, Some(&firing), 160);
        assert_eq!(again.len(), usize::from(!is_webhook), "sent again");
        // Silenced after it was sent: its end is sent.
        let over = alert(Resolved, (100, 170), Some(1));
        assert_eq!(told(&receiver, Some(&over), 170), [170]);
        let again = told(&receiver, Some(&over), 230);
        assert_eq!(again.len(), usize::from(!is_webhook), "and for a while again");
        assert_eq!(told(&receiver, None, 1_200), [0; 0]);
        assert!(receiver.told.lock().is_empty(), "forgotten after a quarter of an hour");
        // Silenced before it was sent, and over by then.
        let silenced = alert(Firing, (2_000, 0), Some(1));
        assert_eq!(told(&receiver, Some(&silenced), 2_000), [0; 0]);
        assert_eq!(told(&receiver, Some(&alert(Resolved, (2_000, 2_010), Some(1))), 2_010), [0; 0]);
        assert_eq!(told(&receiver, Some(&alert(Resolved, (2_000, 2_010), None)), 2_020), [0; 0]);
        // Over before it could be sent, without a silence.
        let missed = told(&receiver, Some(&alert(Resolved, (3_000, 3_010), None)), 3_020);
        assert_eq!(missed, if is_webhook { vec![3_010] } else { vec![] });
        // The rule is removed while it fires.
        assert_eq!(told(&receiver, Some(&alert(Firing, (4_000, 0), None)), 4_000), [0]);
        let ends = |alert: Option<Alert>, now| {
            let messages = receiver.due(alert.as_slice(), now).into_iter();
            messages.map(|it| format!("{} {}", it.1.ended, it.1.reason)).collect::<Vec<_>>()
        };
        assert_eq!(ends(None, 4_030), ["4030 rule"]);
        // The receiver is away.
        assert_eq!(ends(None, 6_000), ["4030 rule"]);
        assert_eq!(told(&receiver, None, 6_000), [4_030]);
        // It is away for longer than the alert is remembered.
        assert_eq!(told(&receiver, Some(&alert(Firing, (7_000, 0), None)), 7_000), [0]);
        let mut over = alert(Resolved, (7_000, 7_100), None);
        over.episode.reason = "no data".to_owned();
        assert_eq!(ends(Some(over), 7_100), ["7100 no data"]);
        assert_eq!(ends(Some(alert(Pending, (0, 0), None)), 7_200), ["7100 no data"]);
        assert_eq!(ends(None, 9_000), ["7100 no data"]);
        assert_eq!(told(&receiver, None, 9_001), [7_100]);
        assert_eq!(told(&receiver, None, 9_002), [0; 0]);
        // The condition holds again by the time that the end can be told.
        for phase in [Pending, Firing, Resolved] {
            assert_eq!(told(&receiver, Some(&alert(Firing, (10_000, 0), None)), 10_000), [0]);
            let (started, ended) = match phase {
                Pending => (0, 0),
                Firing => (10_020, 0),
                Resolved => (10_020, 10_030),
            };
            let mut next = alert(phase, (started, ended), None);
            next.episode.previous = Some(Box::new(alert(Resolved, (10_000, 10_010), None).episode));
            let first = told(&receiver, Some(&next), 10_040);
            // An Alertmanager takes the new beginning.
            let is_begun_anew = phase == Firing && !is_webhook;
            assert_eq!(first, [if is_begun_anew { 0 } else { 10_010 }], "{phase:?}");
            receiver.told.lock().clear();
        }
    }
}

/// Once the clock is set back, an alert began and ended in the future: there an end is none.
#[test]
fn times_that_are_sent_are_not_in_the_future() {
    let receiver = Receiver::new(false, "http://x", &config("alerting.period = \"60s\"").alerting);
    let sent = |phase, times, now| {
        let messages = receiver.due(&[alert(phase, times, None)], now);
        let (_, body) = receiver.request(&messages, now, "");
        receiver.told.lock().extend(messages);
        let alerts = body.as_array().unwrap().iter();
        let times = alerts.map(|it| ["startsAt", "endsAt"].map(|name| it[name].clone()));
        times.collect::<Vec<_>>()
    };
    let times = |start, end| [[start, end].map(|unix| json!(rfc3339(unix)))];
    let fires = |now| sent(Phase::Firing, (7_200, 0), now);
    let is_over = |now| sent(Phase::Resolved, (7_200, 7_200), now);
    assert_eq!(fires(7_210), times(7_200, 7_510));
    assert_eq!(fires(3_600), times(3_600, 3_900), "sent again at once");
    assert!(fires(3_659).is_empty());
    assert_eq!(fires(3_660), times(3_660, 3_960));
    assert_eq!(is_over(3_670), times(3_670, 3_670));
    assert!(is_over(3_729).is_empty());
    assert_eq!(is_over(3_730), times(3_730, 3_730));
    // And forward again.
    assert_eq!(is_over(7_300), times(7_200, 7_200));
}

/// An alert that an Alertmanager ends by itself unless it is sent again would begin anew.
#[test]
fn attempts_are_not_further_apart_than_an_alert_lasts() {
    let settings = config("alerting.period = \"10s\"").alerting;
    let mut back_off = Receiver::new(false, "http://x", &settings).back_off();
    (0..20).for_each(|_| _ = back_off.failed(0, None));
    assert!(back_off.is_over(12_000));
}

#[test]
fn a_silence_holds_for_the_labels_that_it_names() {
    let alerts = Alerts::default();
    let silence = |name: &str, text: &str| super::super::silence::Silence {
        id: 0,
        matchers: BTreeMap::from([(name.to_owned(), text.to_owned())]),
        starts: 10,
        ends: 20,
        reason: "why".to_owned(),
        author: None,
    };
    let labels = BTreeMap::from([("script_name".to_owned(), "/a/b".to_owned())]);
    let holds = |now| alerts.silences(now).iter().find(|it| it.fits(&labels)).map(|it| it.id);
    assert_eq!(alerts.silence(silence("script_name", "/b*"), 10).unwrap().id, 1);
    assert_eq!(holds(10), None);
    assert_eq!(alerts.silence(silence("script_name", "/a*"), 10).unwrap().id, 2);
    assert_eq!([9, 10, 19, 20].map(holds), [None, Some(2), Some(2), None]);
    assert!(alerts.end_silence(2) && !alerts.end_silence(2));
    assert_eq!(holds(10), None);
}

/// As other endings are, those of a removed rule's alerts are passed on (and logged); alerts that
/// were only pending are dropped.
#[test]
fn an_alert_ends_with_its_rule_and_that_is_told() {
    let rule = |hold: &str| {
        format!(
            "[[alert]]\nname = \"x{hold}\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\nwindow = 1\nmin_requests = 0\nfor = \"{hold}s\"\n"
        )
    };
    let mut engine = Engine::new(&rules(&(rule("0") + &rule("60"))), 1 << 20, 1);
    take(&mut engine, &second(1, &[("/a", (9, 0)), ("/b", (9, 0))]));
    assert_eq!(engine.alerts().count(), 4);
    let mut ended = Vec::new();
    engine.replace(&rules(""), 7, &mut |rule, event| {
        let episode = event.episode.unwrap();
        let what = (rule.entry.name.clone(), event.key.map(Box::from), episode.phase);
        ended.push((what, episode.ended, episode.reason.clone()));
    });
    let expected = ["/a", "/b"]
        .map(|it| (("x0".to_owned(), Some(key(it)), Phase::Resolved), 7, "rule".to_owned()));
    assert_eq!(ended, expected);
    engine.replace(&rules(""), 8, &mut |_, event| panic!("again: {event:?}"));
    assert_eq!(engine.alerts().count(), 2, "remembered for a while");
}

/// Keys that are named like parameters have the prefix that the page of the row wants.
#[test]
fn links_name_keys_as_pages_do() {
    let text =
        format!("[[alert]]\nname = \"x\"\nreport = \"{REPORT}\"\nwhen = \"req_count > 5\"\n");
    let mut rule = Arc::into_inner(rules(&text).remove(0)).unwrap();
    let alerts = Alerts { page: "http://x".to_owned(), ..Alerts::default() };
    let key = key("/a b");
    let link = |rule: &Rule| alerts.link(rule, Some(&key));
    assert_eq!(link(&rule), format!("http://x/reports/{REPORT}/row?script_name=%2Fa%20b"));
    rule.keys = vec!["span".to_owned()];
    assert_eq!(link(&rule), format!("http://x/reports/{REPORT}/row?key.span=%2Fa%20b"));
    assert_eq!(alerts.link(&rule, None), format!("http://x/reports/{REPORT}"));
}

/// Links lead to where the page is: over https where it has a certificate.
#[test]
fn links_have_the_scheme_of_the_page() {
    let mut config = Config::default();
    config.http.listen = Some("127.0.0.1:30080".parse().unwrap());
    assert_eq!(Alerts::new(&config, Vec::new()).page, "http://127.0.0.1:30080");
    config.http.tls_cert = Some("cert.pem".into());
    config.http.tls_key = Some("key.pem".into());
    assert_eq!(Alerts::new(&config, Vec::new()).page, "https://127.0.0.1:30080");
    config.alerting.page = "https://stats.example.com/".to_owned();
    assert_eq!(Alerts::new(&config, Vec::new()).page, "https://stats.example.com");
}
