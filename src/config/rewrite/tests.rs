//! Entries as written, and the rules they become.

use crate::config::Config;
use crate::limits::REWRITES_MAX;

use super::*;

fn rules(text: &str) -> Vec<RewriteRule> {
    Config::from_toml("pinbad.toml", text).unwrap().rewrites
}

fn errors(text: &str) -> Vec<String> {
    let errors = Config::from_toml("pinbad.toml", text).unwrap_err();
    errors.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn every_form_is_read_in_order_with_its_place() {
    let rules = rules(
        "[[rewrite]]\nfield = \"script_name\"\ncut = \"?\"\n\
         [[rewrite]]\nfield = 'script_name'\npattern = '^/user/(\\d+)'\nreplace = '/user/*'\nstop = true\n\
         [[rewrite]]\nfield = '+env'\ndigits = ''\n\
         [[rewrite]]\nfield = '@server'\nprefix = 'db-'\nreplace = ''\nstop = false\n",
    );
    let shown: Vec<_> = rules
        .iter()
        .map(|rule| {
            (
                rule.location.to_string(),
                rule.field.to_string(),
                rule.change.form(),
                rule.change.pattern(),
                rule.change.replace(),
                rule.stop,
            )
        })
        .collect();
    let at = |line: u32| format!("pinbad.toml:{line}");
    let field = |field: &str| field.to_owned();
    assert_eq!(
        shown,
        cases![
            at(1) => field("script_name"), "cut", Some("?"), "", false;
            at(4) => field("script_name"), "pattern", Some("^/user/(\\d+)"), "/user/*", true;
            at(9) => field("+env"), "digits", None, "", false;
            at(12) => field("@server"), "prefix", Some("db-"), "", false;
        ]
    );
    let field = RewriteField::Tag(TagOf::Timer, "server".to_owned());
    assert_eq!(rules[3].field, field);
}

#[test]
fn all_fields_are_named() {
    for field in ["hostname", "server_name", "script_name", "schema", "+a b", "@ä", "++", "@@"] {
        let rules = rules(&format!("[[rewrite]]\nfield = \"{field}\"\ncut = \"x\"\n"));
        assert_eq!(rules[0].field.to_string(), field);
    }
}

/// Errors for a script-name entry with this body, which starts at line 3.
fn refused(body: &str) -> String {
    let errors = errors(&format!("[[rewrite]]\nfield = 'script_name'\n{body}\n"));
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors[0].clone()
}

#[test]
fn an_error_names_line_key_and_what_is_accepted() {
    for (body, expected) in cases![
        "" =>
            "pinbad.toml:1: rewrite: nothing says which texts match; accepted: one of pattern, cut, digits, prefix";
        "cut = '?'\ndigits = '*'" =>
            "pinbad.toml:4: rewrite.digits = '*': there is cut too, and only one of them may be given; accepted: one of \
             pattern, cut, digits, prefix";
        "cut = ''" =>
            "pinbad.toml:3: rewrite.cut = '': empty; accepted: the text from which on all goes, as in \"?\"";
        "cut = 3" =>
            "pinbad.toml:3: rewrite.cut = 3: not a text; accepted: the text from which on all goes, as in \"?\"";
        "cut = '?'\nreplace = ''" =>
            "pinbad.toml:4: rewrite.replace = '': cut takes none; accepted: leave it out: what is cut off is gone";
        "prefix = '/static/'" =>
            "pinbad.toml:1: rewrite: no replace; accepted: replace = what a text that begins so becomes, all of it, as \
             in \"/static/*\"";
        "pattern = 'a'\nreplace = '$1'" =>
            "pinbad.toml:4: rewrite.replace = '$1': the pattern has no groups, and none is called '1'; accepted: a \
             text; $1 to $99 and ${name} stand for groups of the pattern, $$ for a dollar";
        "cut = '?'\nstop = 1" =>
            "pinbad.toml:4: rewrite.stop = 1: neither true nor false; accepted: true, false";
        "cut = '?'\nreplcae = 'x'" =>
            "pinbad.toml:4: rewrite.replcae = 'x': unknown setting; did you mean rewrite.replace?";
        "cut = '?'\nname = 'x'" =>
            "pinbad.toml:4: rewrite.name = 'x': unknown setting; [[rewrite]] takes field, pattern, cut, digits, prefix, \
             replace, stop";
    ] {
        assert_eq!(refused(body), expected);
    }
    for field in ["'+'", "'@'", "'status'", "''", "'user'", "7"] {
        let errors = errors(&format!("[[rewrite]]\ncut = '?'\nfield = {field}\n"));
        assert_eq!(errors.len(), 1);
        let start = format!("pinbad.toml:3: rewrite.field = {field}: not a text");
        assert!(errors[0].starts_with(&start), "{}", errors[0]);
        assert_has!(errors[0] => "accepted: hostname, server_name, script_name, schema, \"+tag\"");
    }
}

#[test]
fn all_slips_of_all_entries_are_found_at_once() {
    let errors = errors(
        "[[rewrite]]\nfeild = 'x'\n[[rewrite]]\nfield = 'schema'\npattern = '('\nreplace = 3\nstop = 'yes'\n",
    );
    let at: Vec<_> = errors.iter().map(|error| error.split(';').next().unwrap()).collect();
    assert_eq!(
        at,
        [
            "pinbad.toml:2: rewrite.feild = 'x': unknown setting",
            "pinbad.toml:1: rewrite: no field",
            "pinbad.toml:1: rewrite: nothing says which texts match",
            "pinbad.toml:6: rewrite.replace = 3: not a text",
            "pinbad.toml:5: rewrite.pattern = '(': unclosed group",
            "pinbad.toml:7: rewrite.stop = 'yes': neither true nor false",
        ]
    );
}

#[test]
fn patterns_that_cannot_be_are_refused_in_one_line() {
    for (pattern, problem) in cases![
        "" => "empty";
        "a(?=b)" => "look-around, including look-ahead and look-behind, is not supported";
        "(a)\\1" => "backreferences are not supported";
        "[z-a]" => "invalid character class range, the start must be <= the end";
        "a**b{2,1}" => "invalid repetition count range, the start must be <= the end";
    ] {
        let error = refused(&format!("pattern = '{pattern}'\nreplace = 'x'"));
        let expected =
            format!("pinbad.toml:3: rewrite.pattern = '{pattern}': {problem}; accepted: a regular");
        assert!(error.starts_with(&expected), "{error}");
    }
    let huge = refused("pattern = '(\\w{90}){90}'\nreplace = ''");
    assert!(huge.contains("takes more than 1024 KiB compiled"), "{huge}");
    let long = refused(&format!("pattern = '{}'\nreplace = ''", "a".repeat(1025)));
    assert!(long.contains("longer than 1024 bytes"), "{long}");
    assert_eq!(
        rules(&format!("[[rewrite]]\nfield = 'schema'\ncut = '{}'\n", "a".repeat(1024))).len(),
        1
    );
}

#[test]
fn more_entries_than_there_can_be_are_refused() {
    let entries = |count: usize| "[[rewrite]]\nfield = 'schema'\ncut = '?'\n".repeat(count);
    assert_eq!(rules(&entries(REWRITES_MAX)).len(), REWRITES_MAX);
    assert_eq!(
        errors(&entries(REWRITES_MAX + 2)),
        [format!("pinbad.toml:{}: rewrite: 66 entries; accepted: up to 64", 64 * 3 + 1)]
    );
}

#[test]
fn rules_can_be_typed_on_the_command_line() {
    let flags = crate::config::ConfigFlags {
        set: vec!["rewrite=[{field='script_name',cut='?'}]".to_owned()],
        ..Default::default()
    };
    let config = Config::load(&flags, []).unwrap();
    assert_eq!(config.rewrites[0].location.to_string(), "--set");
    let flags = crate::config::ConfigFlags {
        set: vec!["rewrite=[{field=x}]".to_owned()],
        ..Default::default()
    };
    assert_eq!(
        Config::load(&flags, []).unwrap_err().to_string(),
        "--set: rewrite = [{field=x}]: not valid TOML; accepted: a list of tables, quoted for the shell: --set \
         'rewrite=[{field = \"script_name\", ..}]'"
    );
}
