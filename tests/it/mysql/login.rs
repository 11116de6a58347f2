//! Users, TLS, and whoever has neither, by real clients and by hand.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;

use mysql_common::auth::plugins::caching_sha2_password::scramble_sha256;
use mysql_common::auth::plugins::mysql_native_password::scramble_native;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::MYSQL;
use super::client::{Answer, Client, Outcome, PLUGIN_AUTH, PROTOCOL_41, SECURE_CONNECTION, SSL};
use super::tools::{fine, tool};
use crate::access::basic;
use crate::harness::{Program, await_condition, clients, run};

const PASSWORD: &str = "hunter2-hunter2";
/// The same as it stands in `mysql.user`.
const HASH: &str = "*D3EF4BB5400F5A42F6B1FA9E68E761AAE90191F3";

/// A daemon with an administrator `kim` and readers `lee` and `old` (of whom only the hash is
/// known), with a certificate for 127.0.0.1.
struct Guarded {
    dir: tempfile::TempDir,
    program: Program,
}

impl Guarded {
    fn start(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // One named like its issuer would be taken for one that signed itself.
        ca.distinguished_name.push(DnType::CommonName, "an authority for tests");
        std::fs::write(path("ca.pem"), ca.self_signed(&ca_key).unwrap().pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let host = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = host.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
        std::fs::write(path("cert.pem"), certificate.pem()).unwrap();
        std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(path("password"), PASSWORD).unwrap();
        let text = format!(
            "[mysql]\ntls_cert = {:?}\ntls_key = {:?}\n{more}\n\
             [[user]]\nname = \"kim\"\nrole = \"admin\"\npassword_file = {:?}\n\
             [[user]]\nname = \"lee\"\npassword_file = {:?}\n\
             [[user]]\nname = \"old\"\nmysql_native_hash = \"{HASH}\"\n",
            path("cert.pem"),
            path("key.pem"),
            path("password"),
            path("password"),
        );
        std::fs::write(path("pinbad.toml"), text).unwrap();
        let config = path("pinbad.toml");
        let program = Program::start(&["serve", "--config", &config], &[MYSQL]);
        Self { dir, program }
    }

    /// A client that is in.
    fn log_in(&self, user: &str) -> Client {
        let mut client = Client::greeted(self.program.site.mysql.unwrap());
        let proof = proof(&client);
        assert!(matches!(client.log_in(user, &proof, 0), Answer::Ok { .. }));
        client
    }

    fn tool(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = tool(name, self.program.site.mysql.unwrap());
        command.args(arguments);
        command
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }
}

/// Returns the response of a client that has the password to its salt.
fn proof(client: &Client) -> [u8; 20] {
    scramble_native(&client.salt(), PASSWORD.as_bytes()).unwrap()
}

/// A client of caching_sha2_password under TLS.
struct Sha2 {
    stream: StreamOwned<ClientConnection, TcpStream>,
    number: u8,
}

impl Sha2 {
    /// Says who it is, with this proof for the salt, and gives the first answer.
    fn log_in(
        guarded: &Guarded,
        user: &str,
        proof: impl Fn(&[u8; 20]) -> Vec<u8>,
    ) -> (Self, Vec<u8>) {
        let to: SocketAddr = guarded.program.site.mysql.unwrap();
        let mut client = Client::greeted(to);
        let salt = client.salt().try_into().unwrap();
        let capabilities = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH | SSL;
        let mut body = capabilities.to_le_bytes().to_vec();
        body.extend_from_slice(&[0, 0, 0, 1, 45]);
        body.extend_from_slice(&[0; 23]);
        client.send(1, &body);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(guarded.path("ca.pem")).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let host = ServerName::from(to.ip());
        let tls = ClientConnection::new(Arc::new(config), host).unwrap();
        let mut sha2 = Self { stream: StreamOwned::new(tls, client.stream), number: 2 };
        let proof = proof(&salt);
        body.extend_from_slice(user.as_bytes());
        body.extend_from_slice(&[0, u8::try_from(proof.len()).unwrap()]);
        body.extend_from_slice(&proof);
        body.extend_from_slice(b"caching_sha2_password\0");
        let answer = sha2.say(&body);
        (sha2, answer)
    }

    /// A packet, and the next one of the daemon's.
    fn say(&mut self, body: &[u8]) -> Vec<u8> {
        let [low, middle, high, _] = u32::try_from(body.len()).unwrap().to_le_bytes();
        let packet = [&[low, middle, high, self.number], body].concat();
        self.stream.write_all(&packet).unwrap();
        self.hear()
    }

    fn hear(&mut self) -> Vec<u8> {
        let mut head = [0; 4];
        self.stream.read_exact(&mut head).unwrap();
        self.number = head[3] + 1;
        let mut body = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.stream.read_exact(&mut body).unwrap();
        body
    }
}

/// The packet that says "access denied", with its number and state.
const DENIED: &[u8] = b"\xFF\x15\x04#28000";
/// The daemon knows the proof; it wants the password itself.
const KNOWN: &[u8] = &[1, 3];
const SAY_IT: &[u8] = &[1, 4];

/// By every way that a client has to say what it knows: with its proof for either plugin, with the
/// password itself under TLS, or with nothing.
#[test]
fn who_has_a_wrong_password_or_none_is_not_let_in() {
    let guarded = Guarded::start("");
    let mysql = guarded.program.site.mysql.unwrap();
    let denied = |user: &str, answer: Answer| {
        assert!(matches!(answer, Answer::Err { code: 1045, .. }), "{user}: {answer:?}");
    };
    for user in ["kim", "lee", "old", "nobody"] {
        denied(user, Client::greeted(mysql).log_in(user, &[], 0));
        let mut client = Client::greeted(mysql);
        let wrong = scramble_native(&client.salt(), b"wrong").unwrap();
        denied(user, client.log_in(user, &wrong, 0));
    }
    let quick = |password: &'static [u8]| {
        move |salt: &[u8; 20]| scramble_sha256(salt, password).unwrap().to_vec()
    };
    // A restart, so that nobody is held back for guessing.
    let guarded = Guarded::start("");
    for user in ["lee", "nobody"] {
        let (mut client, answer) = Sha2::log_in(&guarded, user, quick(b"wrong"));
        assert_eq!(answer, SAY_IT, "{user}");
        let answer = client.say(b"wrong\0");
        assert!(answer.starts_with(DENIED), "{user}: {answer:?}");
    }
    let (mut client, answer) = Sha2::log_in(&guarded, "lee", quick(PASSWORD.as_bytes()));
    assert_eq!(answer, KNOWN);
    assert_eq!(client.hear()[0], 0);
    // Of whom only the other way's hash is known.
    for (said, known) in [("wrong\0", false), (&format!("{PASSWORD}\0"), true)] {
        let (mut client, answer) = Sha2::log_in(&guarded, "old", quick(b"wrong"));
        assert_eq!(answer, SAY_IT);
        let answer = client.say(said.as_bytes());
        assert_eq!(answer.starts_with(DENIED), !known, "{said:?}: {answer:?}");
        assert_eq!(answer[0] == 0, known, "{said:?}: {answer:?}");
    }
}

#[test]
fn users_with_and_without_tls() {
    let guarded = Guarded::start("");
    let password = format!("-p{PASSWORD}");
    let (ca, mysql) = (guarded.path("ca.pem"), guarded.program.site.mysql.unwrap());
    for tls in [&["--skip-ssl"][..], &["--ssl"], &["--ssl-ca", &ca, "--ssl-verify-server-cert"]] {
        let said = fine(
            guarded
                .tool(
                    "mariadb",
                    &[
                        "-u",
                        "kim",
                        &password,
                        "pinba",
                        "-e",
                        "SELECT USER(), req_count FROM info;\nstatus",
                    ],
                )
                .args(tls),
        );
        assert!(said.out.contains("kim@127.0.0.1\t0"), "{tls:?} {said:?}");
        let under_tls = said.out.contains("Cipher in use is TLS");
        assert_eq!(under_tls, tls[0] != "--skip-ssl", "{said:?}");
    }
    for (user, secret) in [("kim", "-pwrong"), ("nobody", &*password), ("kim", "-p")] {
        let said = run(guarded
            .tool("mariadb", &["-u", user, secret, "pinba", "-e", "SELECT 1"])
            .stdin(std::process::Stdio::null()));
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("ERROR 1045 (28000)"), "{said:?}");
    }
    // Drivers that change to TLS by themselves, and one that speaks of caching_sha2_password first.
    let script = format!(
        "import sys, pymysql, mysql.connector as c\n\
         a = dict(host='127.0.0.1', port={}, user='kim', password='{PASSWORD}', database='pinba')\n\
         for ssl in [dict(), dict(ssl={{'ca': {ca:?}}})]:\n\
         \x20   k = pymysql.connect(**a, **ssl); x = k.cursor(); x.execute('SELECT 1'); assert x.fetchall() == ((1,),)\n\
         for more in [dict(), dict(ssl_disabled=True), dict(auth_plugin='caching_sha2_password'), dict(auth_plugin='caching_sha2_password', ssl_disabled=True)]:\n\
         \x20   # The C extension does not try this plugin without TLS.\n\
         \x20   for pure in [True] if len(more) == 2 else [True, False]:\n\
         \x20       k = c.connect(**a, use_pure=pure, **more); x = k.cursor(); x.execute('SELECT 2'); assert x.fetchall() == [(2,)]\n\
         print('ok')",
        mysql.port()
    );
    let said = run(Command::new(clients().join("python/bin/python")).args(["-c", &script]));
    assert_eq!(said.out, "ok\n", "{said:?}");
}

#[test]
fn a_proof_is_for_one_connection() {
    let guarded = Guarded::start("");
    let mysql = guarded.program.site.mysql.unwrap();
    let mut first = Client::greeted(mysql);
    let good = proof(&first);
    assert!(matches!(first.log_in("kim", &good, 0), Answer::Ok { .. }));
    // The same bytes on another connection are worth nothing.
    let mut second = Client::greeted(mysql);
    let answer = second.log_in("kim", &good, 0);
    assert!(
        matches!(&answer, Answer::Err { code: 1045, state, message }
        if state == "28000" && message == "Access denied for user 'kim'@'127.0.0.1' (using password: YES)"),
        "{answer:?}"
    );
    assert_eq!(second.try_read(), None);
    // To become somebody else one proves it; who fails is nobody any more.
    let change = |user: &str, proof: &[u8]| {
        let length = u8::try_from(proof.len()).unwrap();
        let plugin = b"pinba\0\x2d\0mysql_native_password\0";
        [user.as_bytes(), &[0, length], proof, plugin].concat()
    };
    first.command(17, &change("lee", &good));
    assert!(matches!(first.answer(), Answer::Ok { .. }));
    first.command(17, &change("kim", &[7; 20]));
    assert!(matches!(first.answer(), Answer::Err { code: 1045, .. }));
    assert_eq!(first.try_read(), None);
    let site = &guarded.program.site;
    site.log_in(&basic("kim", PASSWORD));
    let status = site.status();
    assert_eq!(status.count("mysql_logins_refused"), 2);
}

/// A client that speaks of caching_sha2_password where others can listen is asked for the other
/// way: it must never be asked for its password as it is.
#[test]
fn caching_sha2_password_is_for_tls() {
    let guarded = Guarded::start("");
    let mysql = guarded.program.site.mysql.unwrap();
    for (user, password, fine) in [("kim", PASSWORD, true), ("kim", "wrong", false)] {
        let mut client = Client::greeted(mysql);
        let salt = client.salt();
        let capabilities = PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH;
        let mut body = capabilities.to_le_bytes().to_vec();
        body.extend_from_slice(&[0, 0, 0, 1, 45]);
        body.extend_from_slice(&[0; 23]);
        body.extend_from_slice(user.as_bytes());
        body.extend_from_slice(&[0, 32]);
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(b"caching_sha2_password\0");
        client.send(1, &body);
        let (number, asked) = client.read();
        assert_eq!(number, 2);
        let switch = [&b"\xFEmysql_native_password\0"[..], &salt, b"\0"].concat();
        assert_eq!(asked, switch);
        let proof = scramble_native(&salt, password.as_bytes()).unwrap();
        client.send(3, &proof);
        let answer = client.answer();
        assert_eq!(matches!(answer, Answer::Ok { .. }), fine, "{answer:?}");
    }
}

/// A guessed name and any proof: what is answered is the same whether there is such a user, and of
/// which kind it is; and it is counted and slow as all guessing is.
#[test]
fn names_cannot_be_guessed_over_tls() {
    let guarded = Guarded::start("");
    let guess = |user: &str| Sha2::log_in(&guarded, user, |_| vec![7; 32]);
    for user in ["lee", "old", "nobody"] {
        let (mut client, answer) = guess(user);
        assert_eq!(answer, SAY_IT, "{user}");
        let said = String::from_utf8_lossy(&client.say(b"wrong\0")).replace(user, "...");
        assert!(said.ends_with("'...'@'127.0.0.1' (using password: YES)"), "{said}");
        // Who does not even say one.
        assert_eq!(guess(user).1, SAY_IT, "{user}");
    }
    let site = &guarded.program.site;
    site.log_in(&basic("kim", PASSWORD));
    await_condition("all six are counted", || match site.status().count("logins_failed") {
        6 => Ok(()),
        failed => Err(failed),
    });
    // Ten at once, then one a second, whoever is named.
    let held_back = (0..100).find_map(|n| {
        let (_, answer) = guess(["lee", "old", "nobody"][n % 3]);
        (answer != SAY_IT).then_some(answer)
    });
    let held_back = held_back.expect("a hundred were looked at");
    assert!(held_back.starts_with(b"\xFF\x69\x04"), "{held_back:?}");
}

/// Of whom only the other way's hash is known, nothing else can be checked: under TLS too.
#[test]
fn drivers_log_in_by_either_plugin() {
    let guarded = Guarded::start("");
    let mysql = guarded.program.site.mysql.unwrap();
    let script = format!(
        "import mysql.connector as c\n\
         for user in ['old', 'lee']:\n\
         \x20   for plugin in ['mysql_native_password', 'caching_sha2_password']:\n\
         \x20       a = dict(host='127.0.0.1', port={}, user=user, password='{PASSWORD}', use_pure=True, auth_plugin=plugin)\n\
         \x20       for again in range(2):\n\
         \x20           k = c.connect(**a); x = k.cursor(); x.execute(\"SHOW STATUS LIKE 'Ssl_%'\"); s = dict(x.fetchall())\n\
         \x20           assert s['Ssl_cipher'].startswith('TLS_') and s['Ssl_version'] == 'TLSv1.3', s\n\
         print('ok')",
        mysql.port()
    );
    let said = run(Command::new(clients().join("python/bin/python")).args(["-c", &script]));
    assert_eq!(said.out, "ok\n", "{said:?}");
}

#[test]
fn readers_read_and_end_their_own_queries_only() {
    let guarded = Guarded::start("allow_anonymous = true\n");
    let mysql = guarded.program.site.mysql.unwrap();
    let (mut admin, mut reader) = (guarded.log_in("kim"), guarded.log_in("lee"));
    // Without a password one is nobody in particular, who may read too.
    let rows = Client::connect(mysql).rows("SELECT req_count FROM info");
    assert_eq!(rows, [[Some("0".to_owned())]]);
    let (code, message) = reader.refused(&format!("KILL {}", admin.id()));
    assert_eq!(code, 1095, "{message}");
    let make = "CREATE TABLE mine (x int) ENGINE=PINBA COMMENT='report1'";
    assert_eq!(reader.refused(make).0, 1227);
    admin.query(make);
    assert_eq!(reader.refused("DROP TABLE mine").0, 1227);
    let rows =
        reader.rows("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME = 'mine'");
    assert_eq!(rows, [[Some("mine".to_owned())]]);
    admin.query(&format!("KILL {}", reader.id()));
    assert_eq!(reader.try_read(), None);
}

/// Whose a connection is, is a matter of what was proved: a name that anybody can say ends nobody
/// else's queries, and no name those of whoever is still logging in.
#[test]
fn a_name_without_a_proof_ends_nobody_elses_connection() {
    let guarded = Guarded::start("allow_anonymous = true\n");
    let mysql = guarded.program.site.mysql.unwrap();
    let mut admin = guarded.log_in("kim");
    let arriving = Client::greeted(mysql);
    let mut nameless = Client::connect(mysql);
    for name in ["kim", "", "somebody"] {
        let mut stranger = Client::greeted(mysql);
        assert!(matches!(stranger.log_in(name, &[], 0), Answer::Ok { .. }));
        for victim in [admin.id(), arriving.id()] {
            for kill in ["KILL", "KILL QUERY"] {
                let (code, message) = stranger.refused(&format!("{kill} {victim}"));
                assert_eq!(code, 1095, "{name}: {message}");
            }
            stranger.command(12, &victim.to_le_bytes());
            let answer = stranger.answer();
            assert!(matches!(answer, Answer::Err { code: 1095, .. }), "{answer:?}");
        }
        // All that come from there without a proof are one.
        stranger.query(&format!("KILL QUERY {}", nameless.id()));
        nameless.assert_alive();
    }
    admin.assert_alive();
    admin.query(&format!("KILL {}", arriving.id()));
    let mut arriving = arriving;
    assert_eq!(arriving.try_read(), None);
    // Its own goes, whatever it is called.
    let other = guarded.log_in("lee");
    let mut same = guarded.log_in("lee");
    assert!(matches!(same.query(&format!("KILL {}", other.id())), Outcome::Done { .. }));
}

/// A user that is taken out, or has another role or secret, is sent away from where it is logged
/// in; the others stay.
#[test]
fn who_is_not_what_it_was_is_sent_away() {
    let guarded = Guarded::start("");
    let mysql = guarded.program.site.mysql.unwrap();
    let (mut kim, mut lee, mut old) =
        (guarded.log_in("kim"), guarded.log_in("lee"), guarded.log_in("old"));
    let config = std::fs::read_to_string(guarded.path("pinbad.toml")).unwrap();
    let config =
        config.replace("role = \"admin\"", "role = \"read\"").replace("\"lee\"", "\"ann\"");
    std::fs::write(guarded.path("pinbad.toml"), config).unwrap();
    old.assert_alive();
    guarded.program.signal("HUP");
    assert_eq!(kim.try_read(), None, "another role");
    assert_eq!(lee.try_read(), None, "there is no such user");
    old.assert_alive();
    let mut kim = guarded.log_in("kim");
    let make = "CREATE TABLE mine (x int) ENGINE=PINBA COMMENT='report1'";
    assert_eq!(kim.refused(make).0, 1227);
    let mut nobody = Client::greeted(mysql);
    let proof = proof(&nobody);
    let answer = nobody.log_in("lee", &proof, 0);
    assert!(matches!(answer, Answer::Err { code: 1045, .. }), "{answer:?}");
}
