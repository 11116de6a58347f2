//! Texts and the results of rules, in tables.

use super::*;
use crate::config::Config;

/// The rules of a configuration, and their counters.
fn rules(text: &str) -> (NameRules, Arc<RuleCounters>) {
    let configured = Config::from_toml("pinbad.toml", text).unwrap().rewrites;
    let counters = Arc::new(RuleCounters::new(configured.len()));
    let rules = NameRules::new(&configured, Hasher::with_seed(1), Arc::clone(&counters));
    (rules, counters)
}

/// Rules about the script name, an entry each.
fn script(entries: &[&str]) -> (NameRules, Arc<RuleCounters>) {
    let entries = entries.iter();
    let text = entries.map(|entry| format!("[[rewrite]]\nfield = 'script_name'\n{entry}\n"));
    rules(&text.collect::<String>())
}

fn changed(rules: &mut NameRules, text: &str) -> Option<String> {
    let chain = rules.field_chain(TextField::ScriptName).unwrap();
    let mut fresh = Vec::new();
    let changed = rules.apply(chain, text.as_bytes(), &mut fresh);
    assert!(changed || fresh.is_empty());
    changed.then(|| String::from_utf8(fresh).unwrap())
}

fn made(rules: &mut NameRules, text: &str) -> String {
    changed(rules, text).unwrap_or_else(|| text.to_owned())
}

/// Tried and matched, by rule.
fn counts(rules: &mut NameRules, counters: &RuleCounters) -> Vec<(u64, u64)> {
    rules.publish_counts();
    let counts = counters.counts();
    counts.iter().map(|counts| (counts.tried, counts.matched)).collect()
}

#[test]
fn each_form_makes_of_a_text_what_its_entry_says() {
    for (entry, cases) in cases![
        "cut = '?'" =>
            &[("/a.php?x=1&y=?", "/a.php"), ("/a.php", "/a.php"), ("?", ""), ("", ""), ("/ä?", "/ä")][..];
        "cut = '→'" => &[("a→b→c", "a"), ("a", "a")];
        "cut = ';jsessionid='" => &[("/a;jsessionid=1", "/a"), ("/a;jsession", "/a;jsession")];
        "digits = '*'" => &[("/user/123", "/user/*"), ("/user/123/", "/user/*/"), ("/1/22/333",
            "/*/*/*"), ("7", "*"), ("//7//", "//*//"), ("/user/12a/3b", "/user/12a/3b"),
            ("/user/12?x=3", "/user/12?x=3"), ("/", "/"), ("", ""), ("/٣", "/٣")];
        "digits = ''" => &[("/user/123/edit", "/user//edit")];
        "prefix = '/static/'\nreplace = '/static/*'" => &[("/static/css/a.css", "/static/*"),
            ("/static/", "/static/*"), ("/static", "/static"), ("/x/static/", "/x/static/")];
        "pattern = '^/user/\\d+'\nreplace = '/user/*'" => &[("/user/123", "/user/*"),
            ("/user/123/edit", "/user/*/edit"), ("/user/x", "/user/x"), ("/a/user/1", "/a/user/1"),
            ("", "")];
        // All matches, as PHP's preg_replace does it.
        "pattern = '/\\d+'\nreplace = '/*'" => &[("/1/22/a/333", "/*/*/a/*")];
        "pattern = '([a-z]+)-(?<id>[0-9]+)(x)?'\nreplace = '${id}:$1$3$$'" =>
            &[("ab-12, c-3x", "12:ab$, 3:cx$")];
        "pattern = '(?i)^/INDEX\\.php$'\nreplace = '/'" =>
            &[("/Index.PHP", "/"), ("/Index_PHP", "/Index_PHP")];
        "pattern = '\\bid'\nreplace = '<$0>'" => &[("id-id paid", "<id>-<id> paid")];
        // Empty matches lie between characters, never inside one.
        "pattern = 'x*'\nreplace = '-'" => &[("aäx", "-a-ä-"), ("", "-")];
        "pattern = '^$'\nreplace = '(none)'" => &[("", "(none)"), ("a", "a")];
        "pattern = 'ä|ö'\nreplace = '→'" => &[("täöt", "t→→t")];
    ] {
        let (mut rules, _) = script(&[entry]);
        for (text, expected) in cases {
            // Twice: computed, and perhaps cached.
            for round in 0..2 {
                let expected = (text != expected).then(|| (*expected).to_owned());
                assert_eq!(changed(&mut rules, text), expected, "{entry}: {text:?} ({round})");
            }
        }
    }
}

#[test]
fn rules_run_in_order_each_on_the_result_of_the_one_before() {
    let cut = "cut = '?'";
    let user = "pattern = '^/user/[^/]+$'\nreplace = '/user/*'";
    let star = "prefix = '/user/*'\nreplace = '/people'";
    let text = "/user/1?from=/home";
    for (entries, expected) in [
        (&[cut, user, star][..], "/people"),
        (&[user, cut, star], "/user/1"),
        (&[star, user, cut], "/user/1"),
        (&[cut, user], "/user/*"),
    ] {
        let (mut rules, _) = script(entries);
        assert_eq!(made(&mut rules, text), expected, "{entries:?}");
    }
}

#[test]
fn stop_ends_a_chain_after_a_match_and_only_then() {
    let (mut rules, counters) = script(&[
        "prefix = '/api/'\nreplace = '/api/1/*'\nstop = true",
        "digits = '#'",
        "cut = '1'\nstop = true",
    ]);
    assert_eq!(made(&mut rules, "/api/2/3"), "/api/1/*");
    assert_eq!(made(&mut rules, "/user/2/3"), "/user/#/#");
    assert_eq!(made(&mut rules, "/x1"), "/x");
    assert_eq!(counts(&mut rules, &counters), [(3, 1), (2, 1), (2, 1)]);
}

#[test]
fn fields_and_tags_have_rules_of_their_own() {
    let (rules, _) = rules(
        "[[rewrite]]\nfield = '@server'\ncut = '-'\n[[rewrite]]\nfield = 'hostname'\ncut = '.'\n\
         [[rewrite]]\nfield = '@server'\ncut = '.'\n[[rewrite]]\nfield = '+env'\ncut = '.'\n",
    );
    assert_eq!(rules.chains.len(), 3);
    assert!(rules.has_tag_chains());
    assert!(rules.field_chain(TextField::Hostname).is_some());
    for field in [TextField::ServerName, TextField::ScriptName, TextField::Schema] {
        assert_eq!(rules.field_chain(field), None);
    }
    for (of, name, has) in [
        (TagOf::Timer, "server", true),
        (TagOf::Request, "server", false),
        (TagOf::Request, "env", true),
        (TagOf::Timer, "env", false),
        (TagOf::Timer, "hostname", false),
        (TagOf::Timer, "Server", false),
        (TagOf::Timer, "", false),
    ] {
        assert_eq!(rules.tag_chain(of, name.as_bytes()).is_some(), has, "{of:?} {name}");
    }
    let (none, _) = super::tests::rules("");
    assert!(!none.has_tag_chains());
}

#[test]
fn counts_are_the_same_whether_a_text_was_seen_before_or_not() {
    let entries = [
        "cut = '?'",
        "pattern = '^/user/\\d+$'\nreplace = '/user/*'\nstop = true",
        "pattern = '/'\nreplace = '/'",
        "pattern = 'nowhere'\nreplace = ''",
    ];
    let (mut rules, counters) = script(&entries);
    for _ in 0..10 {
        for text in ["/user/1", "/user/1?x", "/user/2", "/", "?"] {
            changed(&mut rules, text);
        }
    }
    // The third matches and changes nothing: it counts, and the text stays as sent.
    assert_eq!(changed(&mut rules, "/"), None);
    let expected = [(51, 20), (51, 30), (21, 11), (21, 0)];
    assert_eq!(counts(&mut rules, &counters), expected);
    assert_eq!(counts(&mut rules, &counters), expected, "published once");
    let remarks: Vec<_> = counters.counts().iter().map(RuleCounts::remark).collect();
    assert_eq!(remarks, [None, None, None, Some("never matched")]);
}

#[test]
fn texts_that_share_a_place_among_the_recent_ones_do_not_mix() {
    let (mut rules, counters) = script(&["pattern = '\\d+$'\nreplace = '<$0>'"]);
    for round in 0..3 {
        for number in 0..5000 {
            let text = format!("/{number}");
            assert_eq!(changed(&mut rules, &text), Some(format!("/<{number}>")), "round {round}");
        }
    }
    assert_eq!(counts(&mut rules, &counters), [(15_000, 15_000)]);
    assert_eq!(counters.counts()[0].remark(), Some("matches everything"));
}

#[test]
fn results_end_at_the_cap_with_a_whole_character() {
    let long = "ä".repeat(TEXT_BYTES_MAX / 2);
    for (entry, text, bytes) in cases![
        "pattern = '^'\nreplace = 'x'" => long.as_str(), TEXT_BYTES_MAX - 1;
        "pattern = '^'\nreplace = 'xx'" => &long, TEXT_BYTES_MAX;
        "pattern = '.'\nreplace = '$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0'" => &long,
            TEXT_BYTES_MAX;
        "pattern = '.+'\nreplace = '$0x$0'" => &long, TEXT_BYTES_MAX;
        "digits = '0123456789'" => &"/1".repeat(600), TEXT_BYTES_MAX;
    ] {
        let (mut rules, _) = script(&[entry]);
        let made = made(&mut rules, text);
        assert_eq!(made.len(), bytes, "{entry}");
    }
    // The cut part is gone: no shorter text is appended after it.
    let (mut rules, _) = script(&["pattern = '^'\nreplace = 'x'", "pattern = '$'\nreplace = '!'"]);
    let made = made(&mut rules, &long);
    assert_eq!(made.len(), TEXT_BYTES_MAX);
    assert!(made.ends_with("ä!") && made.starts_with("xä"));
}

#[test]
fn one_rule_replaces_no_more_matches_than_the_limit() {
    let (mut rules, _) = script(&["pattern = 'a'\nreplace = 'b'"]);
    let made = made(&mut rules, &"a".repeat(REWRITE_MATCHES_MAX + 3));
    assert_eq!(made, format!("{}aaa", "b".repeat(REWRITE_MATCHES_MAX)));
}

/// Patterns that stall a backtracking engine, and one for which each of many searches reads to the
/// end.
#[test]
fn no_text_holds_a_receiver_up() {
    for (pattern, text) in [
        ("(a+)+$", format!("{}b", "a".repeat(TEXT_BYTES_MAX - 1))),
        ("(a|a)*(a|aa)*c", "a".repeat(TEXT_BYTES_MAX)),
        (".*[^A-Z]|[A-Z]", "A".repeat(TEXT_BYTES_MAX)),
        ("(?:.*){20}x", "y".repeat(TEXT_BYTES_MAX)),
    ] {
        let (mut rules, _) = script(&[&format!("pattern = '{pattern}'\nreplace = 'z'")]);
        let start = std::time::Instant::now();
        changed(&mut rules, &text);
        // Some milliseconds, unoptimized; a backtracking engine takes years.
        assert!(start.elapsed().as_secs() < 60, "{pattern}: {:?}", start.elapsed());
    }
}
