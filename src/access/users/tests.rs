//! Secrets from files and variables, and the users they admit.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::config::Config;

fn load(entries: &str, variables: &[(&str, &str)]) -> Result<Users, SecretError> {
    let config = Config::from_toml("pinbad.toml", entries).unwrap();
    Users::load(&config.users, |name| {
        let found = variables.iter().find(|(given, _)| *given == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

fn by_password(users: &Users, name: &str, plain: &[u8]) -> Option<Role> {
    let found = users.by_password(name, |kept| kept.is(plain));
    found.map(|identity| identity.role)
}

#[test]
fn files_and_variables_lose_their_line_end_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let entry = format!("[[user]]\nname = \"kim\"\nrole = \"admin\"\npassword_file = {path:?}\n");
    for content in ["s p\u{e4}ce ", "s p\u{e4}ce \n", "s p\u{e4}ce \r\n"] {
        fs::write(&path, content).unwrap();
        let users = load(&entry, &[]).unwrap();
        let right = "s p\u{e4}ce ".as_bytes();
        assert_eq!(by_password(&users, "kim", right), Some(Role::Admin));
        assert_eq!(by_password(&users, "kim", b"s"), None);
        assert_eq!(by_password(&users, "Kim", right), None);
    }
    let entry = "[[user]]\nname = \"lee\"\npassword_env = \"P\"\ntoken_env = \"T\"\n";
    let token = "0123456789abcdef";
    let users = load(entry, &[("P", "x"), ("T", token)]).unwrap();
    assert_eq!(by_password(&users, "lee", b"x"), Some(Role::Read));
    assert_eq!(&*users.by_token(token.as_bytes()).unwrap().name.unwrap(), "lee");
    assert_eq!(users.by_token(b"0123456789abcdee"), None);
    assert_eq!(users.by_token(b""), None);
    assert_eq!(by_password(&users, "kim", b"x"), None);
}

#[test]
fn nobody_comes_in_without_a_password_of_their_own() {
    let entry = "[[user]]\nname = \"bot\"\ntoken_env = \"T\"\n";
    let users = load(entry, &[("T", "0123456789abcdef")]).unwrap();
    // The digest that stands in for unknown users is that of the empty password, which must not
    // admit anyone.
    for name in ["bot", "nobody", ""] {
        for plain in [&b""[..], b"0123456789abcdef"] {
            assert_eq!(by_password(&users, name, plain), None, "{name}");
        }
    }
    assert!(Users::none().is_empty() && !users.is_empty());
}

#[test]
fn a_secret_that_cannot_be_used_is_named_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let password = format!("[[user]]\nname = \"a\"\npassword_file = {path:?}\n");
    let token = format!("[[user]]\nname = \"a\"\ntoken_file = {path:?}\n");
    let long = "hunter2".repeat(200);
    for (entry, content, problem) in [
        (&password, None, "No such file"),
        (&password, Some(""), "empty"),
        (&password, Some("\n"), "empty"),
        (&password, Some("hunter2\n\nhunter2\n"), "more than one line"),
        (&password, Some(long.as_str()), "too long"),
        (&token, Some("hunter2"), "too short"),
        (&token, Some("hunter2 hunter2 hunter2"), "a character"),
        (&token, Some(long.as_str()), "too long"),
    ] {
        drop(fs::remove_file(&path));
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let shown = load(entry, &[]).unwrap_err().to_string();
        assert!(shown.starts_with("pinbad.toml:1: user."), "{shown}");
        assert!(shown.contains(path.to_str().unwrap()), "{shown}");
        assert_has!(shown => problem, "accepted: ");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let entry = "[[user]]\nname = \"a\"\npassword_env = \"NOT_THERE\"\n";
    assert_eq!(
        load(entry, &[]).unwrap_err().to_string(),
        "pinbad.toml:1: user.password_env = NOT_THERE: there is no such variable; accepted: 1 to 1024 bytes, the line \
         end apart"
    );
    let device = "[[user]]\nname = \"a\"\npassword_file = \"/dev/zero\"\n";
    assert_has!(load(device, &[]).unwrap_err().to_string() => "it is a device, not a regular file");
}

#[test]
fn debug_shows_names_and_no_digests() {
    let entry = "[[user]]\nname = \"kim\"\npassword_env = \"P\"\ntoken_env = \"T\"\n";
    let users = load(entry, &[("P", "x"), ("T", "0123456789abcdef")]).unwrap();
    let shown = format!("{users:?}");
    assert_has!(shown => "kim", "(not shown)");
    assert!(!shown.contains('['.to_string().repeat(2).as_str()), "{shown}");
    assert!(!shown.chars().any(|letter| letter.is_ascii_digit()), "{shown}");
}

#[test]
fn a_file_of_secrets_that_all_may_read_is_still_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let entry = format!("[[user]]\nname = \"kim\"\npassword_file = {path:?}\n");
    assert!(load(&entry, &[]).is_ok());
}
