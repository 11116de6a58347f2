//! Access control: users, roles and proofs for all front ends.
//!
//! A front end (`http`, the MySQL listener) has an [`Access`] and passes on a peer's credentials: a
//! password, a token or an answer to a salt. The result is an [`Identity`] with a [`Role`], or
//! [`Denied`]. Peers without credentials get the role of `Access::anonymous`. All methods can be
//! called from any thread without blocking, and the users can be replaced meanwhile. A session that
//! outlives one question holds a [`Pass`], and ends when it is revoked.
//!
//! | configured | a peer without credentials is | with wrong ones |
//! |---|---|---|
//! | nobody | on loopback admin, else (only with `allow_anonymous`) read | the same: there is nothing to check them against |
//! | users | refused | refused |
//! | users and `allow_anonymous` | read | refused |
//!
//! Also here is code shared by front ends: accepting connections ([`accept`]), limits per peer
//! ([`connection_limits`]) and TLS ([`tls`]).
//!
//! Failed logins are slowed down and counted ([`attempts`]); secrets are stored as digests
//! (`digest`) and never shown.

pub mod accept;
pub mod attempts;
pub mod certificate;
pub mod connection_limits;
mod digest;
pub mod roots;
pub mod tls;
mod users;

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use self::attempts::Attempts;
pub use self::users::{SecretError, Users, read_secret};
use crate::clock::{Clock, SystemClock};
pub use crate::config::user::Role;
use crate::telemetry::log::Limit;

/// The identity of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the user; `None` if anonymous. The `Arc` stays the same as long as role and secrets
    /// do.
    pub name: Option<Arc<str>>,
    /// Role of the user.
    pub role: Role,
}

impl Identity {
    /// Creates the identity of a peer without credentials.
    pub(crate) const fn anonymous(role: Role) -> Self {
        Self { name: None, role }
    }
}

/// Reason for refusing a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Unknown user or wrong secret; the peer is not told which.
    #[error("wrong user name, password or token")]
    Wrong,
    /// Too many attempts of this peer have failed; this one was not checked.
    #[error("too many failed logins from this address; the next is looked at in {} s", wait_ms.div_ceil(1000))]
    TooMany {
        /// Time until the next attempt will be checked, milliseconds.
        wait_ms: u64,
    },
}

/// The users, shared by all front ends and replaced for all of them at once.
#[derive(Debug)]
pub struct UserStore {
    users: watch::Sender<Arc<Users>>,
    /// Failed logins.
    pub attempts: Attempts,
    /// Limits the log lines that strangers can cause.
    failures_logged: Limit,
    /// The last failed login.
    last_failure: Mutex<Option<Failure>>,
    clock: Arc<dyn Clock>,
}

/// A failed login: protocol, user and address.
type Failure = (&'static str, String, IpAddr);

/// Shortest time between two log lines about failed logins, milliseconds.
const FAILURE_LOG_MS: u64 = 10_000;

impl UserStore {
    /// Creates a store of these users.
    pub(crate) fn new(users: Users, clock: Arc<dyn Clock>) -> Self {
        Self {
            users: watch::Sender::new(Arc::new(users)),
            attempts: Attempts::default(),
            failures_logged: Limit::new(FAILURE_LOG_MS),
            last_failure: Mutex::default(),
            clock,
        }
    }

    /// Logs the last failed login and how many others had no line of their own, if that is due.
    pub(crate) fn log_failures(&self, now_ms: u64) {
        if let Some(failed) = self.failures_logged.overdue(now_ms) {
            self.log_last_failure(failed - 1);
        }
    }

    /// Logs the last failed login, and that so many others had no line of their own.
    fn log_last_failure(&self, others: u64) {
        let Some((protocol, user, peer)) = self.last_failure.lock().clone() else { return };
        match others {
            0 => warn!(protocol, user, %peer, "Refused a login."),
            _ => warn!(
                protocol, user, %peer, others,
                "Refused a login, after others since the last such line, of any user and address."
            ),
        }
    }

    /// Replaces the users. Sessions of users whose role and secrets are unchanged continue; the
    /// passes of all others are revoked.
    pub(crate) fn replace(&self, mut users: Users) {
        self.users.send_modify(|now| {
            users.stay(now);
            *now = Arc::new(users);
        });
    }

    /// Returns the current users.
    pub(crate) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.borrow())
    }
}

/// Access rules of one front end.
#[derive(Debug, Clone)]
pub struct Access {
    store: Arc<UserStore>,
    allow_anonymous: bool,
    /// Protocol of the front end, for the log.
    protocol: &'static str,
}

impl Access {
    /// Creates the rules of a front end of this protocol.
    pub(crate) fn new(
        store: &Arc<UserStore>,
        allow_anonymous: bool,
        protocol: &'static str,
    ) -> Self {
        Self { store: Arc::clone(store), allow_anonymous, protocol }
    }

    /// Creates rules without users: open to this machine.
    pub fn open() -> Self {
        let clock = Arc::new(SystemClock::new());
        Self::new(&Arc::new(UserStore::new(Users::none(), clock)), false, "")
    }

    /// Returns the role of a peer without credentials, or `None` if it is refused.
    pub(crate) fn anonymous(&self, peer: IpAddr) -> Option<Role> {
        self.anonymous_among(&self.store.users.borrow(), peer)
    }

    fn anonymous_among(&self, users: &Users, peer: IpAddr) -> Option<Role> {
        let local = peer.to_canonical().is_loopback();
        match (users.is_empty(), local) {
            (true, true) => Some(Role::Admin),
            (true, false) | (false, _) => self.allow_anonymous.then_some(Role::Read),
        }
    }

    /// Returns true if no users are configured.
    pub(crate) fn has_no_users(&self) -> bool {
        self.store.users.borrow().is_empty()
    }

    /// Checks name and password, as sent by HTTP basic authentication and by MySQL over TLS.
    ///
    /// # Errors
    /// [`Denied::Wrong`], [`Denied::TooMany`].
    pub(crate) fn password(
        &self,
        peer: IpAddr,
        name: &str,
        plain: &[u8],
    ) -> Result<Identity, Denied> {
        let kept = |users: &Users| users.by_password(name, |kept| kept.is(plain));
        self.attempt(peer, Some(name), kept)
    }

    /// Checks a bearer token.
    ///
    /// # Errors
    /// [`Denied::Wrong`], [`Denied::TooMany`].
    pub(crate) fn token(&self, peer: IpAddr, token: &[u8]) -> Result<Identity, Denied> {
        self.attempt(peer, None, |users| users.by_token(token))
    }

    /// Checks an answer to the 20 bytes of `salt` under `mysql_native_password`.
    ///
    /// # Errors
    /// [`Denied::Wrong`], also if `response` is not 20 bytes long; [`Denied::TooMany`].
    pub(crate) fn native(
        &self,
        peer: IpAddr,
        name: &str,
        salt: &[u8],
        response: &[u8],
    ) -> Result<Identity, Denied> {
        self.attempt(peer, Some(name), |users| {
            users.by_password(name, |kept| kept.answers_native(salt, response))
        })
    }

    /// Checks an answer (32 bytes) to the 20 bytes of `salt` under `caching_sha2_password`. An
    /// answer that cannot be confirmed, whatever the name, requires the full exchange: ask for the
    /// password over TLS, then call [`Unproved::password`]. Both together are one attempt.
    ///
    /// # Errors
    /// [`Denied::TooMany`].
    pub(crate) fn sha2(
        &self,
        peer: IpAddr,
        name: &str,
        salt: &[u8],
        response: &[u8],
    ) -> Result<Quick, Denied> {
        self.begin(peer)?;
        let users = self.store.users();
        let found = users.by_password(name, |kept| kept.answers_sha2(salt, response));
        Ok(match found {
            Some(identity) => {
                self.store.attempts.succeeded(peer);
                Quick::Known(identity)
            }
            None => Quick::Unproved(Unproved {
                access: self.clone(),
                peer,
                name: name.to_owned(),
                succeeded: false,
            }),
        })
    }

    fn attempt(
        &self,
        peer: IpAddr,
        name: Option<&str>,
        check: impl FnOnce(&Users) -> Option<Identity>,
    ) -> Result<Identity, Denied> {
        self.begin(peer)?;
        let Some(identity) = check(&self.store.users()) else {
            self.failed(peer, name);
            return Err(Denied::Wrong);
        };
        self.store.attempts.succeeded(peer);
        Ok(identity)
    }

    fn begin(&self, peer: IpAddr) -> Result<(), Denied> {
        let now_ms = self.store.clock.mono_ms();
        self.store.attempts.begin(peer, now_ms).map_err(|wait_ms| Denied::TooMany { wait_ms })
    }

    /// Counts and logs a failed attempt; `name` is the name given, `None` for a token.
    fn failed(&self, peer: IpAddr, name: Option<&str>) {
        self.store.attempts.counters.logins_failed.add(1);
        let users = self.store.users();
        let user = match name {
            None => "(token)",
            Some(name) if users.is_configured(name) => name,
            // Not the name given, because people type passwords there.
            Some(_) => "(not configured)",
        };
        *self.store.last_failure.lock() = Some((self.protocol, user.to_owned(), peer));
        if let Some(others) = self.store.failures_logged.pass(self.store.clock.mono_ms()) {
            self.store.log_last_failure(others);
        }
    }
}

/// Result of the fast path of `caching_sha2_password`.
#[derive(Debug)]
pub enum Quick {
    /// The answer was right.
    Known(Identity),
    /// The answer could not be confirmed.
    Unproved(Unproved),
}

/// An unfinished login attempt. Dropping it counts as a failure.
#[derive(Debug)]
pub struct Unproved {
    access: Access,
    peer: IpAddr,
    name: String,
    succeeded: bool,
}

impl Unproved {
    /// Finishes the attempt with the password.
    ///
    /// # Errors
    /// [`Denied::Wrong`].
    pub(crate) fn password(mut self, plain: &[u8]) -> Result<Identity, Denied> {
        let store = &self.access.store;
        let found = store.users().by_password(&self.name, |kept| kept.is(plain));
        if found.is_some() {
            store.attempts.succeeded(self.peer);
            self.succeeded = true;
        }
        found.ok_or(Denied::Wrong)
    }
}

impl Drop for Unproved {
    fn drop(&mut self) {
        if !self.succeeded {
            self.access.failed(self.peer, Some(&self.name));
        }
    }
}

/// Permission of a longer stay: a session, or an answer that continues.
#[derive(Debug, Clone)]
pub struct Pass {
    access: Access,
    /// The peer that was admitted.
    pub peer: IpAddr,
    /// The identity admitted.
    pub identity: Identity,
}

impl Pass {
    /// Creates a pass for an identity admitted from `peer`.
    pub(crate) const fn new(access: Access, peer: IpAddr, identity: Identity) -> Self {
        Self { access, peer, identity }
    }

    /// Waits until the pass is no longer valid: the user was removed, has another role or other
    /// secrets, or an anonymous peer would no longer get its role. Returns at once if that is so
    /// already.
    pub(crate) async fn revoked(&self) {
        let mut users = self.access.store.users.subscribe();
        // The store is held here, so the channel never closes.
        _ = users.wait_for(|users| !self.is_good_among(users)).await;
    }

    fn is_good_among(&self, users: &Users) -> bool {
        match &self.identity.name {
            Some(name) => users.has(name),
            None => {
                let role = self.access.anonymous_among(users, self.peer);
                role.is_some_and(|role| role >= self.identity.role)
            }
        }
    }
}

#[cfg(test)]
mod tests;
