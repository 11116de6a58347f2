//! Alerts from packet to receiver: over a restart, to a webhook that fails at first, and to a real
//! Alertmanager.

#[cfg(feature = "sql")]
mod played;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use prost::Message as _;
use rcgen::{Certificate, CertificateParams, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value as Json, json};

use crate::harness::{
    Collector, Here, Running, Sender, Site, await_condition, await_until, free_address, pinbad, run,
};
use crate::packets::request;

/// A webhook that records the bodies it receives, after failing a given number of times.
struct Hook {
    server: Collector,
    url: String,
}

impl Hook {
    fn failing(times: usize) -> Self {
        let server = Collector::start();
        server.answer(&vec!["503 Busy"; times]);
        Self::at(server)
    }

    /// One that speaks TLS with this certificate.
    fn secure(certificate: &Certificate, key: &KeyPair) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        let tls = Arc::new(tls);
        Self::at(Collector::start_at("https", move |stream: TcpStream| {
            let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
            StreamOwned::new(connection, stream)
        }))
    }

    fn at(server: Collector) -> Self {
        let url = format!("{}/hook", server.url);
        Self { server, url }
    }

    /// The bodies that it took.
    fn got(&self) -> Vec<Json> {
        let bodies = self.server.bodies("/hook");
        let bodies = bodies.iter().map(|body| serde_json::from_slice(body));
        bodies.map(Result::unwrap).collect()
    }

    /// State, script and time of the start of each alert that came.
    fn alerts(&self) -> Vec<[String; 3]> {
        let got = self.got();
        let alerts = got.iter().flat_map(|it| it["alerts"].as_array().unwrap());
        let alerts = alerts.map(|alert| {
            let script = &alert["labels"]["script_name"];
            [&alert["status"], script, &alert["startsAt"]].map(|it| it.as_str().unwrap().to_owned())
        });
        alerts.collect()
    }
}

const RULE: &str = "alert=[{name = \"busy\", report = \"report_by_script_name\", when = \"req_count > 5\", window = \"2s\", \
                    min_requests = 0, severity = \"page\", labels = {team = \"shop\"}}]";

/// Sends requests until `is_there` says so.
fn send_until(site: &Site, what: &str, mut is_there: impl FnMut() -> bool) {
    let mut sender = Sender::new(site);
    let packet = request("h", "s", "/busy.php").encode_to_vec();
    await_condition(what, || {
        for _ in 0..10 {
            sender.send(&packet);
        }
        if is_there() { Ok(()) } else { Err("not yet") }
    });
}

fn states(site: &Site) -> Vec<String> {
    let alerts = site.json("/api/v1/alerts");
    let rows = alerts["rows"].as_array().unwrap().iter();
    rows.map(|row| row["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_alert_is_told_once_over_a_restart_and_ends_by_itself() {
    let (dir, hook) = (tempfile::tempdir().unwrap(), Hook::failing(1));
    let state = format!("state.dir={}", dir.path().display());
    let webhook = format!("alerting.webhook={}", hook.url);
    let settings = [RULE, state.as_str(), webhook.as_str()];
    let here = Here::start(&settings);
    send_until(&here.site, "it fires and is told", || !hook.alerts().is_empty());
    let alerts = here.site.json("/api/v1/alerts");
    let row = &alerts["rows"][0];
    assert_eq!(row["key"], json!({"script_name": "/busy.php"}));
    let labels = json!({"alertname": "busy", "report": "report_by_script_name", "script_name": "/busy.php", "severity": "page", "team": "shop"});
    assert_eq!((&row["state"], &row["labels"]), (&json!("firing"), &labels));
    let page = row["page"].as_str().unwrap();
    assert!(page.ends_with("/reports/report_by_script_name/row?script_name=%2Fbusy.php"), "{page}");
    let metrics = here.site.get("/metrics").body;
    let gauge = "pinbad_alerts{alertname=\"busy\",alertstate=\"firing\",severity=\"page\"} 1";
    assert!(metrics.contains(gauge), "{metrics}");
    #[cfg(feature = "sql")]
    {
        let sql = "SELECT alert, row_key, state, value > 5 AS above, firings, first_started = started AS same FROM alerts";
        assert_eq!(here.site.sql(sql), json!([["busy", "/busy.php", "firing", 1, 1, 1]]));
    }
    let html = here.site.get("/alerts").body;
    assert_has!(html => "/busy.php", "firing", "Condition</th><th class=\"key\" scope=\"col\">Remarks</th>", ">req_count &gt; 5<");
    await_condition("its chart is of the last hour, whatever time is selected", || {
        let page = here.site.get("/alerts?from=-2h&to=-1h").body;
        let charts = page.split("id=\"alert-charts\"").nth(1).unwrap();
        if charts.contains("<figure") { Ok(()) } else { Err(page) }
    });
    await_condition("it is written", || {
        let text = std::fs::read_to_string(dir.path().join("alerts.json")).unwrap_or_default();
        if text.contains("receivers") && text.contains(&hook.url) && text.contains("\"started\"") {
            Ok(())
        } else {
            Err(text)
        }
    });
    here.stop();
    let again = Here::start(&settings);
    assert_eq!(states(&again.site), ["firing"], "as it was");
    let over = |states: &Vec<String>| *states == ["resolved"];
    await_until("its end", || states(&again.site), over);
    assert_has!(again.site.get("/alerts").body => ">req_count &gt; 5<");
    let told = await_until("its end is told", || hook.alerts(), |it| it.len() > 1);
    let [fired, ended] = &told[..] else { panic!("{told:?}") };
    assert_eq!((fired[0].as_str(), ended[0].as_str()), ("firing", "resolved"));
    assert_eq!(fired[1..], ended[1..]);
    let says_so = || again.site.get("/alerts").body.contains(" times since ");
    send_until(&again.site, "it says that it fired before", says_so);
    assert_lacks!(again.site.get("/alerts").body => "</time>;</td>");
    again.stop();
}

/// A webhook behind TLS is told, if its certificate is trusted.
#[test]
fn a_webhook_behind_tls_is_verified_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let own = own.self_signed(&key).unwrap();
    let hook = Hook::secure(&own, &key);
    let webhook = format!("alerting.webhook={}", hook.url);
    let other = KeyPair::generate().unwrap();
    let other = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&other);
    let file = dir.path().join("trusted.pem");
    let trusted = format!("alerting.ca_file={}", file.display());
    std::fs::write(&file, other.unwrap().pem()).unwrap();
    let failed = |site: &Site| {
        let metrics = site.get("/metrics").body;
        let mut lines = metrics.lines();
        lines.any(|it| it.starts_with("pinbad_alerts_failed_total") && !it.ends_with(" 0"))
    };
    let here = Here::start(&[RULE, &webhook, &trusted]);
    send_until(&here.site, "it is not trusted", || failed(&here.site));
    assert!(hook.alerts().is_empty());
    here.stop();
    std::fs::write(&file, own.pem()).unwrap();
    let here = Here::start(&[RULE, &webhook, &trusted]);
    send_until(&here.site, "it is told", || !hook.alerts().is_empty());
    assert!(!failed(&here.site));
    let told = hook.got()[0]["alerts"][0].clone();
    let value = told["value"].as_f64().unwrap();
    assert!(value > 5.0, "{told}");
    assert_eq!(told["annotations"]["threshold"], "> 5");
    here.stop();
}

#[test]
fn silences_are_made_refused_and_ended() {
    let hook = Hook::failing(0);
    let webhook = format!("alerting.webhook={}", hook.url);
    let here = Here::start(&[RULE, &webhook]);
    let all = "/api/v1/silences";
    let made = here
        .site
        .post(all, r#"{"matchers": {"script_name": "/busy*"}, "for": "1h", "reason": "quiet"}"#);
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["persistent"], false);
    // There is no row yet.
    let none = "no row that a rule judges has these labels now";
    assert_eq!(made.json()["remark"], none);
    let misspelt = json!({"matchers": {"alertname": "bussy"}, "for": "1s", "reason": "x"});
    let remark = here.site.post(all, &misspelt.to_string()).json()["remark"].clone();
    assert_eq!(remark, format!("{none}; did you mean \"busy\"?"));
    for (name, remark) in [
        ("alertname", none),
        (
            "hostname",
            "no alert could have the label \"hostname\"; there are alertname, report, row, script_name, severity, team",
        ),
    ] {
        let body = json!({"matchers": {name: "nosuch"}, "for": "1s", "reason": "x"});
        assert_eq!(here.site.post(all, &body.to_string()).json()["remark"], remark);
    }
    send_until(&here.site, "it fires", || states(&here.site) == ["firing"]);
    let row = &here.site.json("/api/v1/alerts")["rows"][0];
    assert_eq!(row["silenced_by"], 1);
    assert_eq!(hook.alerts(), [[""; 3]; 0], "nobody is told");
    for (text, fits) in [("/busy*", true), ("/bussy*", false)] {
        let body = json!({"matchers": {"script_name": text}, "for": "1s", "reason": "x"});
        let made = here.site.post(all, &body.to_string()).json();
        assert_eq!(made["remark"].is_null(), fits, "{made}");
    }
    for (body, problem) in cases![
        "[]" => "the body must be a JSON object";
        "{\"for\": \"1h\", \"reason\": \"x\"}" => "must be 1 to 32 labels";
        "{\"matchers\": {\"a\": \"b\"}, \"reason\": \"x\"}" =>
            "one of for, until says when it ends";
        "{\"matchers\": {\"a\": \"b\"}, \"for\": \"x\", \"reason\": \"x\"}" =>
            "accepted: a duration";
        "{\"matchers\": {\"a\": \"b\"}, \"until\": 5, \"reason\": \"x\"}" =>
            "must be later than now";
        "{\"matchers\": {\"a\": \"b\"}, \"for\": 0, \"reason\": \"x\"}" => "for: must be longer than 0";
        "{\"matchers\": {\"a\": \"b\"}, \"for\": \"1h\"}" => "must say why";
        "{\"matchers\": {\"a\": \"b\"}, \"for\": \"1h\", \"reason\": \"x\", \"utnil\": 1}" =>
            "utnil: is unknown; did you mean \"until\"? accepted: matchers";
    ] {
        let refused = here.site.post(all, body).problem(400);
        assert!(refused.contains(problem), "{refused}");
    }
    assert_eq!(here.site.delete("/api/v1/silences/1").status, 200);
    here.site.delete("/api/v1/silences/1").problem(404);
    send_until(&here.site, "now it is told", || !hook.alerts().is_empty());
    here.stop();
}

/// A disk that takes nothing: the silence holds, and it is said that a restart would lose it.
#[test]
fn a_silence_that_cannot_be_written_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", dir.path().display());
    let here = Here::start(&[RULE, &state]);
    let silence = || {
        let body = r#"{"matchers": {"severity": "page"}, "for": "1h", "reason": "x"}"#;
        here.site.post("/api/v1/silences", body).json()
    };
    // No file can take the place of a folder.
    let path = dir.path().join("alerts.json");
    std::fs::create_dir(&path).unwrap();
    let made = silence();
    assert_eq!(made["persistent"], false, "{made}");
    assert_has!(made["remark"].to_string() => "it cannot be kept now: state.dir: cannot write");
    let mut tool = pinbad();
    let tool = tool.args(["alert", "silence", "severity=page", "--for", "1h"]);
    let ended = run(tool.args(["--reason", "y", "--url", &format!("http://{}", here.site.http)]));
    assert_has!(ended.out => "or until the daemon stops", "Warning: it cannot be kept now: ");
    assert_has!(here.site.get("/alerts").body => "a stop would lose what changed: state.dir: ");
    std::fs::remove_dir(&path).unwrap();
    let made = silence();
    assert_eq!(made["persistent"], true, "{made}");
    assert!(!made["remark"].to_string().contains("kept"), "{made}");
    let page = || here.site.get("/alerts").body;
    await_until("the page says it no more", page, |it| !it.contains("a stop would lose"));
    let written: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(written["silences"]["list"].as_array().unwrap().len(), 3, "{written}");
    here.stop();
}

fn manager(dir: &Path) -> (Running, String) {
    let address = free_address("127.77.0.7");
    let config = dir.join("alertmanager.yml");
    let text =
        "global: {resolve_timeout: 1m}\nroute: {receiver: nobody}\nreceivers: [{name: nobody}]\n";
    std::fs::write(&config, text).unwrap();
    let child = Command::new("prometheus-alertmanager")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.path={}", dir.display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--cluster.listen-address=")
        .stderr(Stdio::null())
        .spawn();
    let running = Running(child.expect(
        "prometheus-alertmanager of Debian; tests/run.sh leaves this out where it is missing",
    ));
    (running, format!("http://{address}"))
}

/// The alerts that it holds as active.
fn active(url: &str) -> Result<Vec<Json>, String> {
    let said = |error: ureq::Error| error.to_string();
    let mut answer = ureq::get(format!("{url}/api/v2/alerts")).call().map_err(said)?;
    let text = answer.body_mut().read_to_string().map_err(said)?;
    serde_json::from_str(&text).map_err(|it| it.to_string())
}

#[test]
fn alertmanager_shows_what_fires_and_that_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let (running, url) = manager(dir.path());
    // The daemon may be there first: it tries again.
    let managers = format!("alerting.alertmanager={url}");
    let here = Here::start(&[RULE, &managers]);
    send_until(&here.site, "Alertmanager has it", || active(&url).is_ok_and(|it| !it.is_empty()));
    let found = active(&url).unwrap();
    let row = &here.site.json("/api/v1/alerts")["rows"][0];
    assert_eq!(found[0]["labels"], row["labels"]);
    assert_eq!(found[0]["generatorURL"], row["page"]);
    assert_eq!(found[0]["status"]["state"], "active");
    let summary = found[0]["annotations"]["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("script_name /busy.php: req_count > 5 over 2s; last value "),
        "{summary}"
    );
    await_condition("it is over", || match active(&url) {
        Ok(alerts) if alerts.is_empty() => Ok(()),
        other => Err(other),
    });
    here.stop();
    drop(running);
}

#[test]
fn check_names_who_is_told() {
    let urls = ["alertmanager=http://127.0.0.1:9", "webhook=http://127.0.0.1:9/hook"];
    let urls = urls.map(|url| format!("alerting.{url}"));
    let [manager, webhook] = &urls;
    let flags = ["check", "--set", RULE, "--set", manager, "--set", webhook];
    let said = run(pinbad().args(flags));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_has!(said.out => "\n  alerts http://127.0.0.1:9\n  alerts http://127.0.0.1:9/hook\n");
}
