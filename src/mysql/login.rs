//! The login: greeting, TLS if the client wants it, identity, database.
//!
//! Called once per connection by the session, which sets a time limit, and again for each change of
//! user. The greeting offers `mysql_native_password` with a salt for this connection.
//! `caching_sha2_password` is accepted under TLS only, by its fast proof or by the password itself;
//! other clients are asked to use the former. A client that is rejected is told so before the
//! connection ends.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::io::ParseBuf;
use mysql_common::misc::raw::RawBytes;
use mysql_common::misc::raw::bytes::{NullBytes, U8Bytes};
use mysql_common::packets::{AuthSwitchRequest, HandshakePacket, HandshakeResponse};
use mysql_common::proto::{MyDeserialize as _, MySerialize as _};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::errors::{CommandError, bad_handshake, error, utf8};
use super::frames::{Frames, Stream};
use super::{MySql, VERSION_PREFIX, packets};
use crate::access::{Access, Denied, Identity, Pass, Quick};
use crate::limits::USER_NAME_BYTES_MAX;
use crate::sql::{SqlError, VERSION};

/// Longest packet before login, in bytes: names, a proof and connection attributes.
const LOGIN_BYTES_MAX: usize = 64 << 10;
/// A packet of this length is the request for TLS.
const TLS_REQUEST_BYTES: usize = 32;
/// The collation of the greeting: utf8mb4_general_ci.
const COLLATION: u8 = 45;

/// The salt that a client mixes its password with.
type Salt = [u8; 20];

const NATIVE: &[u8] = b"mysql_native_password";
const CACHING_SHA2: &[u8] = b"caching_sha2_password";

/// Data for the client's plugin: the fast proof was accepted; send the password.
const SHA2_KNOWN: [u8; 2] = [0x01, 0x03];
const SHA2_SAY_IT: [u8; 2] = [0x01, 0x04];

/// Capabilities on offer; others that a client requests are ignored.
pub(super) const OFFERED: CapabilityFlags = CapabilityFlags::CLIENT_LONG_PASSWORD
    .union(CapabilityFlags::CLIENT_FOUND_ROWS)
    .union(CapabilityFlags::CLIENT_LONG_FLAG)
    .union(CapabilityFlags::CLIENT_CONNECT_WITH_DB)
    .union(CapabilityFlags::CLIENT_IGNORE_SPACE)
    .union(CapabilityFlags::CLIENT_PROTOCOL_41)
    .union(CapabilityFlags::CLIENT_INTERACTIVE)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_MULTI_STATEMENTS)
    .union(CapabilityFlags::CLIENT_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PS_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_CONNECT_ATTRS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA)
    .union(CapabilityFlags::CLIENT_DEPRECATE_EOF);

/// The context of a login.
pub(super) struct Entrance<'s> {
    pub(super) service: &'s MySql,
    pub(super) peer: IpAddr,
    /// When the login must be complete.
    pub(super) deadline: Instant,
}

/// A client that was admitted.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) terms: Terms,
    pub(super) collation: u8,
    pub(super) user: String,
    pub(super) database: Option<String>,
    pub(super) pass: Pass,
}

/// The terms of the connection; they hold for every change of user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) capabilities: CapabilityFlags,
    salt: Salt,
    /// Whether nobody can eavesdrop.
    secret: bool,
}

/// The identity that a client claims.
struct Claim {
    user: Vec<u8>,
    proof: Vec<u8>,
    database: Vec<u8>,
    plugin: Option<Vec<u8>>,
    collation: u8,
}

impl Entrance<'_> {
    /// Greets client number `id` and authenticates it. A client that is rejected has been told, if
    /// possible.
    pub(super) async fn greet(
        &self,
        stream: impl Stream + 'static,
        id: u32,
    ) -> Result<(Frames, Login), CommandError> {
        let salt = new_salt().map_err(SqlError::internal)?;
        let settings = &self.service.settings;
        let mut frames = Frames::new(stream, self.service.budget.clone(), settings.patience);
        let offered = match settings.tls {
            Some(_) => OFFERED | CapabilityFlags::CLIENT_SSL,
            None => OFFERED,
        };
        put_greeting(&mut frames, id, &salt, offered);
        frames.flush().await?;
        let mut packet = self.read(&mut frames).await;
        let mut secret = false;
        if let Ok(wish) = &packet
            && let Some(tls) = &settings.tls
            && wish.len() == TLS_REQUEST_BYTES
            && capabilities_of(wish).contains(CapabilityFlags::CLIENT_SSL)
        {
            let tls = TlsAcceptor::from(tls.config());
            frames = frames.under(tls, self.deadline).await?;
            packet = self.read(&mut frames).await;
            secret = true;
        }
        let login = async {
            let bytes = packet?;
            let claim = response(&bytes)?;
            let terms = Terms { capabilities: capabilities_of(&bytes) & offered, salt, secret };
            self.admit(&mut frames, claim, terms).await
        };
        match login.await {
            Ok(login) => Ok((frames, login)),
            Err(refused) => {
                if let CommandError::Reported(error) | CommandError::Fatal(error) = &refused {
                    frames.packet(|body| packets::error(body, error, true));
                }
                frames.close().await;
                Err(refused)
            }
        }
    }

    /// Authenticates the client as another user; the salt is that of its login.
    pub(super) async fn change(
        &self,
        frames: &mut Frames,
        packet: &[u8],
        login: &Login,
    ) -> Result<Login, CommandError> {
        let claim = change_of_user(packet, login).map_err(|_| bad_handshake())?;
        self.admit(frames, claim, login.terms).await
    }

    /// Reads the client's next packet, within the time left for the login.
    async fn read(&self, frames: &mut Frames) -> Result<Vec<u8>, CommandError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        Ok(frames.read(LOGIN_BYTES_MAX, left).await?.bytes)
    }

    /// Asks the client to prove itself with another plugin; returns its answer.
    async fn asked_by(
        &self,
        frames: &mut Frames,
        plugin: &[u8],
        salt: &Salt,
    ) -> Result<Vec<u8>, CommandError> {
        let salt = [salt.as_slice(), &[0]].concat();
        frames.packet(|body| AuthSwitchRequest::new(plugin, salt).serialize(body));
        frames.flush().await?;
        self.read(frames).await
    }

    /// Verifies a claim.
    async fn admit(
        &self,
        frames: &mut Frames,
        claim: Claim,
        terms: Terms,
    ) -> Result<Login, CommandError> {
        let salt = &terms.salt;
        if claim.user.len() > USER_NAME_BYTES_MAX {
            let bytes = claim.user.len();
            let message = format!("a user name may have {USER_NAME_BYTES_MAX} bytes, not {bytes}");
            return Err(error(1470, "HY000", message).into());
        }
        let user = utf8(&claim.user)?.to_owned();
        let database = Some(utf8(&claim.database)?.to_owned()).filter(|name| !name.is_empty());
        let (access, peer) = (&self.service.settings.access, self.peer);
        let switches = terms.has(CapabilityFlags::CLIENT_PLUGIN_AUTH);
        let mut proof = claim.proof;
        let mut proved = None;
        match claim.plugin.as_deref() {
            None | Some(NATIVE) => {}
            // A client that needs no password may use any plugin.
            Some(CACHING_SHA2) if access.has_no_users() => {}
            // This may lead to asking for the password itself, which nobody else may hear: without
            // TLS the other plugin is used, whose proof reveals nothing.
            Some(CACHING_SHA2) if terms.secret => {
                // libmysqlclient sends nothing until it gets a salt for this plugin.
                if proof.is_empty() && switches {
                    proof = self.asked_by(frames, CACHING_SHA2, salt).await?;
                }
                // An empty password is sent as a NUL.
                if proof == [0] {
                    proof.clear();
                }
                if !proof.is_empty() {
                    proved = Some(match access.sha2(peer, &user, salt, &proof) {
                        // Whatever the name: the question reveals nothing about it.
                        Ok(Quick::Unproved(attempt)) => {
                            frames.packet(|body| body.extend_from_slice(&SHA2_SAY_IT));
                            frames.flush().await?;
                            let packet = self.read(frames).await?;
                            let password = packet.strip_suffix(&[0]);
                            attempt.password(password.unwrap_or(&packet))
                        }
                        Ok(Quick::Known(identity)) => {
                            frames.packet(|body| body.extend_from_slice(&SHA2_KNOWN));
                            Ok(identity)
                        }
                        Err(denied) => Err(denied),
                    });
                }
            }
            Some(_) if switches => proof = self.asked_by(frames, NATIVE, salt).await?,
            Some(_) => {}
        }
        let proved = proved.unwrap_or_else(|| native(access, peer, &user, salt, &proof));
        match proved {
            Ok(identity) => Ok(Login {
                terms,
                collation: claim.collation,
                user,
                database,
                pass: Pass::new(access.clone(), peer, identity),
            }),
            Err(denied @ Denied::TooMany { .. }) => {
                Err(error(1129, "HY000", denied.to_string()).into())
            }
            Err(Denied::Wrong) => {
                let using = if proof.is_empty() { "NO" } else { "YES" };
                let message =
                    format!("Access denied for user '{user}'@'{peer}' (using password: {using})");
                Err(error(1045, "28000", message).into())
            }
        }
    }
}

impl Terms {
    /// Whether both sides have this capability.
    pub(super) fn has(&self, capability: CapabilityFlags) -> bool {
        self.capabilities.contains(capability)
    }
}

/// A fresh salt: printable, as MySQL's are, because clients treat it as a C string.
fn new_salt() -> Result<Salt, String> {
    let random = rustls::crypto::ring::default_provider().secure_random;
    let (mut bytes, mut salt) = ([0; 15], [0; 20]);
    random.fill(&mut bytes).map_err(|_| "the system has no random numbers".to_owned())?;
    // Each three bytes are four characters.
    let written = STANDARD.encode_slice(bytes, &mut salt);
    written.map_err(|error| error.to_string())?;
    Ok(salt)
}

fn put_greeting(frames: &mut Frames, id: u32, salt: &Salt, offered: CapabilityFlags) {
    let (first, second) = salt.split_first_chunk().expect("more than eight bytes");
    let greeting = HandshakePacket::new(
        10,
        [VERSION_PREFIX, VERSION].concat().into_bytes(),
        id,
        *first,
        Some([second, &[0]].concat()),
        offered,
        COLLATION,
        StatusFlags::SERVER_STATUS_AUTOCOMMIT,
        Some(NATIVE),
    );
    frames.packet(|body| greeting.serialize(body));
}

fn capabilities_of(packet: &[u8]) -> CapabilityFlags {
    let bits = packet.first_chunk().map_or(0, |bits| u32::from_le_bytes(*bits));
    CapabilityFlags::from_bits_truncate(bits)
}

/// Parses a client's answer to the greeting.
fn response(packet: &[u8]) -> Result<Claim, SqlError> {
    let capabilities = capabilities_of(packet);
    let needed = CapabilityFlags::CLIENT_PROTOCOL_41 | CapabilityFlags::CLIENT_SECURE_CONNECTION;
    if !capabilities.contains(needed) {
        return Err(error(
            1251,
            "08004",
            "Client does not support authentication protocol requested by server; consider upgrading MySQL \
                      client",
        ));
    }
    // Attributes come last and are not needed here.
    let mut packet = packet.to_vec();
    let heard = capabilities - CapabilityFlags::CLIENT_CONNECT_ATTRS;
    packet[..4].copy_from_slice(&heard.bits().to_le_bytes());
    let response = HandshakeResponse::deserialize((), &mut ParseBuf(&packet));
    let response = response.map_err(|_| bad_handshake())?;
    let plugin = response.auth_plugin();
    Ok(Claim {
        user: response.user().to_vec(),
        proof: response.scramble_buf().to_vec(),
        database: response.db_name().unwrap_or_default().to_vec(),
        plugin: plugin.map(|plugin| plugin.as_bytes().to_vec()),
        collation: response.collation(),
    })
}

/// Parses COM_CHANGE_USER (the parser of `mysql_common` is private). An old packet may end after
/// the database; attributes are ignored.
fn change_of_user(packet: &[u8], login: &Login) -> std::io::Result<Claim> {
    let mut rest = ParseBuf(packet.get(1..).unwrap_or_default());
    let user: RawBytes<'_, NullBytes> = rest.parse(())?;
    let proof: RawBytes<'_, U8Bytes> = rest.parse(())?;
    let database: RawBytes<'_, NullBytes> = rest.parse(())?;
    let collation = rest.checked_eat_u16_le();
    let named = login.terms.has(CapabilityFlags::CLIENT_PLUGIN_AUTH);
    let plugin = named.then(|| rest.parse::<RawBytes<'_, NullBytes>>(()));
    Ok(Claim {
        user: user.as_bytes().to_vec(),
        proof: proof.as_bytes().to_vec(),
        database: database.as_bytes().to_vec(),
        plugin: plugin.and_then(|plugin| Some(plugin.ok()?.as_bytes().to_vec())),
        collation: collation.map_or(login.collation, |collation| collation as u8),
    })
}

/// Authenticates by the proof of `mysql_native_password`; without a password, or if there are no
/// users, as whoever may come without one.
fn native(
    access: &Access,
    peer: IpAddr,
    user: &str,
    salt: &Salt,
    proof: &[u8],
) -> Result<Identity, Denied> {
    if proof.is_empty() || access.has_no_users() {
        let role = access.anonymous(peer).ok_or(Denied::Wrong)?;
        return Ok(Identity::anonymous(role));
    }
    access.native(peer, user, salt, proof)
}
