//! Who may: users, roles and proofs, for every way in to what the daemon knows.
//!
//! A front end (`http`, the MySQL wire) has an [`Access`] and shows it what a peer brought: a
//! password, a token, an answer to a salt. It gets an [`Identity`] with a [`Role`], or [`Denied`].
//! What nobody asked a proof for is [`Access::anonymous`]. Any thread may ask; nothing blocks, and
//! the users can be replaced while it is asked. Who stays longer than one question holds a
//! [`Pass`], and goes when it is [revoked](Pass::revoked).
//!
//! | configured | a peer without credentials is | with wrong ones |
//! |---|---|---|
//! | nobody | on loopback admin, else (only with `allow_anonymous`) read | the same: there is nothing to check them against |
//! | users | refused | refused |
//! | users and `allow_anonymous` | read | refused |
//!
//! Beside that, what front ends share: taking connections ([`accept`]), how many each peer may have
//! ([`connection_limits`]) and TLS ([`tls`]).
//!
//! Failed logins are slow and counted ([`attempts`]); secrets are kept as digests (`digest`) and
//! shown nowhere.

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

use tokio::sync::watch;
use tracing::warn;

use self::attempts::Attempts;
pub use self::users::{SecretError, Users, read_secret};
use crate::clock::{Clock, SystemClock};
pub use crate::config::user::Role;
use crate::telemetry::log::Limit;

/// Who a peer turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of the user; `None`: nobody in particular. The same `Arc` for as long as role and
    /// secrets are the same.
    pub name: Option<Arc<str>>,
    /// Its role.
    pub role: Role,
}

impl Identity {
    /// A peer that brought no proof.
    #[must_use]
    pub const fn anonymous(role: Role) -> Self {
        Self { name: None, role }
    }
}

/// A peer is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// There is no such user, or the secret is wrong: which of the two is not told.
    #[error("wrong user name, password or token")]
    Wrong,
    /// Too many attempts from there have failed; this one was not looked at.
    #[error("too many failed logins from this address; the next is looked at in {} s", wait_ms.div_ceil(1000))]
    TooMany {
        /// After how long the next attempt will be looked at, milliseconds.
        wait_ms: u64,
    },
}

/// The users, shared by all front ends and replaced for all of them at once.
#[derive(Debug)]
pub struct UserStore {
    users: watch::Sender<Arc<Users>>,
    /// Their failed logins.
    pub attempts: Attempts,
    clock: Arc<dyn Clock>,
    /// Bounds what strangers can write into the log.
    failures_logged: Limit,
}

/// One line about failed logins in this time.
const FAILURE_LOG_MS: u64 = 10_000;

impl UserStore {
    /// A store of these users.
    #[must_use]
    pub fn new(users: Users, clock: Arc<dyn Clock>) -> Self {
        Self {
            users: watch::Sender::new(Arc::new(users)),
            attempts: Attempts::default(),
            clock,
            failures_logged: Limit::new(FAILURE_LOG_MS),
        }
    }

    /// Other users from now on. Who is in stays in when its role and secrets are what they were;
    /// the others' passes are revoked.
    pub fn replace(&self, mut users: Users) {
        self.users.send_modify(|now| {
            users.stay(now);
            *now = Arc::new(users);
        });
    }

    /// The users at this moment.
    #[must_use]
    pub fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.borrow())
    }
}

/// Who may come in at one front end.
#[derive(Debug, Clone)]
pub struct Access {
    store: Arc<UserStore>,
    allow_anonymous: bool,
    /// The protocol of the front end's clients, for the log.
    protocol: &'static str,
}

impl Access {
    /// For a front end with this `allow_anonymous`.
    #[must_use]
    pub const fn new(store: Arc<UserStore>, allow_anonymous: bool) -> Self {
        Self {
            store,
            allow_anonymous,
            protocol: "",
        }
    }

    /// The same for a front end whose clients speak this.
    #[must_use]
    pub const fn through(mut self, protocol: &'static str) -> Self {
        self.protocol = protocol;
        self
    }

    /// Nobody is configured: open to this machine.
    #[must_use]
    pub fn open() -> Self {
        let clock = Arc::new(SystemClock::new());
        Self::new(Arc::new(UserStore::new(Users::none(), clock)), false)
    }

    /// The role of a peer without credentials; `None`: it is refused.
    #[must_use]
    pub fn anonymous(&self, peer: IpAddr) -> Option<Role> {
        self.anonymous_among(&self.store.users.borrow(), peer)
    }

    fn anonymous_among(&self, users: &Users, peer: IpAddr) -> Option<Role> {
        let local = peer.to_canonical().is_loopback();
        match (users.is_empty(), local) {
            (true, true) => Some(Role::Admin),
            (true, false) | (false, _) => self.allow_anonymous.then_some(Role::Read),
        }
    }

    /// Whether there is nobody whose proof could be checked.
    #[must_use]
    pub fn has_no_users(&self) -> bool {
        self.store.users.borrow().is_empty()
    }

    /// Name and password, as HTTP basic authentication and MySQL over TLS bring them.
    ///
    /// # Errors
    /// [`Denied::Wrong`], [`Denied::TooMany`].
    pub fn password(&self, peer: IpAddr, name: &str, plain: &[u8]) -> Result<Identity, Denied> {
        let kept = |users: &Users| users.by_password(name, |kept| kept.is(plain));
        self.attempt(peer, Some(name), kept)
    }

    /// A bearer token.
    ///
    /// # Errors
    /// [`Denied::Wrong`], [`Denied::TooMany`].
    pub fn token(&self, peer: IpAddr, token: &[u8]) -> Result<Identity, Denied> {
        self.attempt(peer, None, |users| users.by_token(token))
    }

    /// An answer to the 20 bytes of `salt` under `mysql_native_password`.
    ///
    /// # Errors
    /// [`Denied::Wrong`], also when `response` has not 20 bytes; [`Denied::TooMany`].
    pub fn native(
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

    /// An answer to the 20 bytes of `salt` under `caching_sha2_password`: 32 bytes. One that is not
    /// known for right, whoever is named, is for the full exchange: ask for the password over TLS,
    /// then [`Unproved::password`]. It is one attempt.
    ///
    /// # Errors
    /// [`Denied::TooMany`].
    pub fn sha2(
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
        let begun = self.store.attempts.begin(peer, now_ms);
        begun.map_err(|wait_ms| Denied::TooMany { wait_ms })
    }

    /// Counts a failed attempt, and logs it; `name` is who was named, `None` that of nobody: a
    /// token.
    fn failed(&self, peer: IpAddr, name: Option<&str>) {
        self.store.attempts.counters.logins_failed.add(1);
        let now_ms = self.store.clock.mono_ms();
        if let Some(repeated) = self.store.failures_logged.pass(now_ms) {
            let users = self.store.users();
            let user = match name {
                None => "(token)",
                Some(name) if users.is_configured(name) => name,
                // Not as it was given: people type passwords there.
                Some(_) => "(not configured)",
            };
            warn!(protocol = self.protocol, user, %peer, repeated, "Refused a login.");
        }
    }
}

/// The outcome of the fast path of `caching_sha2_password`.
#[derive(Debug)]
pub enum Quick {
    /// Who it is.
    Known(Identity),
    /// Nothing yet.
    Unproved(Unproved),
}

/// An attempt to log in that goes on. It has failed when it is dropped.
#[derive(Debug)]
pub struct Unproved {
    access: Access,
    peer: IpAddr,
    name: String,
    succeeded: bool,
}

impl Unproved {
    /// Ends it with the password itself.
    ///
    /// # Errors
    /// [`Denied::Wrong`].
    pub fn password(mut self, plain: &[u8]) -> Result<Identity, Denied> {
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

/// Somebody who was let in and stays: a session, or an answer that goes on.
#[derive(Debug, Clone)]
pub struct Pass {
    access: Access,
    peer: IpAddr,
    /// Who it is.
    pub identity: Identity,
}

impl Pass {
    /// For who was let in from `peer`.
    #[must_use]
    pub const fn new(access: Access, peer: IpAddr, identity: Identity) -> Self {
        Self {
            access,
            peer,
            identity,
        }
    }

    /// Waits until it is not good any more: the user went, or has another role or other secrets; or
    /// nobody needed a proof, and now one does. Ends at once when that is so already.
    pub async fn revoked(&self) {
        let mut users = self.access.store.users.subscribe();
        // The store is held here, so there is always another change to wait for.
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
