//! Chromium by WebDriver: one window, its console, and pictures of it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value as Json, json};

use crate::harness::{Running, Site, await_condition};

/// How a browser is started. Nothing that it would do in the background is of use here.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// A browser with one window.
pub(super) struct Browser {
    _driver: Running,
    session: String,
    agent: ureq::Agent,
    base: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// A window of the usual size, at no page yet.
    #[track_caller]
    pub(super) fn start(site: &Site) -> Self {
        let spawned = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = spawned.unwrap_or_else(|error| {
            panic!(
                "there is no chromedriver ({error}): `apt-get install chromium chromium-driver`, or leave these \
                 tests out with `cargo test -- --skip browser::`"
            )
        });
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said
            .find_map(|line| {
                let line = line.unwrap();
                let port = line.strip_prefix("ChromeDriver was started successfully on port ")?;
                Some(port.trim_end_matches('.').to_owned())
            })
            .expect("chromedriver says its port");
        // It must be able to go on talking.
        std::thread::spawn(move || said.for_each(drop));
        let profile = tempfile::tempdir().unwrap();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(90)))
            .build();
        let mut browser = Self {
            _driver: Running(driver),
            session: format!("http://127.0.0.1:{port}/session"),
            agent: ureq::Agent::new_with_config(config),
            base: format!("http://{}", site.http),
            _profile: profile,
        };
        let folder = format!("--user-data-dir={}", browser._profile.path().display());
        let flags: Vec<&str> = FLAGS.iter().copied().chain([folder.as_str()]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": flags},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.post("", &wanted);
        let id = session["sessionId"].as_str().unwrap().to_owned();
        browser.session = format!("{}/{id}", browser.session);
        browser.window(1400, 1000, false);
        browser
    }

    /// Sends a command and gives its value.
    #[track_caller]
    pub(super) fn post(&self, command: &str, body: &Json) -> Json {
        let url = format!("{}{command}", self.session);
        let request = ureq::http::Request::post(&url).header("content-type", "application/json");
        self.run(command, request.body(body.to_string()).unwrap())
    }

    #[track_caller]
    pub(super) fn get(&self, command: &str) -> Json {
        let url = format!("{}{command}", self.session);
        self.run(command, ureq::http::Request::get(&url).body(String::new()).unwrap())
    }

    #[track_caller]
    pub(super) fn run(&self, command: &str, request: ureq::http::Request<String>) -> Json {
        let mut response = self.agent.run(request).unwrap();
        let text = response.body_mut().with_config().limit(1 << 28).read_to_string().unwrap();
        let answer: Json = serde_json::from_str(&text).unwrap();
        assert!(response.status().is_success(), "{command}: {}", answer["value"]);
        answer["value"].clone()
    }

    /// The size of the window, as a desktop or as a phone.
    pub(super) fn window(&self, width: u32, height: u32, phone: bool) {
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.cdp("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// Emulates the system's colour scheme: light or dark.
    pub(super) fn prefer(&self, scheme: &str) {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.cdp("Emulation.setEmulatedMedia", &media);
    }

    #[track_caller]
    pub(super) fn cdp(&self, cmd: &str, params: &Json) -> Json {
        self.post("/goog/cdp/execute", &json!({"cmd": cmd, "params": params}))
    }

    #[track_caller]
    pub(super) fn open(&self, target: &str) {
        self.post("/url", &json!({"url": format!("{}{target}", self.base)}));
    }

    /// The address without host.
    #[track_caller]
    pub(super) fn target(&self) -> String {
        let url = self.get("/url").as_str().unwrap().to_owned();
        url.strip_prefix(&self.base).unwrap_or(&url).to_owned()
    }

    /// The element that a CSS selector finds first; waits until there is one.
    #[track_caller]
    pub(super) fn find(&self, css: &str) -> String {
        await_condition(css, || {
            let found = self.post("/elements", &json!({"using": "css selector", "value": css}));
            let first = found[0].as_object().and_then(|it| it.values().next());
            first.and_then(Json::as_str).map(str::to_owned).ok_or(css)
        })
    }

    /// Clicks on it. What is swapped at that moment is found anew.
    #[track_caller]
    pub(super) fn click(&self, css: &str) {
        await_condition(css, || {
            let id = self.find(css);
            let url = format!("{}/element/{id}/click", self.session);
            let request =
                ureq::http::Request::post(&url).header("content-type", "application/json");
            let mut response = self.agent.run(request.body("{}".to_owned()).unwrap()).unwrap();
            let said = response.body_mut().read_to_string().unwrap();
            if response.status().is_success() { Ok(()) } else { Err(said) }
        });
    }

    #[track_caller]
    pub(super) fn keys(&self, css: &str, text: &str) {
        let id = self.find(css);
        self.post(&format!("/element/{id}/value"), &json!({"text": text}));
    }

    /// The value of a piece of JavaScript.
    #[track_caller]
    pub(super) fn js(&self, script: &str) -> Json {
        self.post("/execute/sync", &json!({"script": script, "args": []}))
    }

    #[track_caller]
    pub(super) fn text(&self, css: &str) -> String {
        self.find(css);
        let text = self.js(&format!("return document.querySelector({}).innerText", json!(css)));
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Keeps a picture of the whole page.
    pub(super) fn picture(&self, name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        std::fs::create_dir_all(&folder).unwrap();
        let shot = self.cdp("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let data = shot["data"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap();
        let file = folder.join(format!("{name}.png"));
        std::fs::write(&file, bytes).unwrap();
        file
    }

    /// Asserts that the browser had nothing to complain about, policy included.
    #[track_caller]
    pub(super) fn assert_quiet(&self) {
        let log = self.post("/se/log", &json!({"type": "browser"}));
        let bad = log.as_array().unwrap().iter();
        let bad: Vec<&Json> =
            bad.filter(|line| line["level"] != "DEBUG" && line["level"] != "INFO").collect();
        assert!(bad.is_empty(), "{}: {bad:#?}", self.target());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser; what it cannot be asked, the driver's end does.
        drop(self.agent.delete(&self.session).call());
    }
}
