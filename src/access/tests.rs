//! Who comes in at a front end, with what, and how often it may be tried.

use std::ffi::OsString;

use super::*;
use crate::clock::ManualClock;
use crate::config::Config;

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn far() -> IpAddr {
    "192.0.2.7".parse().unwrap()
}

fn store(entries: &str) -> (Arc<UserStore>, Arc<ManualClock>) {
    let config = Config::from_toml("pinbad.toml", entries).unwrap();
    let users = Users::load(&config.users, |name| Some(OsString::from(name))).unwrap();
    let clock = Arc::new(ManualClock::new(0));
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    (Arc::new(UserStore::new(users, shared)), clock)
}

/// The secret is the name of the variable, see `store`.
const KIM: &str = "[[user]]\nname = \"kim\"\nrole = \"admin\"\npassword_env = \"s3cret\"\ntoken_env = \"a-token-of-kims\
    -own\"\n[[user]]\nname = \"old\"\nmysql_native_hash = \"*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19\"\n";

#[test]
fn without_credentials_one_is_what_the_table_says() {
    let (nobody, _) = store("");
    let (somebody, _) = store(KIM);
    for (users, allow_anonymous, local, elsewhere) in [
        (&nobody, false, Some(Role::Admin), None),
        (&nobody, true, Some(Role::Admin), Some(Role::Read)),
        (&somebody, false, None, None),
        (&somebody, true, Some(Role::Read), Some(Role::Read)),
    ] {
        let access = Access::new(Arc::clone(users), allow_anonymous);
        assert_eq!(access.anonymous(LOCAL), local);
        assert_eq!(access.anonymous("::1".parse().unwrap()), local);
        assert_eq!(access.anonymous("::ffff:127.0.0.1".parse().unwrap()), local);
        assert_eq!(access.anonymous(far()), elsewhere);
        assert_eq!(
            access.anonymous("::ffff:192.0.2.7".parse().unwrap()),
            elsewhere
        );
    }
    assert_eq!(Access::open().anonymous(LOCAL), Some(Role::Admin));
    assert!(Access::open().has_no_users());
}

#[test]
fn proofs_of_all_kinds() {
    let (users, _) = store(KIM);
    let access = Access::new(users, false);
    let kim = Ok(Identity {
        name: Some("kim".into()),
        role: Role::Admin,
    });
    assert_eq!(access.password(far(), "kim", b"s3cret"), kim);
    assert_eq!(access.token(far(), b"a-token-of-kims-own"), kim);
    assert_eq!(
        access.password(far(), "old", b"password").unwrap().role,
        Role::Read
    );
    for (name, plain) in [("kim", "S3cret"), ("kim", ""), ("lee", "s3cret"), ("", "")] {
        let denied = access.password(far(), name, plain.as_bytes());
        assert_eq!(denied, Err(Denied::Wrong), "{name}");
    }
    assert_eq!(access.token(far(), b"a-token"), Err(Denied::Wrong));
    assert_eq!(access.token(far(), b"s3cret"), Err(Denied::Wrong));
    // Digests have the tests for right answers; here for what a session may hand over.
    assert_eq!(
        access.native(far(), "kim", &[1; 20], &[]),
        Err(Denied::Wrong)
    );
    assert_eq!(
        access.sha2(far(), "kim", &[1; 20], &[0; 32]),
        Err(Denied::Wrong)
    );
    assert_eq!(
        access.sha2(far(), "old", &[1; 20], &[0; 32]),
        Err(Denied::OtherWay)
    );
}

#[test]
fn after_ten_failures_a_right_password_waits_too() {
    let (users, clock) = store(KIM);
    let access = Access::new(Arc::clone(&users), false);
    let other_front = Access::new(Arc::clone(&users), true);
    for _ in 0..10 {
        assert_eq!(access.password(far(), "kim", b"wrong"), Err(Denied::Wrong));
    }
    let denied = access.password(far(), "kim", b"s3cret");
    assert_eq!(denied, Err(Denied::TooMany { wait_ms: 1000 }));
    // All ways and all front ends together.
    let denied = other_front.token(far(), b"a-token-of-kims-own");
    assert_eq!(denied, Err(Denied::TooMany { wait_ms: 1000 }));
    let other = users
        .attempts
        .elsewhere(far(), |n| format!("198.51.100.{n}"));
    assert!(access.password(other, "kim", b"s3cret").is_ok());
    assert_eq!(
        (users.attempts.failed.get(), users.attempts.held_back.get()),
        (10, 2)
    );
    clock.advance_ms(1000);
    for _ in 0..100 {
        assert!(access.password(far(), "kim", b"s3cret").is_ok());
    }
    assert_eq!(access.password(far(), "kim", b"wrong"), Err(Denied::Wrong));
    assert!(access.password(far(), "kim", b"s3cret").is_err());
}

#[test]
fn users_can_be_replaced_while_a_front_end_has_them() {
    let (users, _) = store("");
    let access = Access::new(Arc::clone(&users), false);
    assert_eq!(access.anonymous(LOCAL), Some(Role::Admin));
    let config = Config::from_toml("pinbad.toml", KIM).unwrap();
    users.replace(Users::load(&config.users, |name| Some(name.into())).unwrap());
    assert_eq!(access.anonymous(LOCAL), None);
    assert!(access.password(LOCAL, "kim", b"s3cret").is_ok());
    users.replace(Users::none());
    assert_eq!(access.password(LOCAL, "kim", b"s3cret"), Err(Denied::Wrong));
}

#[test]
fn a_refusal_tells_nothing_of_what_was_wrong() {
    assert_eq!(
        Denied::Wrong.to_string(),
        "wrong user name, password or token"
    );
    let wait = Denied::TooMany { wait_ms: 1001 };
    assert!(wait.to_string().ends_with("in 2 s"), "{wait}");
}
