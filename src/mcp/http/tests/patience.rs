//! Whoever begins a request and stops is not waited for without end; whoever waits for an answer is.

use std::time::Instant;

use super::*;

/// Short, so that a test can outlast it.
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn half_a_head_ends_its_connection_and_no_stream() {
    let site = Site::with_patience(SHORT).await;
    let id = site.session(&[]).await;
    let session = [("Mcp-Session-Id", id.as_str())];
    let mut stream = site.wire().await;
    let get = Ask::new("GET").with(&session).bytes(site.address);
    stream.write(&get).await;
    assert_eq!(stream.head().await.status, 200);
    let mut waiting = site.wire().await;
    let wait = Ask::post(&call(1, "wait")).with(&session);
    waiting.write(&wait.bytes(site.address)).await;
    site.watched.until(|seen| seen.waits == 1).await;

    let start = Instant::now();
    let (mut half, mut silent) = (site.wire().await, site.wire().await);
    half.write(&get[..get.len() - 2]).await;
    half.closed().await;
    silent.closed().await;
    assert!(start.elapsed() >= SHORT);
    // By now the stream and the call are older than that.
    site.watched.shutdown.cancel();
    site.stop.cancel();
    assert_eq!(text_of(&waiting.reply().await.messages()[0]), "stopped");
    assert_eq!(stream.chunk().await, None);
    stream.closed().await;
    timeout(PATIENCE, site.server).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_that_comes_to_a_halt_ends_its_connection() {
    let site = Site::with_patience(SHORT).await;
    let id = site.session(&[]).await;
    let session = [("Mcp-Session-Id", id.as_str())];
    let bytes = Ask::post(&call(1, "echo")).with(&session);
    let bytes = bytes.bytes(site.address);
    let mut halted = site.wire().await;
    let start = Instant::now();
    halted.write(&bytes[..bytes.len() - 1]).await;
    assert_eq!(halted.reply().await.status(), 408);
    halted.closed().await;
    assert!(start.elapsed() >= SHORT);
    // One whose parts keep coming may take longer than that in all.
    let mut slow = site.wire().await;
    let (head, body) = bytes.split_at(bytes.len() - 4);
    slow.write(head).await;
    for byte in body {
        tokio::time::sleep(SHORT / 2).await;
        slow.write(&[*byte]).await;
    }
    assert_eq!(slow.reply().await.status(), 200);
    site.end().await;
}
