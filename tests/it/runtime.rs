//! Reports made at run time: they survive a restart, a folder that cannot be used is refused, and
//! what cannot be kept is not made. Tables of the daemon's own: read like reports, made under other
//! names by their COMMENT.

use std::path::Path;

use pinbad::input::pinba::model::Request;
use serde_json::{Value as Json, json};

use crate::harness::{Here, Program, await_until, pinbad, run};

/// A daemon in this process, and its reports.
struct Reports(Here);

fn start(settings: &[&str]) -> Reports {
    Reports(Here::start(settings))
}

fn in_dir(dir: &Path) -> Reports {
    start(&[&format!("state.dir={}", dir.display())])
}

impl Reports {
    fn get(&self, path: &str) -> Json {
        self.0.site.json(path)
    }

    fn post(&self, form: &Json) -> (u16, Json) {
        let reply = self.0.site.post("/api/v1/reports", &form.to_string());
        (reply.status, reply.any_json())
    }

    /// Makes a report by its COMMENT; the status.
    fn define(&self, name: &str, comment: &str) -> u16 {
        self.post(&json!({"name": name, "comment": comment})).0
    }

    fn delete(&self, name: &str) -> (u16, Json) {
        let reply = self.0.site.delete(&format!("/api/v1/reports/{name}"));
        (reply.status, reply.any_json())
    }

    fn listed(&self, name: &str) -> Option<Json> {
        let list = self.get("/api/v1/reports");
        let mut reports = list["reports"].as_array().unwrap().iter();
        reports.find(|report| report["name"] == name).cloned()
    }

    fn row(&self, table: &str, column: &str, value: &str) -> Json {
        let read = self.get(&format!("/api/v1/reports/{table}?{column}={value}"));
        assert_eq!(read["total_rows"], 1, "{read}");
        read["rows"][0].clone()
    }

    /// Sends so many requests of three scripts, each with a timer whose group is one of two, and
    /// waits until they are merged.
    fn send(&self, requests: u64) {
        self.0.site.send((0..requests).map(|number| {
            let mut packet =
                Request::named("web1", "shop.example", format!("/page-{}.php", number % 3));
            packet.request_time = Some(0.25);
            let group = format!("g{}", number % 2);
            packet.add_timer(1, 0.125, &[("group", group.as_str())]);
            packet
        }));
    }

    fn url(&self) -> String {
        format!("http://{}", self.0.site.http)
    }
}

#[test]
fn reports_made_at_run_time_survive_a_restart_and_so_does_dropping_them() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made/by/the daemon");
    let forms = [
        json!({"name": "by_group", "comment": "tag_info:group::95,99.9"}),
        json!({"name": "v2", "comment": "v2/timer/60/~script,@group/no_percentiles/no_filters"}),
        json!({"name": "native", "level": "request", "keys": ["script_name", {"key": "+env", "missing": "empty"}],
               "filters": ["min_time=0.1"], "percentiles": [50, 99.9]}),
        json!({"name": "gone", "comment": "tag_info:other"}),
        json!({"name": "who", "comment": "active"}),
    ];
    let site = in_dir(&dir);
    for form in &forms {
        let (status, reply) = site.post(form);
        assert_eq!((status, &reply["persistent"]), (201, &json!(true)), "{reply}");
    }
    assert_eq!(site.delete("gone"), (200, json!({"dropped": "gone", "persistent": true})));
    let listed =
        |site: &Reports| ["by_group", "v2", "native", "who"].map(|name| site.listed(name).unwrap());
    let before = listed(&site);
    drop(site);

    let site = in_dir(&dir);
    let after = listed(&site);
    assert_eq!(after, before);
    assert_eq!(after[0]["defined"], "run time");
    assert!(site.listed("gone").is_none());
    // They count, and can be dropped for good.
    site.send(6);
    let rows = site.get("/api/v1/reports/by_group?sort=tag_value");
    assert_eq!(rows["rows"][0]["req_count"], 3, "{rows}");
    assert_eq!(site.get("/api/v1/reports/native")["total_rows"], 3);
    assert_eq!(site.delete("by_group").0, 200);
    assert_eq!(site.delete("who").0, 200);
    drop(site);
    let site = in_dir(&dir);
    assert!(site.listed("by_group").is_none() && site.listed("who").is_none());
    assert!(site.listed("v2").is_some());
    assert_eq!(site.delete("by_group").0, 404);
}

#[test]
fn without_a_folder_nothing_is_kept_and_the_reply_says_so() {
    let site = start(&[]);
    let (status, reply) = site.post(&json!({"name": "mine", "comment": "tag_info:group"}));
    assert_eq!(status, 201);
    assert_members!(reply => {"persistent": false});
    assert_eq!(site.listed("mine").unwrap()["persistent"], false);
    assert_eq!(site.listed("info").unwrap()["persistent"], true);
    assert_eq!(site.delete("mine"), (200, json!({"dropped": "mine", "persistent": false})));
}

#[test]
fn what_cannot_be_kept_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let site = in_dir(dir.path());
    assert_eq!(site.define("mine", "tag_info:group"), 201);
    // Where the next file would be written: not a matter of permissions, so that it holds for root
    // too.
    let in_the_way = dir.path().join("reports.json.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let other = json!({"name": "other", "comment": "tag_info:group"});
    for (status, problem) in [site.post(&other), site.delete("mine")] {
        assert_eq!(status, 507, "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("state.dir: cannot write "), "{detail}");
        assert!(detail.ends_with("; nothing was changed"), "{detail}");
    }
    assert!(site.listed("other").is_none() && site.listed("mine").is_some());
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(site.post(&other).0, 201);
    assert_eq!(site.delete("mine").0, 200);
    drop(site);
    let site = in_dir(dir.path());
    assert!(site.listed("other").is_some() && site.listed("mine").is_none());
}

#[test]
fn a_corrupt_file_is_set_aside_and_the_daemon_starts() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reports.json");
    std::fs::write(&file, "{\"version\": 1, \"reports\": [{\"na").unwrap();
    let site = in_dir(dir.path());
    assert_eq!(site.define("a", "report1"), 201);
    drop(site);
    let aside = std::fs::read_dir(dir.path()).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.starts_with("reports.json.corrupt-").then_some(name)
    });
    let aside = std::fs::read_to_string(dir.path().join(aside.unwrap())).unwrap();
    assert_eq!(aside, "{\"version\": 1, \"reports\": [{\"na");
    assert!(in_dir(dir.path()).listed("a").is_some());
}

/// A rule of the configuration over a report that `state.dir` alone has.
#[test]
fn a_rule_keeps_its_report_and_waits_for_one_that_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", dir.path().display());
    let rule = |report: &str| {
        format!("alert=[{{name = \"quiet\", report = \"{report}\", absent = true}}]")
    };
    let check =
        |report: &str| run(pinbad().args(["check", "--set", &state, "--set", &rule(report)]));
    assert_eq!(in_dir(dir.path()).define("by_g", "tag_info:group"), 201);
    let checked = check("by_g");
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert_eq!(check("by_h").code, Some(2));
    let with_rule = || start(&[&state, &rule("by_g")]);
    let rules = |site: &Reports| site.get("/api/v1/alerts")["rules"].as_array().unwrap().len();
    let site = with_rule();
    await_until("the rule is in force", || rules(&site), |rules| *rules == 1);
    let (status, said) = site.delete("by_g");
    assert_eq!(status, 409);
    assert_has!(said["detail"].as_str().unwrap() => "the rule \"quiet\" is over it", "SIGHUP");
    drop(site);
    std::fs::write(dir.path().join("reports.json"), "{").unwrap();
    assert_eq!(check("by_g").code, Some(0));
    // The file is set aside at the first start, and missing at the second.
    for _ in 0..2 {
        let site = with_rule();
        assert!(site.listed("by_g").is_none());
        assert_eq!(rules(&site), 0);
    }
    assert_eq!(with_rule().define("by_g", "tag_info:group"), 201);
    let site = with_rule();
    await_until("it is in force again", || rules(&site), |rules| *rules == 1);
}

/// SQL would show the raw table.
#[test]
fn no_report_takes_the_name_of_a_raw_table() {
    let site = start(&[]);
    for name in ["request", "timer", "timertag", "tag", "request_tag", "squid_activity"] {
        let (status, said) = site.post(&json!({"name": name, "comment": "report1"}));
        assert_eq!(status, 409, "{said}");
    }
}

#[test]
fn a_report_that_is_now_configured_stays_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let setting = format!("state.dir={}", dir.path().display());
    let site = in_dir(dir.path());
    assert_eq!(site.define("mine", "tag_info:a"), 201);
    drop(site);
    let site = start(&[&setting, "report=[{name = \"mine\", comment = \"tag_info:b\"}]"]);
    let listed = site.listed("mine").unwrap();
    assert_members!(listed => {"comment": "tag_info:b", "defined": "configuration"});
    assert_eq!(site.delete("mine").0, 409);
    assert_eq!(site.define("mine", "tag_info:a"), 409);
    drop(site);
    // The configuration has it no more: what was made at run time is there again.
    let site = in_dir(dir.path());
    assert_eq!(site.listed("mine").unwrap()["comment"], "tag_info:a");
}

/// The same when the configuration is read again: start and SIGHUP agree, also about the reports of
/// rules.
#[test]
fn a_report_that_a_reload_configures_gives_way_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pinbad.toml");
    let rule = |report: &str| {
        format!("[[alert]]\nname = \"{report}\"\nreport = \"{report}\"\nabsent = true\n")
    };
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("");
    let state = format!("state.dir={}", dir.path().join("state").display());
    let program = Program::start(&["serve", "--config", file.to_str().unwrap()], &[&state]);
    for (name, comment) in [("mine", "tag_info:a"), ("same", "tag_info:c"), ("who", "active")] {
        let form = json!({"name": name, "comment": comment}).to_string();
        assert_eq!(program.site.post("/api/v1/reports", &form).status, 201);
    }
    let await_listed = |wanted: [(&str, &str); 3]| {
        program.signal("HUP");
        let listed = || {
            let list = program.site.json("/api/v1/reports");
            ["mine", "same", "who"].map(|name| {
                let mut reports = list["reports"].as_array().unwrap().iter();
                let report = reports.find(|report| report["name"] == name).cloned();
                let report = report.unwrap_or_default();
                [&report["comment"], &report["defined"]]
                    .map(|it| it.as_str().unwrap_or("").to_owned())
            })
        };
        let wanted = wanted.map(|(comment, by)| [comment.to_owned(), by.to_owned()]);
        await_until("the configuration is in force", listed, |listed| *listed == wanted);
    };
    let entry = |name: &str, comment: &str| {
        format!("[[report]]\nname = \"{name}\"\ncomment = \"{comment}\"\n")
    };
    write(
        &[("mine", "tag_info:b"), ("same", "tag_info:c"), ("who", "report1")]
            .map(|(name, comment)| entry(name, comment))
            .concat(),
    );
    let by = "configuration";
    await_listed([("tag_info:b", by), ("tag_info:c", by), ("report1", by)]);
    program.site.delete("/api/v1/reports/mine").problem(409);
    let log = program.log();
    let replaced = log.iter().filter(|line| line.to_string().contains("took the place of one"));
    let replaced: Vec<_> = replaced.map(|line| line["report"].clone()).collect();
    assert_eq!(replaced, ["mine", "who"]);
    write(&(rule("mine") + &rule("same")));
    let by = "run time";
    await_listed([("tag_info:a", by), ("tag_info:c", by), ("active", by)]);
    let rules = || program.site.json("/api/v1/alerts")["rules"].as_array().unwrap().len();
    await_until("the rules are in force", rules, |rules| *rules == 2);
    program.site.delete("/api/v1/reports/mine").problem(409);
}

#[test]
fn a_kept_definition_that_cannot_be_can_be_dropped_or_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let kept = json!({"version": 1, "reports": [
        {"name": "odd", "comment": "nothing:at=all"}, {"name": "odder", "colour": "red"}
    ]});
    std::fs::write(dir.path().join("reports.json"), kept.to_string()).unwrap();
    let site = in_dir(dir.path());
    assert!(site.listed("odd").is_none());
    assert_eq!(site.delete("odd").0, 200);
    assert_eq!(site.delete("odd").0, 404);
    assert_eq!(site.define("odder", "report1"), 201);
    drop(site);
    let text = std::fs::read_to_string(dir.path().join("reports.json")).unwrap();
    let file: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(file, json!({"version": 1, "reports": [{"name": "odder", "comment": "report1"}]}));
}

#[test]
fn a_folder_that_cannot_be_used_ends_the_start_and_names_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refusal = |path: &Path| {
        let state = format!("state.dir={}", path.display());
        let arguments = "serve --udp 127.0.0.1:0 --http 127.0.0.1:0 --set mysql.listen= --set";
        let arguments: Vec<&str> = arguments.split(' ').chain([&*state]).collect();
        let (code, _, err) = program(&arguments);
        assert_ne!(code, Some(0));
        err
    };
    let text = refusal(&file);
    assert_has!(text => "state.dir: ", "not a folder");
    let first = in_dir(dir.path());
    let text = refusal(dir.path());
    assert_has!(text => "state.dir: ", "in use");
    drop(first);
    in_dir(dir.path());
}

#[test]
fn tables_of_the_daemons_own_are_read_like_reports() {
    let site = start(&[]);
    site.send(12);
    let (status, made) =
        site.post(&json!({"name": "by_group", "comment": "tag_info:group:min_time=0.1"}));
    assert_eq!(status, 201, "{made}");
    site.send(12);

    let row = site.row("active_reports", "name", "./pinba/by_group");
    assert_members!(row => {
        "id": "27|group|min_time=0.1", "kind": "tag", "type": "grouped by @group", "results_cnt": 2,
        "use_cnt": 1, "flags": "conditional, tagged, indexed",
    });
    let all = site.get("/api/v1/reports/active_reports?limit=0");
    assert_eq!(all["total_rows"], 20);
    // The merger has hardly worked yet, but its thread is there to be asked.
    assert!(all["rows"][0]["ru_utime_per_packet"].is_number(), "{all}");
    // The alias, and what it stands for by another name.
    let by_alias = site.get("/api/v1/reports/active?name=./pinba/by_group");
    assert_eq!(by_alias["rows"][0]["id"], row["id"]);

    let row = site.row("v2_active", "internal_name", "by_group");
    assert_members!(row => {
        "kind": "report_by_timer_data", "packets_received": 24, "packets_aggregated": 24,
        "timers_aggregated": 24,
    });
    assert!(row["approx_mem_used"].as_u64().unwrap() > 0);
    assert!(row["packets_lost"].is_null());
    let stats = site.get("/api/v1/reports/v2_stats")["rows"][0].clone();
    assert_members!(stats => {"udp_recv_packets": 24, "udp_packet_decode_err": 0});
    assert!(stats["udp_ru_utime"].is_number() && stats["uptime"].as_f64() > Some(0.0));
    let status = site.get("/api/v1/reports/status")["rows"][0].clone();
    assert_eq!(status["current_timer_pool_size"], 24);

    let listed = site.listed("v2_active").unwrap();
    assert_members!(listed => {
        "kind": "status", "comment": "v2/active", "rows": 20, "defined": "built-in",
    });
}

#[test]
fn tables_of_the_daemons_own_can_have_other_names_and_cannot_be_dropped() {
    let site = start(&["report=[{name = \"stats\", comment = \"v2/stats\"}]"]);
    // A name of somebody's own comes before an alias.
    assert_eq!(site.listed("stats").unwrap()["defined"], "configuration");
    for (name, comment) in [("active", "v2/active"), ("who", "active_reports")] {
        let (status, made) = site.post(&json!({"name": name, "comment": comment}));
        assert_eq!((status, &made["kind"]), (201, &json!("status")), "{made}");
    }
    assert!(site.get("/api/v1/reports/active")["rows"][0]["tick_count"].is_number());
    assert!(site.get("/api/v1/reports/who")["rows"][0]["use_cnt"].is_number());
    assert_eq!(site.delete("active").0, 200);
    // The alias again.
    assert!(site.get("/api/v1/reports/active")["rows"][0]["use_cnt"].is_number());
    for name in ["active", "active_reports", "status", "v2_stats", "stats"] {
        assert_eq!(site.delete(name).0, 409, "{name}");
    }
    let (status, problem) = site.post(&json!({"name": "v2_stats", "comment": "report1"}));
    assert_eq!(status, 409, "{problem}");
    let (status, problem) = site.post(&json!({"name": "raw", "comment": "request"}));
    assert_eq!(status, 400, "{problem}");
}

#[test]
fn a_report_of_pinba2_has_the_window_of_its_comment_and_a_table_of_now_has_none() {
    let site = start(&[]);
    for (name, comment, window) in cases![
        "own" => "v2/request/60/~script/no_percentiles/no_filters", 60;
        "default" => "v2/packet/default_history_time/no_keys/no_percentiles/no_filters", 900;
        "who" => "v2/active", 0;
        "what" => "v2/stats", 0;
    ] {
        let (status, made) = site.post(&json!({"name": name, "comment": comment}));
        assert_eq!((status, &made["window_seconds"]), (201, &json!(window)), "{made}");
        let read = site.get(&format!("/api/v1/reports/{name}"));
        assert_eq!(read["window_seconds"], json!(window), "{read}");
    }
}

#[test]
fn groups_that_are_folded_show_in_active_reports() {
    let site = start(&["reports.rows_max=1"]);
    site.send(6);
    let row = site.row("active_reports", "name", "./pinba/report_by_script_name");
    assert_members!(row => {"results_cnt": 2, "flags": "indexed, folded: 2 groups"});
    let row = site.row("active_reports", "name", "./pinba/report_by_hostname");
    assert_members!(row => {"results_cnt": 1, "flags": "indexed"});
}

/// Runs the program and gives exit code, stdout and stderr.
fn program(arguments: &[&str]) -> (Option<i32>, String, String) {
    let said = run(pinbad().args(arguments));
    (said.code, said.out, said.err)
}

#[test]
fn a_dump_is_imported_into_a_running_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let dump = dir.path().join("pinba.sql");
    std::fs::write(
        &dump,
        "CREATE TABLE `request` (\n  `id` int(11) NOT NULL\n) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='request';\n\
         CREATE TABLE `report_by_script_name` (\n  `a` int(11)\n) ENGINE=PINBA COMMENT='report1';\n\
         CREATE TABLE `by_group` (\n  `a` int(11)\n) ENGINE=PINBA COMMENT='tag_info:group::95';\n\
         CREATE TABLE `users` (\n  `a` int(11)\n) ENGINE=InnoDB;\n\
         CREATE TABLE `native` (\n  `a` int(11)\n) ENGINE=PINBA\n\
           COMMENT='{\"level\":\"timer\",\"keys\":[\"@group\"],\"window\":\"5s\"}';\n",
    )
    .unwrap();
    let dump = dump.display().to_string();
    let site = start(&["pool.stats_history=7m"]);
    let url = site.url();
    let (code, out, err) = program(&["import", &dump, "--url", &url]);
    assert_eq!(
        out,
        "already there  request\n\
         already there  report_by_script_name\n\
         taken          by_group: tag_info:group::95\n\
         taken          native: {\"level\":\"timer\",\"keys\":[\"@group\"],\"window\":\"5s\"}\n\
         2 taken, 2 already there, 0 not taken; 1 table of another engine passed over.\n"
    );
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("the daemon has no state.dir"), "{err}");
    let made = site.listed("by_group").unwrap();
    assert_members!(made => {"comment": "tag_info:group::95", "window_seconds": 420});
    assert_eq!(site.listed("native").unwrap()["window_seconds"], 5);

    // Once more: nothing to do. And one that cannot be.
    let (code, out, _) = program(&["import", &dump, "--url", &url]);
    assert_eq!(code, Some(0));
    assert_has!(out => "\n0 taken, 4 already there, 0 not taken");
    let bad = dir.path().join("bad.sql");
    std::fs::write(
        &bad,
        "CREATE TABLE by_group (a int) ENGINE=PINBA COMMENT='tag_info:other'; \
         CREATE TABLE odd (a int) ENGINE=PINBA COMMENT='tag_info';",
    )
    .unwrap();
    let (code, out, _) = program(&["import", &bad.display().to_string(), "--url", &url]);
    assert_eq!(code, Some(1));
    assert_has!(out => "not taken      by_group: there is another report of this name");
    assert_has!(out => "not taken      odd: COMMENT 'tag_info', position");

    // By configuration, and where nobody is.
    let config = dir.path().join("pinbad.toml");
    let address = site.0.site.http;
    std::fs::write(&config, format!("[http]\nlisten = \"{address}\"\n")).unwrap();
    let config = config.display().to_string();
    assert_eq!(program(&["import", &dump, "--config", &config]).0, Some(0));
    drop(site);
    let (code, _, err) = program(&["import", &dump, "--config", &config]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with(&format!("pinbad: http://{address}: ")), "{err}");
    let (code, _, err) = program(&["import", "/nowhere.sql"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("pinbad: cannot read /nowhere.sql: "), "{err}");
}

#[test]
fn tables_prints_what_import_reads() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let site = in_dir(&state);
    for form in [
        json!({"name": "mine", "comment": "tag_report:it's"}),
        json!({"name": "native", "level": "request", "keys": ["+env"], "filters": ["script_name=/a*"]}),
        json!({"name": "who", "comment": "v2/active"}),
    ] {
        assert_eq!(site.post(&form).0, 201);
    }
    // While the daemon runs, and holds the lock.
    let state_dir = state.display().to_string();
    let report = "report=[{name = \"fixed\", comment = \"report1:::99.9\"}]";
    let (code, sql, err) = program(&["tables", "--state-dir", &state_dir, "--set", report]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let tables: Vec<&str> = sql
        .lines()
        .filter_map(|line| line.strip_prefix("CREATE TABLE `")?.strip_suffix("` ("))
        .collect();
    assert_eq!(tables.len(), 8 + 19 + 1 + 3);
    assert_eq!(tables[..2], ["request", "timer"]);
    assert_eq!(tables[8], "info");
    assert_eq!(tables[27..], ["fixed", "mine", "native", "who"]);
    assert!(sql.contains("COMMENT='tag_report:it''s';"), "{sql}");
    drop(site);

    // All of it into a daemon that has nothing but what is built in.
    let dump = dir.path().join("pinbad.sql");
    std::fs::write(&dump, &sql).unwrap();
    let site = start(&[]);
    let url = site.url();
    let (code, out, _) = program(&["import", &dump.display().to_string(), "--url", &url]);
    assert_eq!(code, Some(0), "{out}");
    assert_has!(out => "\n4 taken, 27 already there, 0 not taken.");
    let native = site.listed("native").unwrap();
    assert_eq!(native["definition"]["filters"], json!(["script_name=/a*"]));
}

#[test]
fn tables_tells_what_is_left_out_and_what_is_corrupt() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reports.json");
    let setting = format!("state.dir={}", dir.path().display());
    std::fs::write(&file, r#"{"version": 1, "reports": [{"name": "odd", "comment": "odd"}]}"#)
        .unwrap();
    let (code, sql, err) = program(&["tables", "--set", &setting]);
    assert_eq!(code, Some(0));
    assert_eq!(sql.matches("CREATE TABLE").count(), 27);
    assert!(err.starts_with("pinbad: left out odd: COMMENT 'odd'"), "{err}");
    std::fs::write(&file, "half").unwrap();
    let (code, _, err) = program(&["tables", "--set", &setting]);
    assert_eq!(code, Some(1));
    assert!(err.contains("reports.json is corrupt"), "{err}");
    // Looking changes nothing.
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "half");
}

#[test]
fn a_wrong_report_in_the_configuration_is_told_with_file_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("pinbad.toml");
    std::fs::write(
        &config,
        "[[report]]\nname = \"a\"\nlevel = \"timer\"\nkeys = [\"@a\", \"@a\"]\n",
    )
    .unwrap();
    let config = config.display().to_string();
    for command in ["serve", "check", "tables"] {
        let (code, _, err) = program(&[command, "--config", &config]);
        assert_eq!(code, Some(2), "{command}: {err}");
        let told = format!("pinbad: {config}:4: report.keys[1]: the key '@a' is given twice");
        assert!(err.contains(&told), "{command}: {err}");
    }
}
