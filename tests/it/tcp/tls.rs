//! TLS on both doors of `serve`, with a certificate made on the spot.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::client::{frame, read_body};
use super::value::{Wire, decode};
use crate::process::{Env, Process, Serve};

/// How long anything may take.
const ANY: Duration = Duration::from_secs(20);

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Certificate and key of `localhost`.
struct Identity {
    folder: TempDir,
    certificate: CertificateDer<'static>,
}

impl Identity {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cert.pem"), made.cert.pem()).unwrap();
        let key = made.signing_key.serialize_pem();
        std::fs::write(folder.path().join("key.pem"), key).unwrap();
        Self {
            folder,
            certificate: made.cert.der().clone(),
        }
    }

    fn path(&self, file: &str) -> String {
        self.folder.path().join(file).to_str().unwrap().to_owned()
    }

    fn serve(&self) -> Serve {
        let (certificate, key) = (self.path("cert.pem"), self.path("key.pem"));
        Serve::start_with(&[("TLS_CERT_FILE", &certificate), ("TLS_KEY_FILE", &key)])
    }

    fn connect(&self, address: SocketAddr) -> Encrypted {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(ANY)).unwrap();
        stream.set_nodelay(true).unwrap();
        StreamOwned::new(client, stream)
    }
}

fn send(stream: &mut impl Write, command: &Value) {
    let bytes = frame(&Wire::from_notation(command).encode());
    stream.write_all(&bytes).unwrap();
    stream.flush().unwrap();
}

fn reply(stream: &mut impl Read) -> Value {
    let body = read_body(stream).unwrap().expect("a reply");
    decode(&body).unwrap().value.to_json()
}

fn ask(stream: &mut Encrypted, command: &Value) -> Value {
    send(stream, command);
    reply(stream)
}

#[test]
fn workers_speak_the_protocol_over_tls() {
    let identity = Identity::new();
    let serve = identity.serve();
    let lines = serve.process.line("Connect workers");
    assert!(lines.contains("over TLS"), "{lines}");
    let mut worker = identity.connect(serve.tcp);
    let hello = ask(&mut worker, &json!({ "cmd": "Hello", "reqId": "1" }));
    assert_eq!(hello["server"], "bunqueue");
    // A pull that waits is answered by itself.
    send(
        &mut worker,
        &json!({ "cmd": "PULL", "queue": "q", "timeout": 30_000 }),
    );
    let mut other = identity.connect(serve.tcp);
    let push = json!({ "cmd": "PUSH", "queue": "q", "jobId": "j", "data": [1] });
    assert_eq!(ask(&mut other, &push)["ok"], true);
    assert_eq!(reply(&mut worker)["job"]["id"], "j");
    // Whoever leaves gives back what he held.
    drop(worker);
    let pull = json!({ "cmd": "PULL", "queue": "q", "timeout": 30_000 });
    assert_eq!(ask(&mut other, &pull)["job"]["id"], "j");
}

#[test]
fn large_frames_reach_a_slow_reader_whole() {
    const BYTES: usize = 8 * 1_024 * 1_024;
    const REPLIES: usize = 6;
    let identity = Identity::new();
    let serve = identity.serve();
    let mut worker = identity.connect(serve.tcp);
    let data = "x".repeat(BYTES);
    let push = json!({ "cmd": "PUSH", "queue": "q", "jobId": "j", "data": data });
    assert_eq!(ask(&mut worker, &push)["ok"], true);
    for _ in 0..REPLIES {
        send(&mut worker, &json!({ "cmd": "GetJob", "id": "j" }));
    }
    send(&mut worker, &json!({ "cmd": "Ping" }));
    // Only now is anything read; others have not noticed.
    let mut other = identity.connect(serve.tcp);
    assert_eq!(ask(&mut other, &json!({ "cmd": "Ping" }))["ok"], true);
    for _ in 0..REPLIES {
        let reply = reply(&mut worker);
        assert_eq!(reply["job"]["data"].as_str().map(str::len), Some(BYTES));
    }
    assert_eq!(reply(&mut worker)["data"]["pong"], true);
}

#[test]
fn whoever_does_not_shake_hands_holds_nobody_up() {
    let identity = Identity::new();
    let serve = identity.serve();
    let silent: Vec<_> = (0..10)
        .map(|_| TcpStream::connect(serve.tcp).unwrap())
        .collect();
    for address in [serve.tcp, serve.http] {
        let mut plain = TcpStream::connect(address).unwrap();
        plain.set_read_timeout(Some(ANY)).unwrap();
        send(&mut plain, &json!({ "cmd": "Ping" }));
        // An alert perhaps, no reply, and the end.
        let mut rest = Vec::new();
        let _ = plain.read_to_end(&mut rest);
        assert!(rest.len() < 20, "{rest:?}");
    }
    let mut worker = identity.connect(serve.tcp);
    assert_eq!(ask(&mut worker, &json!({ "cmd": "Ping" }))["ok"], true);
    drop(silent);
}

#[cfg(unix)]
#[test]
fn the_end_of_an_encrypted_connection_is_said() {
    let identity = Identity::new();
    let mut serve = identity.serve();
    let mut worker = identity.connect(serve.tcp);
    ask(&mut worker, &json!({ "cmd": "Ping" }));
    send(
        &mut worker,
        &json!({ "cmd": "PULL", "queue": "q", "timeout": 60_000 }),
    );
    ask_on_another(&identity, &serve);
    let pid = serve.process.pid().to_string();
    let sent = std::process::Command::new("kill").arg(pid).status();
    assert!(sent.unwrap().success());
    assert_eq!(reply(&mut worker)["job"], json!(null));
    // Without its message of the end this is an error.
    assert_eq!(worker.read(&mut [0]).unwrap(), 0);
    assert_eq!(serve.process.exit(ANY).unwrap().code(), Some(0));
}

/// By its answer what was asked before on other connections has mostly arrived; it does not matter if not.
#[cfg(unix)]
fn ask_on_another(identity: &Identity, serve: &Serve) {
    let mut other = identity.connect(serve.tcp);
    ask(&mut other, &json!({ "cmd": "Ping" }));
}

fn get(identity: &Identity, address: SocketAddr, path: &str, host: &str) -> String {
    let mut stream = identity.connect(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn agents_and_probes_speak_https() {
    let identity = Identity::new();
    let serve = identity.serve();
    let start = serve.process.line("bunqueue server started");
    let url = format!("url: https://{}/mcp", serve.http);
    assert!(start.contains(&url), "{start}");
    let health = get(&identity, serve.http, "/health", "any");
    assert!(health.starts_with("HTTP/1.1 200 OK"), "{health}");
    assert!(health.contains("\"status\":\"healthy\""), "{health}");
    let index = get(&identity, serve.http, "/llms.txt", "any");
    assert!(index.contains(&format!("https://{}/", serve.http)));
    // The rules of hosts hold as without TLS; this one passes them and lacks a session.
    let host = serve.http.to_string();
    let endpoint = get(&identity, serve.http, "/mcp", &host);
    assert!(endpoint.starts_with("HTTP/1.1 400"), "{endpoint}");
    let foreign = get(&identity, serve.http, "/mcp", "evil.example");
    assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
}

/// Arguments, environment, and how the message begins.
type Case<'a> = (&'a [&'a str], &'a Env<'a>, &'a str);

#[test]
fn s4_bad_files_stop_the_program_before_it_listens() {
    let (one, other) = (Identity::new(), Identity::new());
    let certificate = one.path("cert.pem");
    let (key, foreign) = (one.path("key.pem"), other.path("key.pem"));
    let missing = one.path("missing.pem");
    let cases: [Case; 6] = [
        (
            &["serve"],
            &[("TLS_CERT_FILE", &certificate)],
            "Fatal error: TLS_CERT_FILE is set, but TLS_KEY_FILE is not: TLS needs both",
        ),
        (
            &["serve"],
            &[("TLS_KEY_FILE", &key)],
            "Fatal error: TLS_KEY_FILE is set, but TLS_CERT_FILE is not: TLS needs both",
        ),
        (
            &["serve"],
            &[("TLS_CERT_FILE", &missing), ("TLS_KEY_FILE", &key)],
            "Fatal error: TLS_CERT_FILE: cannot read ",
        ),
        (
            &["serve", "--tls-key-file", &certificate],
            &[("TLS_CERT_FILE", &certificate)],
            "Fatal error: --tls-key-file: there is no private key in ",
        ),
        (
            &["serve"],
            &[("TLS_CERT_FILE", &certificate), ("TLS_KEY_FILE", &foreign)],
            "Fatal error: TLS_KEY_FILE is not the key of the certificate in TLS_CERT_FILE",
        ),
        (
            &[],
            &[("TLS_CERT_FILE", &certificate), ("TLS_KEY_FILE", &key)],
            "Fatal error: TLS_CERT_FILE is set, but only `serve` has TLS: unset it to start",
        ),
    ];
    for (arguments, env, expected) in cases {
        let mut process = Process::start(arguments, env);
        let status = process.exit(ANY).expect("it does not start");
        assert_eq!(status.code(), Some(1), "{expected}");
        let printed = process.stderr();
        assert!(printed.starts_with(expected), "{printed}");
        assert_eq!(printed.lines().count(), 1, "{printed}");
    }
}

#[test]
fn clients_that_cannot_shake_hands_are_told_of_at_both_doors() {
    let serve = Identity::new().serve();
    for address in [serve.tcp, serve.http] {
        let mut plain = TcpStream::connect(address).unwrap();
        plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let _ = plain.read(&mut [0; 64]);
    }
    serve.process.line("reason=no TLS handshake");
    serve
        .process
        .line("no TLS handshake with clients of the HTTP listener");
}
