//! SQL, as text and as what a MySQL client sends.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::live;
use crate::access::Access;
use crate::config::{Config, MySqlConfig, SqlConfig};
use crate::mysql::{MySql, MySqlSettings};
use crate::sql::Engine;

/// The longest text: what is longer is the time of the parser and nothing else.
const BYTES_MAX: usize = 8 << 10;
/// The longest text that is run, too.
const RUN_BYTES_MAX: usize = 512;

/// State that one thread keeps.
struct Server {
    runtime: Runtime,
    engine: Engine,
    service: Arc<MySql>,
}

thread_local! {
    static SERVER: Server = Server::new();
}

/// Any text as statements: cut, read and rewritten; run if it is short, and then nothing is left of
/// it.
pub fn sql(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.len() > BYTES_MAX {
        return;
    }
    let fit = crate::sql::fuzz::fuzz_text(text);
    if fit == 0 || text.len() > RUN_BYTES_MAX {
        return;
    }
    SERVER.with(|server| {
        let run = crate::sql::fuzz::fuzz_run(&server.engine, text);
        if let Err(harm) = server.runtime.block_on(run) {
            panic!("{harm}");
        }
    });
}

/// Any bytes of a client, from the greeting on: it is answered or sent away, and its place is free
/// afterwards.
pub fn mysql(bytes: &[u8]) {
    SERVER.with(|server| {
        let talk = server.service.converse(bytes);
        let heard = server
            .runtime
            .block_on(async { tokio::time::timeout(Duration::from_secs(100), talk).await });
        let heard = heard.expect("the conversation ends");
        assert!(heard.len() > 20, "it is greeted");
        assert_eq!(server.service.connections(), 0);
    });
}

impl Server {
    fn new() -> Self {
        let limits = SqlConfig {
            threads: 1,
            time_max: Duration::from_secs(5),
            memory: 32 << 20,
            ..Config::default().sql
        };
        let engine = Engine::new(Arc::new(live::catalog()), limits.into()).expect("threads");
        let limits =
            MySqlConfig { packet_max: 1 << 20, memory: 1 << 20, ..Config::default().mysql };
        let settings = MySqlSettings {
            login_max: Duration::from_secs(20),
            ..MySqlSettings::new(Access::open(), None, limits)
        };
        Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
            service: Arc::new(MySql::new(engine.clone(), settings, Arc::default())),
            engine,
        }
    }
}
