//! Where calls may go: names and addresses, TLS, and what the environment says.

use super::*;

fn public(attempts: u32) -> Options {
    Options {
        attempts,
        addresses: Addresses::Public,
        ..options()
    }
}

#[tokio::test]
async fn b_34_a_name_that_stands_for_private_addresses_is_not_called() {
    let cases: [&'static [&'static str]; 6] = [
        &["127.0.0.1"],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["10.0.0.1", "169.254.169.254"],
        &["64:ff9b::7f00:1", "fd00::1"],
        &[],
    ];
    for addresses in cases {
        let world = World::with(public(2), always(addresses));
        let mut receiver = Receiver::answering(Answer::status(200)).await;
        let url = format!("http://hooks.example.com:{}/", receiver.address.port());
        world.webhook(&url, &["job.pushed"]).await;
        world.add().await;
        world.counted(0, 1).await;
        assert!(receiver.come().is_none(), "{addresses:?}");
    }
}

#[tokio::test]
async fn names_are_resolved_for_each_connection() {
    // The same names, when the operator allows any address: so it was the addresses that forbade it.
    let world = World::with(options(), always(&["127.0.0.1"]));
    let mut receiver = Receiver::answering(Answer::status(200)).await;
    let port = receiver.address.port();
    let url = format!("http://hooks.example.com:{port}/x");
    world.webhook(&url, &["job.pushed"]).await;
    world.add().await;
    let request = receiver.next().await;
    let host = format!("hooks.example.com:{port}");
    assert_eq!(request.header("Host"), Some(host.as_str()));
    world.counted(1, 0).await;
}

#[tokio::test]
async fn addresses_in_urls_are_checked_again_before_each_call() {
    // Registered while any address was allowed; an address in a URL asks no resolver.
    let world = World::with(public(1), system_lookup());
    let mut receiver = Receiver::answering(Answer::status(200)).await;
    let port = receiver.address.port();
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "localhost",
    ] {
        let hook = world
            .webhook(&format!("http://{host}:{port}/"), &["job.pushed"])
            .await;
        world.add().await;
        world.counted(0, 1).await;
        world.ask(RemoveWebhook { id: hook.id }).await;
    }
    assert!(receiver.come().is_none());
}

#[tokio::test]
async fn https_speaks_tls() {
    let world = World::with(
        Options {
            attempts: 1,
            ..options()
        },
        always(&["127.0.0.1"]),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    world
        .webhook(
            &format!("https://hooks.example.com:{port}/"),
            &["job.pushed"],
        )
        .await;
    world.add().await;
    let (mut stream, _) = soon(listener.accept()).await.unwrap();
    let mut first = [0; 2];
    soon(tokio::io::AsyncReadExt::read_exact(&mut stream, &mut first))
        .await
        .unwrap();
    assert_eq!(first, [0x16, 0x03], "a handshake of TLS");
    drop(stream);
    world.counted(0, 1).await;
}
