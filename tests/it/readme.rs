//! The commands of the README and of the manual's tours, run as they stand there against
//! `pinbad demo`.
//!
//! Only the ports differ. Each must succeed, and where the page shows an answer, the real one has
//! the same form: the same members or the same CSV columns, an error where it shows one. Commands
//! that build and test are left out.

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;

use crate::harness::{Program, Said, Site, await_condition, await_until, run};

/// The MySQL wire, where it is built.
const MYSQL: &[&str] = match cfg!(feature = "sql") {
    true => &["mysql.listen=127.0.0.1:0"],
    false => &[],
};

/// A fenced block: its language and what stands in it.
#[derive(Debug)]
struct Block<'a> {
    language: &'a str,
    text: &'a str,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    // What stands between fences is every second piece.
    let fenced = text.split("\n```").skip(1).step_by(2);
    fenced
        .map(|block| {
            let (language, text) = block.split_once('\n').unwrap_or((block, ""));
            Block { language, text }
        })
        .collect()
}

/// Whether this test skips a command: builds, itself, and starting the daemon, which it has done
/// already.
fn is_left_out(command: &str) -> bool {
    let without = std::env::var("PINBAD_TESTS_WITHOUT").unwrap_or_default();
    let lacks = |what: &str| without.split(',').any(|left_out| left_out == what);
    command.contains("cargo ")
        || command.contains("tests/run.sh")
        || command.contains("pinbad demo")
        || (lacks("php") && command.starts_with("php "))
        || (lacks("curl") && command.contains("curl "))
        || ((lacks("mariadb") || cfg!(not(feature = "sql"))) && command.contains("mariadb "))
}

/// Runs a block with the ports of this daemon.
fn run_block(site: &Site, block: &str) -> Said {
    let (udp, http) = (site.udp[0].to_string(), site.http.to_string());
    let block = block
        .replace("127.0.0.1:30080", &http)
        .replace("127.0.0.1:30002", &udp)
        .replace("-P 33306", &format!("-P {}", site.mysql.map_or(0, |mysql| mysql.port())))
        .replace("pinbad load ", &format!("pinbad load --target {udp} "))
        .replace("pinbad top ", &format!("pinbad top --url {http} "))
        .replace("pinbad tail ", &format!("pinbad tail --url {http} "))
        .replace("pinbad query ", &format!("pinbad query --url {http} "));
    let program = Path::new(env!("CARGO_BIN_EXE_pinbad")).parent().unwrap();
    let mut path = program.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    run(Command::new("sh")
        .args(["-e", "-c", &block])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PATH", path)
        .env("PINBAD_HTTP_LISTEN", http))
}

/// Pages whose commands are run, in this order, against one daemon.
const PAGES: &[&str] = &["README.md", "src/manual/http.md", "src/manual/migration.md"];

/// Compares an answer with the one that the page shows for it.
#[track_caller]
fn assert_alike(shown: &Block<'_>, said: &Said) {
    let context = || format!("the page shows {shown:#?}, but it is {said:#?}");
    if shown.language == "json" {
        // A shortened answer is not JSON any more; its first member tells enough.
        match serde_json::from_str::<Json>(shown.text) {
            Ok(shown) => {
                let real: Json =
                    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", context()));
                assert_eq!(members(&real), members(&shown), "{}", context());
            }
            Err(_) => {
                let first = shown.text.split(':').next().unwrap();
                assert!(said.out.starts_with(first), "{}", context());
            }
        }
        let refused = |text: &str| text.contains("\"status\":4") && text.contains("\"detail\"");
        assert_eq!(refused(shown.text), refused(&said.out), "{}", context());
    } else {
        // CSV, or columns apart by tabs: the first line has their names.
        let is_head = |line: &&str| {
            let names =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_,\t".contains(c);
            line.contains([',', '\t']) && line.chars().all(names)
        };
        if let Some(head) = shown.text.lines().find(is_head) {
            assert!(said.out.lines().any(|line| line.trim_end() == head), "{}", context());
        }
        assert!(!said.out.contains("\"detail\""), "{}", context());
    }
}

fn members(answer: &Json) -> Vec<&String> {
    answer.as_object().map(|object| object.keys().collect()).unwrap_or_default()
}

#[test]
fn the_commands_of_the_readme_and_the_manual_do_what_they_say() {
    let program = Program::start(&["demo", "--rate", "500"], MYSQL);
    let site = &program.site;
    await_until(
        "the demo is at work",
        || site.rows("report_by_script_name").len(),
        |rows| *rows >= 10,
    );
    await_condition("its busiest script has a chart", || {
        let series = "/api/v1/reports/report_by_script_name/series?script_name=/catalog/search.php";
        let reply = site.get(series);
        if reply.status == 200 { Ok(()) } else { Err(reply) }
    });
    for page in PAGES {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page));
        let text = text.unwrap();
        let done = run_page(site, &blocks(&text));
        assert!(done >= 1, "no command was run of {page}");
    }
}

/// Runs the commands of one page; returns how many they were.
fn run_page(site: &Site, blocks: &[Block<'_>]) -> usize {
    let mut done = 0;
    for (at, block) in blocks.iter().enumerate() {
        if block.language != "sh" || is_left_out(block.text) {
            continue;
        }
        let said = run_block(site, block.text);
        let shown = blocks.get(at + 1).filter(|next| matches!(next.language, "json" | "text"));
        // An import that leaves something out is done and says so in its exit code too.
        let partly = shown.is_some_and(|shown| shown.text.contains("\nnot taken "));
        assert_eq!(said.code, Some(i32::from(partly)), "{}: {said:#?}", block.text);
        if let Some(shown) = shown {
            assert_alike(shown, &said);
        }
        done += 1;
    }
    done
}
