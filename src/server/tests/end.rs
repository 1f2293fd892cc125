//! How connections end: by the client, by the server, by a fault.

use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::server::{Stop, serve};

#[tokio::test]
async fn hard_l10_what_a_client_held_goes_back_when_it_leaves() {
    let server = Server::new();
    let (mut worker, mut other) = (server.connect(), server.connect());
    other
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}))
        .await;
    let pulled = worker
        .ask(json!({"cmd": "PULL", "queue": "q", "owner": "w"}))
        .await;
    assert_eq!(pulled["job"]["id"], "j");
    let register = json!({"cmd": "RegisterWorker", "name": "n", "queues": ["q"]});
    assert_eq!(worker.ask(register).await["ok"], true);
    assert_eq!(worker.leave().await, Ended::Closed);
    let again = other
        .ask(json!({"cmd": "PULL", "queue": "q", "owner": "o"}))
        .await;
    assert_eq!(
        (&again["job"]["id"], &again["job"]["attempts"]),
        (&json!("j"), &json!(0))
    );
    let workers = other.ask(json!({"cmd": "ListWorkers"})).await;
    assert_eq!(workers["data"]["workers"], json!([]));
}

#[tokio::test]
async fn a_delivery_that_nobody_read_goes_back() {
    let server = Server::new();
    let (mut worker, mut other) = (server.connect(), server.connect());
    other
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}))
        .await;
    worker
        .send(&json!({"cmd": "PULL", "queue": "q", "owner": "w"}))
        .await;
    // Whether the server notices while it writes or while it reads is all the same.
    worker.leave().await;
    let pulled = other.ask(json!({"cmd": "PULL", "queue": "q"})).await;
    assert_eq!(pulled["job"]["id"], "j");
}

#[tokio::test]
async fn hard_m4_a_wait_ends_with_its_connection() {
    let server = Server::new();
    let (mut worker, mut other) = (server.connect(), server.connect());
    worker
        .send(&json!({"cmd": "PULL", "queue": "q", "timeout": 60_000}))
        .await;
    worker.ping().await;
    assert_eq!(worker.leave().await, Ended::Closed);
    other
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "j"}))
        .await;
    let state = other.ask(json!({"cmd": "GetState", "id": "j"})).await;
    assert_eq!(state["state"], "waiting");
}

#[tokio::test]
async fn what_was_asked_before_the_end_is_answered() {
    let server = Server::new();
    let mut client = server.connect();
    client
        .send(&json!({"cmd": "PUSH", "queue": "q", "jobId": "j", "reqId": "1"}))
        .await;
    // Only this side is closed; the replies can still be read.
    soon(client.stream.shutdown()).await.unwrap();
    assert_eq!(
        client.reply().await,
        json!({"ok": true, "id": "j", "reqId": "1"})
    );
    assert_eq!(client.ended().await, Ended::Closed);
}

#[tokio::test]
async fn a_shutdown_answers_waits_and_closes() {
    let server = Server::new();
    let mut client = server.connect();
    client
        .send(&json!({"cmd": "PULLB", "queue": "q", "count": 1, "timeout": 60_000, "reqId": "w"}))
        .await;
    client.ping().await;
    server.door.broker.shut_down();
    server.shutdown.cancel();
    assert_eq!(
        client.reply().await,
        json!({"ok": true, "jobs": [], "reqId": "w"})
    );
    assert_eq!(client.ended().await, Ended::Shutdown);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_client_that_does_not_read() {
    let server = Server::new();
    let mut client = server.connect();
    let data = "x".repeat(4 * PIPE);
    client
        .ask(json!({"cmd": "PUSH", "queue": "q", "jobId": "large", "data": data}))
        .await;
    client.send(&json!({"cmd": "GetJob", "id": "large"})).await;
    // The reply has begun when its first bytes are there, and cannot end before the rest is read.
    soon(client.stream.read_u8()).await.unwrap();
    server.shutdown.cancel();
    assert_eq!(soon(client.session).await.unwrap(), Ended::Shutdown);
}

struct Listening {
    address: std::net::SocketAddr,
    stop: Stop,
    task: JoinHandle<()>,
}

async fn listen(broker: Arc<dyn Broker>) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Stop::default();
    let options = ServerOptions::default();
    let task = tokio::spawn(serve(listener, broker, options, stop.clone()));
    Listening {
        address,
        stop,
        task,
    }
}

async fn tcp_ask(stream: &mut TcpStream, value: &Json) -> std::io::Result<Json> {
    stream.write_all(&frame(value)).await?;
    let mut body = vec![0; stream.read_u32().await? as usize];
    stream.read_exact(&mut body).await?;
    Ok(rmp_serde::from_slice(&body).unwrap())
}

#[tokio::test]
async fn the_listener_serves_until_it_is_told_to_stop() {
    let broker = Arc::new(LocalBroker::start(Config::default()).unwrap());
    let server = listen(broker.clone()).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(soon(TcpStream::connect(server.address)).await.unwrap());
    }
    for client in &mut clients {
        let hello = soon(tcp_ask(client, &json!({"cmd": "Hello", "reqId": "h"})))
            .await
            .unwrap();
        assert_eq!(
            (&hello["server"], &hello["protocolVersion"]),
            (&json!("bunqueue"), &json!(3))
        );
    }
    broker.shut_down();
    server.stop.serving.cancel();
    soon(server.task).await.unwrap();
    for client in &mut clients {
        assert_eq!(soon(client.read(&mut [0])).await.unwrap(), 0);
    }
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_listener_that_accepts_no_more_serves_whom_it_has() {
    let broker = Arc::new(LocalBroker::start(Config::default()).unwrap());
    let server = listen(broker).await;
    let mut client = soon(TcpStream::connect(server.address)).await.unwrap();
    let ping = json!({"cmd": "Ping"});
    soon(tcp_ask(&mut client, &ping)).await.unwrap();
    server.stop.accepting.cancel();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    soon(tcp_ask(&mut client, &ping)).await.unwrap();
    drop(client);
    server.stop.serving.cancel();
    soon(server.task).await.unwrap();
}

#[tokio::test]
async fn a_panic_ends_one_connection_and_gives_its_jobs_back() {
    let broker = Fake::new(|_, _, command| match command {
        Command::ListQueues(_) => panic!("made by a test"),
        _ => None,
    });
    let server = listen(broker).await;
    let connect = || TcpStream::connect(server.address);
    let (mut bad, mut good) = (
        soon(connect()).await.unwrap(),
        soon(connect()).await.unwrap(),
    );
    let push = json!({"cmd": "PUSH", "queue": "q", "jobId": "j"});
    soon(tcp_ask(&mut good, &push)).await.unwrap();
    let pull = json!({"cmd": "PULL", "queue": "q", "owner": "w", "timeout": 10_000});
    let pulled = soon(tcp_ask(&mut bad, &pull)).await.unwrap();
    assert_eq!(pulled["job"]["id"], "j");
    let ended = soon(tcp_ask(&mut bad, &json!({"cmd": "ListQueues"}))).await;
    assert!(ended.is_err());
    let pulled = soon(tcp_ask(&mut good, &pull)).await.unwrap();
    assert_eq!(pulled["job"]["id"], "j");
    server.stop.serving.cancel();
    soon(server.task).await.unwrap();
}

#[tokio::test]
async fn whatever_has_arrived_by_the_stop_is_answered() {
    let server = Server::new();
    let mut clients: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ping().await;
    }
    // More than one turn takes; whether a connection sees the stop or the frames first is left to chance.
    let burst = frame(&json!({"cmd": "IsPaused", "queue": "q"})).repeat(300);
    for client in &mut clients {
        client.send_bytes(&burst).await;
    }
    server.shutdown.cancel();
    for mut client in clients {
        let mut replies = 0;
        while client.next_body().await.is_some() {
            replies += 1;
        }
        assert_eq!(replies, 300);
    }
}
