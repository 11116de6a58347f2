//! The daemon when the system gives it no more descriptors, and while clients hold on to those they
//! were given.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use prost::Message as _;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::harness::{Program, Sender, Site, await_condition, await_until, clean, program, run};
use crate::packets::request;

/// Descriptors that the daemon may still open.
const SPARE: u64 = 4;

/// How many descriptors it has.
fn descriptors(program: &Program) -> u64 {
    let open = std::fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap();
    open.count() as u64
}

/// Lets `program` have so many descriptors more than it has, or as many as before; how many that
/// are.
fn limit(program: &Program, spare: Option<u64>) -> u64 {
    let pid = Pid::from_raw(i32::try_from(program.id()).unwrap());
    // What this process has is what the daemon has got from it.
    let own = getrlimit(Resource::Nofile);
    let current = spare.map(|spare| descriptors(program) + spare);
    let current = current.or(own.current);
    prlimit(pid, Resource::Nofile, Rlimit { current, ..own }).unwrap();
    current.unwrap_or(u64::MAX)
}

/// Processor time that a process, or this thread, has used, in clock ticks of 10 ms.
fn ticks(of: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// One answer on a connection that stays open.
fn ask_on(stream: &mut TcpStream, target: &str) -> std::io::Result<String> {
    write!(stream, "GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut reply = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let bytes = stream.read(&mut piece)?;
        reply.extend_from_slice(&piece[..bytes]);
        let text = String::from_utf8_lossy(&reply);
        if bytes == 0 || text.ends_with("}\n") {
            return Ok(text.into_owned());
        }
    }
}

fn connect(site: &Site) -> TcpStream {
    let stream = TcpStream::connect(site.http).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    stream
}

/// A connection that has asked already, whether the daemon takes it or not: the kernel makes it.
fn asking(site: &Site) -> TcpStream {
    let mut stream = connect(site);
    write!(stream, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Whether somebody has answered on this connection, or closed it.
fn is_served(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

/// Packets are taken, who is connected is served, nothing spins; and when there are descriptors
/// again, so are the others.
///
/// Those that are served and then say nothing leave in time, and others come in their places: so it
/// is not connections that are counted here but descriptors.
#[test]
fn without_descriptors_it_goes_on_and_comes_back() {
    // A buffer for all packets: nobody has to be asked whether there is room for more.
    let program = Program::serve(&["ingest.recv_buffer=4MB"]);
    let began = Instant::now();
    let site = &program.site;
    let mut packets = Sender::new(site);
    let mut served = connect(site);
    served.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(ask_on(&mut served, "/healthz").unwrap().contains("200 OK"));
    let most = limit(&program, Some(SPARE));
    let others: Vec<TcpStream> = (0..SPARE + 20).map(|_| asking(site)).collect();
    let waiting = || others.iter().filter(|stream| !is_served(stream)).count();
    await_condition("all descriptors are used and clients wait", || {
        let (has, waiting) = (descriptors(&program), waiting());
        if has >= most && waiting > 0 {
            Ok(())
        } else {
            Err(format!("{has} of {most} descriptors, {waiting} wait"))
        }
    });
    // Packets need none. The harness's own connection may be among those that wait, so the counters
    // come from `served`.
    let packet = request("h", "s", "/x").encode_to_vec();
    for _ in 0..500 {
        packets.send(&packet);
    }
    await_until(
        "packets are merged",
        || ask_on(&mut served, "/api/v1/status").unwrap(),
        |status| status.contains("\"requests_merged\":500,"),
    );
    // A loop that asks again and again for what it cannot have would take all of one processor, as
    // this one does; or as much of one as others leave.
    let (daemon, this) = (program.id().to_string(), "thread-self");
    let (before, own, start) = (ticks(&daemon), ticks(this), Instant::now());
    while start.elapsed() < Duration::from_secs(1) || ticks(this) < own + 30 {
        std::hint::spin_loop();
    }
    let (used, own) = (ticks(&daemon) - before, ticks(this) - own);
    assert!(used < own / 2, "{used} ticks, {own} of a loop");
    assert!(waiting() > 0, "there still is somebody who waits");
    limit(&program, None);
    await_condition("those that waited are served", || match waiting() {
        0 => Ok(()),
        waiting => Err(waiting),
    });
    assert_eq!(packets.at_rest().count("requests_merged"), 500);
    let lines = program.log();
    let said = lines
        .iter()
        .filter(|line| line["message"] == "Cannot accept HTTP connections; retrying.")
        .count();
    // Once a minute, however often a place became free in between: those that are served and say
    // nothing leave, and others take their places.
    let most = 1 + began.elapsed().as_secs() / 60;
    assert!((1..=most).contains(&(said as u64)), "{said} times: {lines:?}");
}

/// Clients that ask for a large answer and do not read it keep their own connections busy and
/// nothing else.
#[test]
fn readers_that_stand_still_cost_no_packet_and_no_other_answer() {
    let program = Program::serve(&["ingest.recv_buffer=4MB"]);
    let site = &program.site;
    let mut packets = Sender::new(site);
    for number in 0..4000 {
        packets.send(&request("h", "s", &format!("/script-{number:0>300}")).encode_to_vec());
    }
    packets.at_rest();
    // More than there are places for such answers.
    let stuck: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = connect(site);
            let small = socket2::SockRef::from(&stream);
            small.set_recv_buffer_size(4096).unwrap();
            let target = "/api/v1/reports/report_by_script_name?limit=0";
            write!(stream, "GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    for number in 0..4000 {
        packets.send(&request("h", "s", &format!("/script-{number:0>300}")).encode_to_vec());
    }
    let status = packets.at_rest();
    status.assert_accounted();
    assert_eq!(status.count("requests_merged"), 8000);
    assert_eq!(status.count("requests_overwritten"), 0);
    let rows = site.json("/api/v1/reports/report_by_script_name?limit=3");
    assert_eq!(rows["rows"][0]["req_count"], 2);
    assert_eq!(site.get("/readyz").status, 200);
    drop(stuck);
}

#[test]
fn pools_that_are_larger_than_memory_are_refused_by_name() {
    for key in ["pool.request_pool_size", "pool.timer_pool_size"] {
        let mut command = clean(Command::new("sh"));
        let program = program();
        command.args(["-c", "ulimit -v 4194304; exec \"$@\"", "sh", &program, "serve"]);
        for setting in [&format!("{key}=1000000000"), "ingest.listen=127.0.0.1:0", "data.dir="] {
            command.args(["--set", setting]);
        }
        let said = run(&mut command);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert_has!(said.err => &format!("{key}: the system has no "));
    }
}
