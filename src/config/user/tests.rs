//! Valid and invalid entries; no error repeats a secret.

use crate::config::secret::Secret;
use crate::config::user::{ConfiguredPassword, Role, SecretFrom};
use crate::config::{Config, ConfigErrors, ConfigFlags};

const FILE: &str = "pinbad.toml";

fn lines(result: Result<Config, ConfigErrors>) -> Vec<String> {
    let errors = result.map(|_| ()).unwrap_err();
    errors.0.iter().map(ToString::to_string).collect()
}

fn errors_of(text: &str) -> Vec<String> {
    lines(Config::from_toml(FILE, text))
}

#[test]
fn every_kind_of_secret_is_read() {
    let text = "[[user]]\nname = \"kim\"\nrole = \"admin\"\npassword_file = \"/p\"\ntoken_env = \"T\"\n\
        [[user]]\nname = \"lee\"\nmysql_native_hash = \"*2470C0C06DEE42fd1618bb99005ADCA2EC9D1E19\"\n\
        [[user]]\nname = \"max\"\npassword = \"x y\"\n\
        [[user]]\nname = \"ann\"\nrole = \"read\"\npassword_env = \"P\"\ntoken_file = \"t\"\n";
    let users = Config::from_toml(FILE, text).unwrap().users;
    let names = users.iter().map(|user| (user.name.as_str(), user.role));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [("kim", Role::Admin), ("lee", Role::Read), ("max", Role::Read), ("ann", Role::Read)]
    );
    let plain = |from| Some(ConfiguredPassword::Plain(from));
    assert_eq!(users[0].password, plain(SecretFrom::File("/p".into())));
    assert_eq!(users[0].token, Some(SecretFrom::Variable("T".into())));
    let Some(ConfiguredPassword::NativeHash(hash)) = &users[1].password else {
        panic!("{users:?}")
    };
    assert_eq!((hash.reveal().len(), hash.reveal()[..3].to_vec()), (20, vec![0x24, 0x70, 0xc0]));
    assert_eq!(users[2].password, plain(SecretFrom::Inline(Secret::new("x y"))));
    assert_eq!(users[3].variables().collect::<Vec<_>>(), ["P"]);
    assert_eq!(users[2].location.to_string(), "pinbad.toml:9");
}

#[test]
fn what_is_wrong_is_named_with_what_is_accepted() {
    let hash = "a".repeat(39);
    for (entry, parts) in cases![
        "" => &["user: nothing to log in with", "password_file", "token_env"][..];
        "password_file = \"p\"" => &["user: no name", "64 bytes"];
        "name = \"\"\npassword_file = \"p\"" => &["user.name = \"\": empty"];
        "name = \"a:b\"\npassword_file = \"p\"" => &["user.name", "a:b", "colon"];
        "name = \"a\\u0007\"\npassword_file = \"p\"" => &["user.name", "control"];
        "name = \"a\"" => &["nothing to log in with"];
        "name = \"a\"\nrole = \"root\"\npassword_file = \"p\"" =>
            &["user.role", "root", "read, annotate, admin"];
        "name = 1\npassword_file = \"p\"" => &["user.name = 1: not a text"];
        "name = \"a\"\npassword_file = \"p\"\npassword_env = \"q\"" =>
            &["user.password_env", "there is password_file too", "one of"];
        "name = \"a\"\ntoken_file = \"p\"\ntoken_env = \"q\"" =>
            &["user.token_env", "there is token_file too"];
        "name = \"a\"\ntoken_file = \"\"" => &["user.token_file", "path of a file"];
        "name = \"a\"\npassword_env = \"A=B\"" => &["user.password_env", "variable"];
        "name = \"a\"\npassword = \"\"" => &["user.password = (not shown): empty"];
        &format!("name = \"a\"\nmysql_native_hash = \"*{hash}\"") =>
            &["user.mysql_native_hash = (not shown): not such a hash", "40 hexadecimal"];
        "name = \"a\"\npasswort = \"p\"" =>
            &["user.passwort: unknown setting", "did you mean user.password?"];
        "name = \"a\"\ntoken = \"p\"\ntoken_file = \"p\"" =>
            &["user.token: unknown setting", "token_file"];
    ] {
        let errors = errors_of(&format!("[[user]]\n{entry}\n"));
        let all = errors.join("\n");
        assert!(all.contains("pinbad.toml:"), "{all}");
        for part in parts {
            assert!(all.contains(part), "{part:?} is not in {all}");
        }
    }
    let twice = "[[user]]\nname = \"a\"\npassword_file = \"p\"\n".repeat(2);
    assert_eq!(
        errors_of(&twice)[0],
        "pinbad.toml:5: user.name = \"a\": used by the entry at pinbad.toml:1 too; accepted: 1 to 64 bytes without a \
         colon, without control characters, and not used twice"
    );
    let many: String = (0..257)
        .map(|number| format!("[[user]]\nname = \"u{number}\"\npassword_file = \"p\"\n"))
        .collect();
    assert_eq!(errors_of(&many), ["pinbad.toml:769: user: 257 entries; accepted: up to 256"]);
}

/// No error and no `{:?}` shows the secret, whatever else is wrong.
#[test]
fn no_error_and_no_debug_repeats_a_secret() {
    let secret = "hunter2-hunter2-hunter2";
    for text in [
        "[[user]]\nname = \"a\"\npassword = \"SECRET\"\npassword_file = \"p\"\n",
        "[[user]]\nname = \"a\"\npassword_file = \"p\"\npassword = \"SECRET\"\n",
        "[[user]]\nname = \"a\"\npasword = \"SECRET\"\n",
        "[[user]]\nname = \"a\"\nPASSWORT = \"SECRET\"\n",
        "[[user]]\nname = \"a\"\nkey = \"SECRET\"\n",
        "[[user]]\nname = \"a\"\npassword = [\"SECRET\"]\n",
        "[[user]]\nname = \"a\"\nmysql_native_hash = \"SECRET\"\n",
        "[[user]]\nrole = 7\npassword = \"SECRET\"\n",
        "[[user]]\nname = \"a\"\npassword = SECRET\n",
        "[[user]]\nname = \"a\"\npassword = \"SECRET\n",
        "[[user]]\nname = \"a\"\npassword = \"SECRET\"\npassword = \"SECRET\"\n",
        "[user]\nname = \"a\"\npassword = \"SECRET\"\n",
        "user = [\"SECRET\"]\n",
        "user = \"SECRET\"\n",
        "user = [{name = \"a\", password = \"SECRET\"}, 1]\n",
        "[http]\npassword = \"SECRET\"\n",
        "[http]\nadmin_token = \"SECRET\"\n",
        "password = \"SECRET\"\n",
        "[[users]]\nname = \"a\"\npassword = \"SECRET\"\n",
    ] {
        let text = text.replace("SECRET", secret);
        let errors = Config::from_toml(FILE, &text).unwrap_err();
        for shown in [errors.to_string(), format!("{errors:?}")] {
            assert!(!shown.is_empty() && !shown.contains("hunter2"), "{text}: {shown}");
        }
    }
    for typed in [
        "user=[{name = \"a\", password = \"SECRET\"}]",
        "user=[{name = \"a\", mysql_native_hash = \"SECRET\"}]",
        "user=[{name = \"a\", password = \"SECRET}]",
        "user=[{name = a, password = SECRET}]",
        "user={password = \"SECRET\"}",
        "user=SECRET",
        "user.password=SECRET",
        "http.password=SECRET",
    ] {
        let flags =
            ConfigFlags { set: vec![typed.replace("SECRET", secret)], ..ConfigFlags::default() };
        let errors = Config::load(&flags, []).unwrap_err();
        for shown in [errors.to_string(), format!("{errors:?}")] {
            assert!(!shown.contains("hunter2"), "{typed}: {shown}");
        }
    }
    let text = format!("[[user]]\nname = \"a\"\npassword = \"{secret}\"\n");
    let config = Config::from_toml(FILE, &text).unwrap();
    let shown = format!("{config:?} {config:#?}");
    assert_has!(shown => "(not shown)");
    assert_lacks!(shown => "hunter2");
}

#[test]
fn a_password_on_the_command_line_is_refused_and_says_why() {
    let flags = ConfigFlags {
        set: vec!["user=[{name = \"a\", password = \"hunter2\"}]".to_owned()],
        ..ConfigFlags::default()
    };
    assert_eq!(
        lines(Config::load(&flags, [])),
        [
            "--set: user.password = (not shown): everybody on this machine can read the command line of a process \
             (ps); accepted: the configuration file; or password_file"
        ]
    );
    let flags = ConfigFlags {
        set: vec!["user=[{name = \"a\", password_file = \"/p\"}]".to_owned()],
        ..ConfigFlags::default()
    };
    assert_eq!(Config::load(&flags, []).unwrap().users.len(), 1);
}

/// `PINBAD_...` variables must be settings, unless one holds a user's secret.
#[test]
fn a_variable_that_holds_a_secret_is_no_unknown_setting() {
    let flags = ConfigFlags {
        set: vec!["user=[{name = \"a\", password_env = \"PINBAD_ADMIN\"}]".to_owned()],
        ..ConfigFlags::default()
    };
    let variables = [("PINBAD_ADMIN".into(), "hunter2".into())];
    assert!(Config::load(&flags, variables.clone()).is_ok());
    let errors = lines(Config::load(&ConfigFlags::default(), variables));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("PINBAD_ADMIN: no setting"), "{errors:?}");
    assert!(!errors[0].contains("hunter2"), "{errors:?}");
}

/// An address that is not loopback needs credentials that the front end can check.
#[test]
fn users_open_an_address_that_is_not_loopback() {
    let with = |user: &str, section: &str| {
        Config::from_toml(
            FILE,
            &format!("[{section}]\nlisten = \"0.0.0.0:4000\"\n[[user]]\nname = \"a\"\n{user}\n"),
        )
    };
    assert!(with("token_file = \"t\"", "http").is_ok());
    assert!(with("password_file = \"p\"", "http").is_ok());
    assert!(with("password_file = \"p\"", "mysql").is_ok());
    let errors = lines(with("token_file = \"t\"", "mysql"));
    assert_has!(errors[0] => "mysql.listen", "a [[user]] with a password, or");
}
