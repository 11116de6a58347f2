//! The demonstration's site, generated without sending: its wave, its slow day, its bursts of
//! errors, and packets that fit.

use std::net::UdpSocket;

use super::*;
use std::collections::{HashMap, HashSet};

/// Generates all requests of the first `seconds`.
fn play(rate: f64, seconds: u64) -> Vec<(Duration, Request)> {
    let mut shop = Shop::new(SEED, rate);
    let mut requests = Vec::new();
    while shop.next_at() < Duration::from_secs(seconds) {
        requests.push((shop.next_at(), shop.next_request()));
    }
    requests
}

fn mean_ms<'a>(requests: impl Iterator<Item = &'a (Duration, Request)>) -> f64 {
    let (mut count, mut sum) = (0.0, 0.0);
    for (_, request) in requests {
        count += 1.0;
        sum += f64::from(request.request_time()) * 1000.0;
    }
    sum / count
}

#[test]
fn the_rate_is_right_over_a_day_and_follows_the_wave() {
    let day = play(50.0, DAY.as_secs());
    let expected = 50 * DAY.as_secs() as usize;
    assert!(day.len().abs_diff(expected) < expected / 50, "{} of {expected}", day.len());
    let in_minute = |minute| day.iter().filter(|(at, _)| at.as_secs() / 60 == minute).count();
    assert!(in_minute(2) > 2 * in_minute(7), "noon {} night {}", in_minute(2), in_minute(7));
}

#[test]
fn one_minute_shows_everything() {
    let minute = play(RATE_DEFAULT, 60);
    let different = |of: fn(&Request) -> Vec<u8>| {
        minute.iter().map(|(_, request)| of(request)).collect::<HashSet<_>>().len()
    };
    assert_eq!(different(|request| request.hostname().to_vec()), HOSTS_ALL);
    assert_eq!(different(|request| request.server_name().to_vec()), 3);
    assert!(different(|request| request.script_name().to_vec()) >= 38);
    assert!(different(|request| request.status().to_string().into_bytes()) >= 6);
    let words: HashSet<_> = minute.iter().flat_map(|(_, request)| &request.dictionary).collect();
    for word in "env production staging release group server operation mysql memcached redis http \
         select insert db-main db-replica-2"
        .split(' ')
    {
        assert!(words.contains(&word.as_bytes().to_vec()), "{word} is missing");
    }
}

const HOSTS_ALL: usize = 7;

#[test]
fn the_regression_shows_in_its_script_and_its_database_only() {
    let minutes = play(200.0, 120);
    let of = |path: &'static str, slow: bool| {
        minutes.iter().filter(move |(at, request)| {
            request.script_name() == path.as_bytes() && in_phase(*at, REGRESSION) == slow
        })
    };
    let (slow, normal) = (mean_ms(of(SLOW_SCRIPT, true)), mean_ms(of(SLOW_SCRIPT, false)));
    assert!(slow > 2.0 * normal, "{slow} ms and {normal} ms");
    let other = mean_ms(of("/cart/view.php", true)) / mean_ms(of("/cart/view.php", false));
    assert!((0.8..1.25).contains(&other), "another script is {other} times as slow");

    // The timers single out the one slow server.
    let mut seconds: HashMap<&[u8], f32> = HashMap::new();
    for (_, request) in of(SLOW_SCRIPT, true) {
        let mut start = 0;
        for (value, count) in request.timer_value.iter().zip(&request.timer_tag_count) {
            // Sorted by name: group, operation, server.
            let server = request.timer_tag_value[start + 2] as usize;
            *seconds.entry(&request.dictionary[server]).or_default() += value;
            start += *count as usize;
        }
    }
    assert!(seconds[&b"db-replica-2"[..]] > 5.0 * seconds[&b"db-replica-1"[..]], "{seconds:?}");
}

#[test]
fn errors_come_in_bursts_from_one_host() {
    let minutes = play(200.0, 90);
    let errors = |host: &str, burst: bool| {
        let of_host = minutes.iter().filter(|(at, request)| {
            request.hostname() == host.as_bytes() && in_phase(*at, ERRORS) == burst
        });
        let statuses: Vec<u32> = of_host.filter_map(|(_, request)| request.status).collect();
        statuses.iter().filter(|status| **status >= 500).count() as f64 / statuses.len() as f64
    };
    assert!(errors(BROKEN_HOST, true) > 0.3);
    assert!(errors(BROKEN_HOST, false) < 0.02);
    assert!(errors("api-01", true) < 0.02);
}

#[test]
fn a_slow_host_a_careless_release_and_an_outage_can_be_found() {
    let minutes = play(200.0, 240);
    let of_host = |host: &'static str| {
        let is_it = move |it: &&(Duration, Request)| it.1.hostname() == host.as_bytes();
        mean_ms(minutes.iter().filter(is_it).filter(|it| it.1.status() < 500))
    };
    let others = ["web-01", "web-02", "web-04"].map(of_host);
    let slowest = others.into_iter().fold(0.0, f64::max);
    assert!(of_host(SLOW_HOST) > 1.4 * slowest, "{} {others:?}", of_host(SLOW_HOST));

    let word =
        |request: &Request, word: &str| request.dictionary.iter().any(|it| it == word.as_bytes());
    let of_release = |release: &'static str| {
        let reviews = minutes.iter().filter(|it| it.1.script_name() == CARELESS_SCRIPT.as_bytes());
        mean_ms(reviews.filter(move |it| word(&it.1, release)))
    };
    let (before, after) = (of_release(FIRST_RELEASE), of_release(CARELESS_RELEASE));
    assert!(after > 1.5 * before, "{before} {after}");
    // There is time for as many windows as a verdict takes, and for itself, within three minutes.
    let rollout = minutes.iter().find(|it| word(&it.1, CARELESS_RELEASE));
    let rollout = rollout.unwrap().0;
    assert!((16 * RELEASE_AFTER..Duration::from_secs(180) - RELEASE_AFTER).contains(&rollout));

    // It stays, and with it the verdict at the top of the overview.
    let hour = play(1.0, 4_000);
    let later = hour.iter().filter(|(at, _)| *at > Duration::from_secs(180));
    assert!(later.into_iter().all(|it| word(&it.1, CARELESS_RELEASE)));

    let unpaid = minutes.iter().filter(|it| it.1.status() == 502);
    let unpaid: Vec<_> = unpaid.collect();
    assert!(unpaid.len() > 20, "{}", unpaid.len());
    for (at, request) in unpaid {
        assert!(in_phase(*at, OUTAGE) && request.request_time() > 3.0);
        assert!(word(request, "payments.example"), "{request:?}");
    }
}

#[test]
fn requests_are_plausible_and_fit_a_datagram() {
    let mut seen = HashSet::new();
    for (_, request) in play(150.0, 120) {
        let packet = request.encode_to_vec();
        assert!((120..1400).contains(&packet.len()), "{} bytes", packet.len());
        assert_eq!(Request::decode(&*packet).unwrap(), request);
        assert!(request.ru_utime() + request.ru_stime() < request.request_time());
        // CPU time of timers is part of that of the request.
        for (whole, parts) in [
            (request.ru_utime(), &request.timer_ru_utime),
            (request.ru_stime(), &request.timer_ru_stime),
        ] {
            assert!(parts.iter().sum::<f32>() <= whole, "{request:?}");
        }
        let waited: f32 = request.timer_value.iter().sum();
        assert!(waited <= request.request_time(), "{waited} s in {request:?}");
        assert!(request.timer_hit_count.iter().all(|hits| *hits > 0));
        assert_eq!(request.timer_hit_count.len(), request.timer_ru_utime.len());
        seen.insert(request.script_name);
    }
    assert_eq!(
        seen.len(),
        CAST.scripts().count(),
        "two scripts share a path, or one is never asked for"
    );
}

/// Takes 50 packets from it, then stops listening for `pause`; returns its counts.
fn taken_and_left(pause: Duration) -> (u64, u64) {
    let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = daemon.local_addr().unwrap();
    let shutdown = Shutdown::new();
    let asked = shutdown.clone();
    let demo = thread::spawn(move || run(target, 500.0, &asked).unwrap());
    let mut buffer = [0; 2048];
    daemon.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for _ in 0..50 {
        let bytes = daemon.recv(&mut buffer).unwrap();
        assert!(Request::decode(&buffer[..bytes]).is_ok());
    }
    // The kernel has nobody for it there any more, and keeps the port for nobody else.
    daemon.connect(target).unwrap();
    thread::sleep(pause);
    shutdown.request();
    demo.join().unwrap()
}

#[test]
fn runs_until_it_is_told_to_stop() {
    // It goes on while nobody listens for a while. A tenth of a second is enough unless the machine
    // is busy with something else.
    let mut pauses = [100, 1_000, 10_000, 30_000].map(Duration::from_millis).into_iter();
    let refused = pauses.any(|pause| {
        let counts = taken_and_left(pause);
        assert!(counts.0 >= 50, "{counts:?}");
        counts.1 > 0
    });
    assert!(refused, "it sends no more");
}
