//! How a served endpoint ends (hard case M1 as far as it touches HTTP), and what a silent stream carries.

use std::time::Instant;

use super::*;
use crate::mcp::STOP_GRACE;

#[tokio::test]
async fn hard_m1_a_stop_ends_waits_with_their_answer_and_streams_in_order() {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let session = [("Mcp-Session-Id", id.as_str())];
    let mut stream = site.wire().await;
    stream
        .write(&Ask::new("GET").with(&session).bytes(site.address))
        .await;
    assert_eq!(stream.head().await.status, 200);
    let mut waiting = site.wire().await;
    waiting
        .write(
            &Ask::post(&call(1, "wait"))
                .with(&session)
                .bytes(site.address),
        )
        .await;
    site.watched.until(|seen| seen.waits == 1).await;
    let mut idle = site.wire().await;
    idle.write(&Ask::new("PUT").bytes(site.address)).await;
    assert_eq!(idle.reply().await.status(), 405);

    let start = Instant::now();
    site.watched.shutdown.cancel();
    site.stop.cancel();
    let reply = waiting.reply().await;
    assert_eq!(text_of(&reply.messages()[0]), "stopped");
    assert_eq!(stream.chunk().await, None);
    for wire in [&mut waiting, &mut stream, &mut idle] {
        wire.closed().await;
    }
    let ended = timeout(PATIENCE, site.server).await.expect("in time");
    ended.expect("no panic");
    // Nothing waited for the time that is given to requests in flight.
    assert!(start.elapsed() < STOP_GRACE);
}

#[tokio::test]
async fn hard_m1_a_call_that_hangs_and_a_half_sent_request_hold_the_stop_up_for_two_seconds_at_most()
 {
    let site = Site::new().await;
    let id = site.session(&[]).await;
    let session = [("Mcp-Session-Id", id.as_str())];
    let mut hanging = site.wire().await;
    hanging
        .write(
            &Ask::post(&call(1, "hang"))
                .with(&session)
                .bytes(site.address),
        )
        .await;
    assert_eq!(hanging.head().await.status, 200);
    let mut half = site.wire().await;
    let bytes = Ask::post(&call(2, "echo"))
        .with(&session)
        .bytes(site.address);
    half.write(&bytes[..bytes.len() - 1]).await;
    let start = Instant::now();
    site.end().await;
    let took = start.elapsed();
    assert!(took >= STOP_GRACE, "{took:?}");
    // Within 2 seconds by its own clock; a busy machine may add to it here.
    assert!(took < 2 * STOP_GRACE, "{took:?}");
    // What hung was cut off, with the proper end of its stream.
    assert_eq!(hanging.chunk().await, None);
}
