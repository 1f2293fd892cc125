//! The HTTP client: one attempt of a call, which cannot be led anywhere but to an allowed address.
//!
//! Names are resolved here and the addresses that are checked are the ones connected to, so nothing can change in
//! between. Addresses in a URL never reach a resolver: those are checked before each attempt. Redirects are not
//! followed and proxies of the environment not used, since both would lead around the checks.

use std::error::Error;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

use super::{ANSWER_BYTES_MAX, CONCURRENT_MAX, Options};
use crate::command::address;
use crate::command::webhook::{Addresses, url};
use crate::net;

/// The addresses of a name, by whatever knows them.
pub(super) type Lookup = Arc<dyn Fn(String) -> Found + Send + Sync>;
/// Their arrival.
pub(super) type Found = Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// Why an attempt failed. The texts go to the log, so they hold nothing that came from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum Fault {
    #[error("answered with status {0}")]
    Status(u16),
    #[error("answered with a redirect (status {0}), which is not followed")]
    Redirect(u16),
    #[error("took too long")]
    TimedOut,
    #[error("its address is not allowed")]
    Forbidden,
    #[error("could not be reached")]
    Unreachable,
    #[error("the connection broke")]
    Broken,
    #[error("there is no client to call it with")]
    NoClient,
}

/// None of the addresses of a name may be called.
#[derive(Debug, Error)]
#[error("no allowed address")]
struct NoAddress;

impl From<reqwest::Error> for Fault {
    fn from(error: reqwest::Error) -> Self {
        let mut cause: Option<&dyn Error> = Some(&error);
        while let Some(inner) = cause {
            if inner.is::<NoAddress>() {
                return Self::Forbidden;
            }
            cause = inner.source();
        }
        if error.is_timeout() {
            Self::TimedOut
        } else if error.is_connect() {
            Self::Unreachable
        } else {
            Self::Broken
        }
    }
}

/// Asks the system.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Resolves names to allowed addresses.
struct Guard {
    lookup: Lookup,
    allowed: Addresses,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let found = (self.lookup)(name.as_str().to_owned());
        let allowed = self.allowed;
        Box::pin(async move {
            let mut found = found.await?;
            if allowed == Addresses::Public {
                found.retain(|ip| address::ip(*ip).is_none());
            }
            if found.is_empty() {
                return Err(NoAddress.into());
            }
            // Port 0 stands for the one of the URL.
            let found = found.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(found) as Addrs)
        })
    }
}

/// What is sent.
pub(super) struct Message {
    pub(super) event: &'static str,
    pub(super) timestamp: i64,
    pub(super) signature: Option<String>,
    pub(super) body: Bytes,
}

/// A client with its connections.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    allowed: Addresses,
}

impl Client {
    /// A client without connections.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(super) fn new(options: &Options, lookup: Lookup) -> Result<Self, Box<dyn Error>> {
        let allowed = options.addresses;
        let http = net::outgoing()?
            .dns_resolver(Arc::new(Guard { lookup, allowed }))
            .timeout(options.attempt_time)
            .pool_max_idle_per_host(CONCURRENT_MAX)
            .build()?;
        Ok(Self { http, allowed })
    }

    /// One attempt; any status from 200 to 299 is a success.
    pub(super) async fn post(&self, address: &str, message: &Message) -> Result<(), Fault> {
        let address = url(address, self.allowed).map_err(|_| Fault::Forbidden)?;
        let mut request = self
            .http
            .post(address)
            .header("Content-Type", "application/json")
            .header("X-Webhook-Event", message.event)
            .header("X-Webhook-Timestamp", message.timestamp)
            .body(message.body.clone());
        if let Some(signature) = &message.signature {
            request = request.header("X-Webhook-Signature", signature);
        }
        let mut answer = request.send().await?;
        let status = answer.status();
        if status.is_redirection() {
            return Err(Fault::Redirect(status.as_u16()));
        }
        if !status.is_success() {
            return Err(Fault::Status(status.as_u16()));
        }
        // A connection whose answer was read to its end can be used again; a long answer is not worth it.
        let mut read = 0;
        while let Ok(Some(chunk)) = answer.chunk().await {
            read += chunk.len();
            if read > ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok(())
    }
}
