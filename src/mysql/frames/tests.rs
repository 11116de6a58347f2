//! Frames over a stream in memory.

use tokio::io::DuplexStream;

use super::*;

const PATIENCE: Patience =
    Patience { read: Duration::from_secs(60), write: Duration::from_secs(60) };

fn frames(budget: usize) -> (Frames, DuplexStream) {
    let (here, there) = tokio::io::duplex(1 << 16);
    (Frames::new(here, Budget::new(budget), PATIENCE), there)
}

fn frame(number: u8, body: &[u8]) -> Vec<u8> {
    let [low, middle, high, _] = (body.len() as u32).to_le_bytes();
    [&[low, middle, high, number], body].concat()
}

async fn read(frames: &mut Frames, limit: usize) -> Result<Vec<u8>, CommandError> {
    let packet = frames.read(limit, PATIENCE.read).await;
    packet.map(|packet| packet.bytes)
}

#[tokio::test]
async fn several_packets_in_one_read() {
    let (mut frames, mut client) = frames(0);
    let both = [frame(0, b"first"), frame(0, b"")].concat();
    client.write_all(&both).await.unwrap();
    assert_eq!(read(&mut frames, 100).await.unwrap(), b"first");
    frames.restart();
    assert_eq!(read(&mut frames, 100).await.unwrap(), b"");
}

#[tokio::test]
async fn a_packet_byte_by_byte() {
    let (mut frames, mut client) = frames(0);
    let writer = tokio::spawn(async move {
        for byte in frame(0, b"slowly") {
            client.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        client
    });
    assert_eq!(read(&mut frames, 100).await.unwrap(), b"slowly");
    writer.await.unwrap();
}

#[tokio::test]
async fn long_packets_take_several_frames_both_ways() {
    for length in [FRAME_MAX - 1, FRAME_MAX, FRAME_MAX + 1, 2 * FRAME_MAX] {
        let (here, there) = tokio::io::duplex(1 << 20);
        let budget = Budget::new(128 << 20);
        let mut writer = Frames::new(here, budget.clone(), PATIENCE);
        let mut reader = Frames::new(there, budget, PATIENCE);
        let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let sent = body.clone();
        let task = tokio::spawn(async move {
            writer.packet(|body| body.extend_from_slice(&sent));
            writer.flush().await.unwrap();
            assert_eq!(writer.waiting(), 0);
            assert_eq!(writer.output.capacity(), 0, "a large buffer is given back");
        });
        assert!(read(&mut reader, 64 << 20).await.unwrap() == body);
        assert_eq!(usize::from(reader.sequence), length / FRAME_MAX + 1);
        task.await.unwrap();
    }
}

#[tokio::test]
async fn what_is_too_large_is_read_to_its_end_and_takes_no_memory() {
    let (mut frames, mut client) = frames(64 << 20);
    let writer = tokio::spawn(async move {
        // Two frames of one packet, and a packet that is fine.
        client.write_all(&frame(0, &vec![7; FRAME_MAX])).await.unwrap();
        client.write_all(&frame(1, b"end")).await.unwrap();
        client.write_all(&frame(0, b"next")).await.unwrap();
        client
    });
    let refused = read(&mut frames, 1000).await;
    assert!(
        matches!(refused, Err(CommandError::Reported(SqlError { code: 1153, .. }))),
        "{refused:?}"
    );
    frames.restart();
    assert_eq!(read(&mut frames, 1000).await.unwrap(), b"next");
    writer.await.unwrap();
}

#[tokio::test]
async fn large_packets_share_a_budget() {
    let (mut frames, mut client) = frames(300 << 10);
    let writer = tokio::spawn(async move {
        for size in [200 << 10, 290 << 10, 60 << 10, 200 << 10] {
            client.write_all(&frame(0, &vec![1; size])).await.unwrap();
        }
        client
    });
    let first = frames.read(1 << 20, PATIENCE.read).await.unwrap();
    frames.restart();
    // While the first is held, the second does not fit; small ones pass all the same.
    let second = read(&mut frames, 1 << 20).await;
    assert!(
        matches!(second, Err(CommandError::Reported(SqlError { code: 1041, .. }))),
        "{second:?}"
    );
    frames.restart();
    assert_eq!(read(&mut frames, 1 << 20).await.unwrap().len(), 60 << 10);
    frames.restart();
    drop(first);
    assert_eq!(read(&mut frames, 1 << 20).await.unwrap().len(), 200 << 10);
    writer.await.unwrap();
}

#[tokio::test]
async fn an_announced_length_takes_no_memory() {
    let (mut frames, mut client) = frames(1 << 30);
    client.write_all(&[0xFE, 0xFF, 0xFF, 0, 1, 2, 3]).await.unwrap();
    drop(client);
    let cut = read(&mut frames, 1 << 30).await;
    assert!(matches!(cut, Err(CommandError::Lost(_))), "{cut:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let (mut frames, mut client) = frames(0);
    client.write_all(&[5, 0, 0]).await.unwrap();
    assert!(matches!(read(&mut frames, 100).await, Err(CommandError::Lost(_))));
    // The client reads nothing.
    frames.packet(|body| body.resize(body.len() + (1 << 17), 0));
    assert!(matches!(frames.flush().await, Err(CommandError::Lost(_))));
}

#[tokio::test]
async fn frames_count_up() {
    let (mut frames, mut client) = frames(0);
    client.write_all(&frame(1, b"x")).await.unwrap();
    assert!(matches!(
        read(&mut frames, 100).await,
        Err(CommandError::Fatal(SqlError { code: 1156, .. }))
    ));
}

#[tokio::test]
async fn a_client_that_goes_is_noticed_and_what_it_sent_before_is_kept() {
    let (mut frames, mut client) = frames(0);
    client.write_all(&QUIT).await.unwrap();
    drop(client);
    frames.gone().await;
    assert_eq!(read(&mut frames, 100).await.unwrap(), [1]);
    frames.gone().await;

    // A client that sent more before closing its side gets its answers.
    let (mut frames, mut client) = self::frames(0);
    client.write_all(&frame(0, b"early")).await.unwrap();
    client.shutdown().await.unwrap();
    let gone = timeout(Duration::from_millis(50), frames.gone()).await;
    assert!(gone.is_err(), "it waits");
    assert_eq!(read(&mut frames, 100).await.unwrap(), b"early");
    frames.gone().await;
}
