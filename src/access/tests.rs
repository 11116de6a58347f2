//! Access at a front end: with which credentials, and how often it may be tried.

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
        let access = Access::new(users, allow_anonymous, "");
        assert_eq!(access.anonymous(LOCAL), local);
        assert_eq!(access.anonymous("::1".parse().unwrap()), local);
        assert_eq!(access.anonymous("::ffff:127.0.0.1".parse().unwrap()), local);
        assert_eq!(access.anonymous(far()), elsewhere);
        assert_eq!(access.anonymous("::ffff:192.0.2.7".parse().unwrap()), elsewhere);
    }
    assert_eq!(Access::open().anonymous(LOCAL), Some(Role::Admin));
    assert!(Access::open().has_no_users());
}

#[test]
fn proofs_of_all_kinds() {
    let (users, _) = store(KIM);
    let access = Access::new(&users, false, "");
    let kim = Ok(Identity { name: Some("kim".into()), role: Role::Admin });
    assert_eq!(access.password(far(), "kim", b"s3cret"), kim);
    assert_eq!(access.token(far(), b"a-token-of-kims-own"), kim);
    assert_eq!(access.password(far(), "old", b"password").unwrap().role, Role::Read);
    for (name, plain) in [("kim", "S3cret"), ("kim", ""), ("lee", "s3cret"), ("", "")] {
        let denied = access.password(far(), name, plain.as_bytes());
        assert_eq!(denied, Err(Denied::Wrong), "{name}");
    }
    assert_eq!(access.token(far(), b"a-token"), Err(Denied::Wrong));
    assert_eq!(access.token(far(), b"s3cret"), Err(Denied::Wrong));
    // Right answers are tested with the digests; these are the responses a session may pass on.
    assert_eq!(access.native(far(), "kim", &[1; 20], &[]), Err(Denied::Wrong));
}

/// The name of a user of either kind and an unknown name get the same answers and the same count.
#[test]
fn a_quick_proof_that_is_wrong_tells_nothing_of_the_name() {
    let (users, _) = store(KIM);
    let access = Access::new(&users, false, "");
    let unproved = |peer, name: &str| match access.sha2(peer, name, &[1; 20], &[0; 32]) {
        Ok(Quick::Unproved(unproved)) => unproved,
        other => panic!("{name}: {other:?}"),
    };
    for (at, name) in ["kim", "old", "lee", ""].into_iter().enumerate() {
        let denied = unproved(far(), name).password(b"wrong");
        assert_eq!(denied, Err(Denied::Wrong), "{name}");
        // A peer that leaves without the second step has made an attempt too.
        drop(unproved(far(), name));
        assert_eq!(users.attempts.counters.logins_failed.get(), 2 * (at as u64 + 1), "{name}");
    }
    // Both steps with a right password are one attempt, which is not counted.
    for _ in 0..100 {
        for (name, plain) in [("kim", "s3cret"), ("old", "password")] {
            let known = unproved(far(), name).password(plain.as_bytes());
            assert_eq!(known.unwrap().name.as_deref(), Some(name));
        }
    }
    assert_eq!(users.attempts.counters.logins_failed.get(), 8);
    drop((unproved(far(), "old"), unproved(far(), "lee")));
    for name in ["kim", "old", "lee"] {
        let denied = access.sha2(far(), name, &[1; 20], &[0; 32]).unwrap_err();
        assert_eq!(denied, Denied::TooMany { wait_ms: 1000 }, "{name}");
    }
}

#[test]
fn after_ten_failures_a_right_password_waits_too() {
    let (users, clock) = store(KIM);
    let access = Access::new(&users, false, "");
    let other_front = Access::new(&users, true, "");
    for _ in 0..10 {
        assert_eq!(access.password(far(), "kim", b"wrong"), Err(Denied::Wrong));
    }
    let denied = access.password(far(), "kim", b"s3cret");
    assert_eq!(denied, Err(Denied::TooMany { wait_ms: 1000 }));
    // All methods and all front ends together.
    let denied = other_front.token(far(), b"a-token-of-kims-own");
    assert_eq!(denied, Err(Denied::TooMany { wait_ms: 1000 }));
    let other = users.attempts.elsewhere(far(), |n| format!("198.51.100.{n}"));
    assert!(access.password(other, "kim", b"s3cret").is_ok());
    assert_eq!(
        (
            users.attempts.counters.logins_failed.get(),
            users.attempts.counters.logins_held_back.get()
        ),
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
    let access = Access::new(&users, false, "");
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
    assert_eq!(Denied::Wrong.to_string(), "wrong user name, password or token");
    let wait = Denied::TooMany { wait_ms: 1001 };
    assert!(wait.to_string().ends_with("in 2 s"), "{wait}");
}

/// Returns true if the pass is revoked now.
fn is_revoked(pass: &Pass) -> bool {
    use std::task::{Context, Poll, Waker};
    let revoked = std::pin::pin!(pass.revoked());
    revoked.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[test]
fn a_pass_is_good_as_long_as_its_user_is_what_it_was() {
    let load = |entries: &str| {
        let config = Config::from_toml("pinbad.toml", entries).unwrap();
        Users::load(&config.users, |name| Some(OsString::from(name))).unwrap()
    };
    let without_kim = &KIM[KIM.rfind("[[user]]").unwrap()..];
    for (entries, kim_stays, old_stays) in cases![
        KIM.to_owned() => true, true;
        format!("[[user]]\nname = \"first\"\npassword_env = \"x\"\n{KIM}") => true, true;
        KIM.replace("s3cret", "an0ther") => false, true;
        KIM.replace("kims", "hers") => false, true;
        KIM.replace("role = \"admin\"", "role = \"read\"") => false, true;
        KIM.replace("\"old\"", "\"new\"") => true, false;
        without_kim.to_owned() => false, true;
        String::new() => false, false;
    ] {
        let (users, _) = store(KIM);
        let access = Access::new(&users, false, "");
        let pass = |identity| Pass::new(access.clone(), LOCAL, identity);
        let by_password = pass(access.password(LOCAL, "kim", b"s3cret").unwrap());
        let by_token = pass(access.token(LOCAL, b"a-token-of-kims-own").unwrap());
        let old = pass(access.password(LOCAL, "old", b"password").unwrap());
        // Loading the same users again changes nothing, however often.
        users.replace(load(KIM));
        users.replace(load(KIM));
        assert!(![&by_password, &by_token, &old].into_iter().any(is_revoked));
        users.replace(load(&entries));
        let revoked = [&by_password, &by_token, &old].map(is_revoked);
        assert_eq!(revoked, [!kim_stays, !kim_stays, !old_stays], "{entries}");
        // A revoked pass stays revoked when the users are as before again.
        users.replace(load(KIM));
        assert_eq!([&by_password, &by_token, &old].map(is_revoked), revoked);
    }
}

#[test]
fn who_needed_no_proof_goes_when_one_is_needed() {
    for (allow_anonymous, peer, stays) in [
        (false, LOCAL, false),
        (true, far(), true),
        // Admin as long as no users were configured, reader now.
        (true, LOCAL, false),
    ] {
        let (users, _) = store("");
        let access = Access::new(&users, allow_anonymous, "");
        let identity = Identity::anonymous(access.anonymous(peer).unwrap());
        let pass = Pass::new(access, peer, identity);
        assert!(!is_revoked(&pass));
        let config = Config::from_toml("pinbad.toml", KIM).unwrap();
        users.replace(Users::load(&config.users, |name| Some(name.into())).unwrap());
        assert_eq!(is_revoked(&pass), !stays, "{peer}");
    }
}

#[tokio::test]
async fn who_waits_for_it_is_told() {
    let (users, _) = store(KIM);
    let access = Access::new(&users, false, "");
    let identity = access.password(LOCAL, "kim", b"s3cret").unwrap();
    let pass = Pass::new(access, LOCAL, identity);
    let waits = tokio::spawn(async move { pass.revoked().await });
    tokio::task::yield_now().await;
    users.replace(Users::none());
    waits.await.unwrap();
}
