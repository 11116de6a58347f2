//! A real Squid in front of a server of the tests: what it logs arrives, and what it drops is said.

use super::*;

/// A server of the test's own behind the proxy.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Most bytes of an answer that are sent, whatever was promised.
const SENT_MAX: usize = 1_000_000;

/// Answers one request; what goes wrong is the client's business.
fn serve(mut stream: TcpStream) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Ok(1..) = reader.read_line(&mut head) {
        if head.ends_with("\r\n\r\n") {
            break;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let modified = "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT";
    let (status, headers, bytes) = match path {
        "/cache" => ("200 OK", "Cache-Control: max-age=600", 5000),
        "/big" => ("200 OK", "Cache-Control: max-age=600", 1_000_000),
        "/reval" if head.contains("If-Modified-Since") => ("304 Not Modified", modified, 0),
        "/reval" => (
            "200 OK",
            "Cache-Control: max-age=0\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
            3000,
        ),
        "/endless" => ("200 OK", "Cache-Control: no-store", 1 << 30),
        _ => ("200 OK", "Cache-Control: no-store", 1000),
    };
    let length = if status.starts_with("304") {
        String::new()
    } else {
        format!("Content-Length: {bytes}\r\n")
    };
    // Without it Squid takes what it has for stale.
    let now = chrono::Utc::now().format("%a, %d %b %Y %H:%M:%S GMT");
    let answer = format!(
        "HTTP/1.1 {status}\r\nDate: {now}\r\n{headers}\r\n{length}Content-Type: text/plain\r\nConnection: close\r\n\r\n"
    );
    let mut sent = stream.write_all(answer.as_bytes());
    let piece = [b'x'; 10_000];
    let mut left = bytes.min(SENT_MAX);
    while left > 0 && sent.is_ok() {
        let now = left.min(piece.len());
        sent = stream.write_all(&piece[..now]);
        left -= now;
    }
    if bytes > SENT_MAX {
        // Who waits for the rest has to go first.
        let _closed = stream.read(&mut [0]);
    }
}

/// A Squid of the test's own.
struct Squid {
    _server: Running,
    address: SocketAddr,
}

impl Squid {
    fn start(folder: &Path, udp: SocketAddr, tcp: SocketAddr) -> Self {
        let address = free_address("127.0.0.1");
        // It does not stay root.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        let dir = folder.display();
        let config = format!(
            "http_port {address}\nvisible_hostname proxy.test\npid_filename {dir}/squid.pid\n\
             cache_log {dir}/cache.log\ncoredump_dir {dir}\ncache_mem 8 MB\nmaximum_object_size_in_memory 64 KB\n\
             cache_dir ufs {dir}/cache 50 4 4\npinger_enable off\nshutdown_lifetime 1 seconds\n\
             acl denied urlpath_regex ^/denied\nhttp_access deny denied\nhttp_access allow all\n\
             logformat collector sq1 start=%tS end=%ts.%03tu tr=%tr dt=%dt pt=%<pt tt=%<tt ss=%Ss hs=%03>Hs ohs=%<Hs \
             rm=%rm in=%>st out=%<st bs=%<bs sh=%Sh peer=%<a:%<p cl=%>a:%>p err=%err_code tx=%master_xaction sn=%sn \
             mt=%#mt host=%#>rd url=%#>ru ua=%#{{User-Agent}}>h\n\
             access_log udp://{udp} logformat=collector buffer-size=0bytes\n\
             access_log tcp://{tcp} logformat=collector on-error=drop\n\
             access_log stdio:{dir}/collector.log logformat=collector\n\
             access_log stdio:{dir}/access.log logformat=squid\ncache_store_log none\nlogfile_rotate 0\n"
        );
        let path = folder.join("squid.conf");
        fs::write(&path, config).unwrap();
        let squid = || {
            let mut squid = Command::new("/usr/sbin/squid");
            squid.arg("-N").arg("-f").arg(&path);
            squid
        };
        let made = run(squid().arg("-z"));
        assert_eq!(made.code, Some(0), "squid, which Debian has as a package: {}", made.err);
        let server = squid().stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let _server = Running(server.unwrap());
        await_condition("squid listens", || TcpStream::connect(address).map(drop));
        Self { _server, address }
    }

    /// Sends this and reads at most so much of the answer.
    fn say(&self, text: &str, bytes: u64) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.take(bytes).read_to_end(&mut answer).unwrap();
        answer
    }

    fn get(&self, url: &str) -> Vec<u8> {
        self.say(&format!("GET {url} HTTP/1.0\r\nUser-Agent: a test\r\n\r\n"), u64::MAX)
    }
}

#[test]
fn real_squid_arrives_with_its_own_times_and_codes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("collector.log");
    let here = Here::start(&[&EVERY_WAY.replace("PATH", file.to_str().unwrap())]);
    let site = &here.site;
    let squid = Squid::start(folder.path(), address(site, 0), address(site, 1));
    let origin = origin();
    let url = |path: &str| format!("http://{origin}{path}");
    assert!(squid.get(&url("/cache")).len() > 5000);
    squid.get(&url("/cache"));
    // Too large for the memory of the cache.
    squid.get(&url("/big"));
    await_until(
        "it is on disk",
        || String::from_utf8_lossy(&squid.get(&url("/big"))[..600]).into_owned(),
        |answer| answer.contains("X-Cache: HIT"),
    );
    squid.get(&url("/reval"));
    squid.get(&url("/reval"));
    squid.get(&url("/nocache?user=1"));
    squid.get(&url("/denied"));
    // A client that goes while Squid writes to it is none that aborted, to Squid.
    let own_log = || fs::read_to_string(folder.path().join("access.log")).unwrap();
    let mut asked = 0;
    while !own_log().contains("_ABORTED") {
        asked += 1;
        assert!(asked < 50, "{}", own_log());
        let endless = format!("GET {} HTTP/1.0\r\n\r\n", url("/endless"));
        squid.say(&endless, SENT_MAX as u64);
        await_until("Squid has seen that the client went", &own_log, |own| {
            own.matches("/endless").count() == asked
        });
    }
    let tunnel = format!(
        "CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\nGET /tunnelled HTTP/1.0\r\n\r\n"
    );
    squid.say(&tunnel, u64::MAX);
    squid.say("NONSENSE\r\n\r\n", u64::MAX);
    let own = await_condition("Squid has logged all", || {
        let own = own_log();
        let mut all = ["TCP_TUNNEL", "NONE_NONE/400"].iter();
        if all.all(|it| own.contains(it)) { Ok(own) } else { Err(own) }
    });
    let mut expected: Vec<String> = own
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (code, status) = words[3].split_once('/').unwrap();
            let status: u32 = status.parse().unwrap();
            format!("{code} {status} {} {} {}", words[1], words[4], words[5])
        })
        .collect();
    expected.sort();
    for code in [
        "TCP_MISS ",
        "TCP_MEM_HIT",
        "TCP_HIT",
        "TCP_REFRESH_UNMODIFIED",
        "TCP_DENIED",
        "_ABORTED",
        "TCP_TUNNEL",
        "NONE_NONE",
    ] {
        assert!(expected.iter().any(|line| line.contains(code)), "{code} in {expected:#?}");
    }
    for (at, host) in ["by-udp", "by-tcp", "by-file"].into_iter().enumerate() {
        let source = received(site, at, expected.len() as u64);
        assert_eq!(source.count("requests"), expected.len() as u64, "{source:?}");
        let mut came: Vec<String> = requests(site, host)
            .iter()
            .map(|row| {
                let id = row["id"].as_u64().unwrap();
                let tags = site.json(&format!("/api/v1/requests/{id}"))["tags"].clone();
                let text = |name: &str| tags[name].as_str().unwrap_or("-").to_owned();
                let ms = (row["req_time"].as_f64().unwrap() * 1000.0).round();
                let bytes = (row["doc_size"].as_f64().unwrap() * 1024.0).round();
                format!("{} {} {ms} {bytes} {}", text("code"), row["status"], text("method"))
            })
            .collect();
        came.sort();
        assert_eq!(came, expected, "{host}");
    }
    drop(squid);
    here.stop();
}

/// Ends what waits for it, also when a test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While pinbad stops and starts again, the requests received on each path and those reported lost
/// add up to all that Squid logged.
#[test]
fn a_restart_loses_what_squid_drops_and_says_how_much() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = folder.path().join("collector.log");
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = free.local_addr().unwrap();
    drop(free);
    let tcp = free_address("127.0.0.1");
    let ways = format!(
        "squid=[{{listen='udp://{udp}',name='by-udp'}},{{listen='tcp://{tcp}',name='by-tcp'}},{{path='{}',name='by-file'}}]",
        file.display()
    );
    let state = format!("state.dir={}", state.path().display());
    let start = || Here::start(&[&ways, &state]);
    let here = start();
    let squid = Squid::start(folder.path(), udp, tcp);
    let url = format!("http://{}/nocache", origin());
    let logged = || {
        let own = fs::read_to_string(folder.path().join("access.log"));
        own.unwrap_or_default().lines().count() as u64
    };
    let more = |count: u64| {
        let until = logged() + count;
        await_until("Squid has logged more", &logged, |now| *now >= until);
    };
    let taken = |site: &Site, at: usize| source(site, at).count("requests");
    let ended = AtomicBool::new(false);
    let here = std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                squid.get(&url);
                // Each leaves two ports that rest for a minute.
                std::thread::sleep(Duration::from_millis(8));
            }
        });
        more(50);
        await_until(
            "all ways bring lines",
            || [0, 1, 2].map(|at| taken(&here.site, at)),
            |all| all.iter().all(|count| *count > 0),
        );
        here.stop();
        more(50);
        let here = start();
        let before = taken(&here.site, 1);
        await_until("Squid has connected again", || taken(&here.site, 1), |now| *now > before);
        more(50);
        here
    });
    for (at, host) in ["by-udp", "by-tcp", "by-file"].into_iter().enumerate() {
        let source = await_condition("all lines have come, or are said to be lost", || {
            let source = source(&here.site, at);
            let lost = source.count("lines_lost") - source.count("lines_late");
            let rows = requests(&here.site, host).len() as u64;
            match rows == taken(&here.site, at) && rows + lost == logged() {
                true => Ok(source),
                false => Err((rows, logged(), source)),
            }
        });
        match host {
            "by-udp" => assert!(source.count("lines_lost") >= 50, "{source:?}"),
            "by-file" => assert_eq!(source.count("lines_lost"), 0, "{source:?}"),
            _ => {}
        }
    }
    drop(squid);
    here.stop();
}
