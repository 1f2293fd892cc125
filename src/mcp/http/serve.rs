//! The socket: binding, and serving a router on it until the process stops.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Longest time from the shutdown token to the return of `serve`, connections that will not end included.
const STOP_MAX: Duration = Duration::from_millis(1800);

/// Binds a listener. `host` is a name or an address, brackets around IPv6 optional; port 0 takes any free one.
///
/// # Errors
///
/// The host is unknown, the port busy or forbidden.
pub async fn bind(host: &str, port: u16) -> io::Result<TcpListener> {
    let host = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    TcpListener::bind((host, port)).await
}

/// Serves `app` until `shutdown` fires, then stops accepting and waits for the connections for a bounded time.
///
/// # Errors
///
/// None after the listener was bound: failures to accept are retried.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    // An answer is several small writes; held back until the client acknowledges the one before, each call took 40 ms.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection could not be told to send at once");
        }
    });
    let serving =
        axum::serve(listener, app).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let overdue = async {
        shutdown.cancelled().await;
        tokio::time::sleep(STOP_MAX).await;
    };
    tokio::select! {
        result = serving => result,
        () = overdue => {
            tracing::warn!("connections were still open when the time to stop was over");
            Ok(())
        }
    }
}
