//! Webhooks over the worker door: what is registered there is called.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Conn;
use crate::process::Serve;

/// How long a call may take on a loaded machine.
const CALL: Duration = Duration::from_secs(20);

/// Takes calls on loopback and answers each with success; their head, in lower case, and their body.
fn receiver() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, calls) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap() == 0 {
                    return;
                }
            }
            let head = head.to_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let length = length.split("\r\n").next().unwrap().parse().unwrap();
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            reader.get_mut().write_all(answer).unwrap();
            let call = (head, serde_json::from_slice(&body).unwrap());
            if sender.send(call).is_err() {
                return;
            }
        }
    });
    (url, calls)
}

#[test]
fn a_registered_webhook_is_called_until_it_is_switched_off() {
    let serve = Serve::start_with(&[("WEBHOOK_ALLOW_PRIVATE", "true")]);
    let mut conn = Conn::open(serve.tcp);
    let (url, calls) = receiver();
    let add = json!({
        "cmd": "AddWebhook", "url": url, "events": ["job.pushed"], "queue": "q", "secret": "s",
    });
    let webhook = conn.ok(&add)["data"]["webhookId"].take();
    conn.push("other", &json!({}));
    let first = conn.push("q", &json!({}));
    let (head, body) = calls.recv_timeout(CALL).unwrap();
    assert_eq!(
        (&body["event"], &body["jobId"]),
        (&json!("job.pushed"), &json!(first))
    );
    assert!(head.contains("x-webhook-signature: "), "{head}");

    let switch = |enabled| json!({ "cmd": "SetWebhookEnabled", "id": webhook, "enabled": enabled });
    conn.ok(&switch(false));
    conn.push("q", &json!({}));
    conn.ok(&switch(true));
    let third = conn.push("q", &json!({}));
    let (_, body) = calls.recv_timeout(CALL).unwrap();
    assert_eq!(
        body["jobId"],
        json!(third),
        "nothing was told while it was off"
    );

    let listed = conn.ok(&json!({ "cmd": "ListWebhooks" }));
    assert!(!listed.to_string().contains("\"secret\""), "{listed}");
    assert_eq!(listed["data"]["stats"], json!({ "total": 1, "enabled": 1 }));
    conn.ok(&json!({ "cmd": "RemoveWebhook", "webhookId": webhook }));
    let listed = conn.ok(&json!({ "cmd": "ListWebhooks" }));
    assert_eq!(listed["data"]["webhooks"], json!([]));
}
