//! What a handler calls.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use thiserror::Error;

use crate::command::bounds::WEBHOOK_URL_MAX;
use crate::net::AllowedHost;

/// Headers of one handler.
pub const HEADERS_MAX: usize = 50;

/// Headers that say how a message travels: the client sets them.
const OF_THE_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A method that a handler may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Without a body.
    Get,
    /// With one.
    Post,
    /// With one.
    Put,
    /// Without a body.
    Delete,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Get, Self::Post, Self::Put, Self::Delete];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// The method of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Whether it carries a body.
    pub(super) const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

/// What a handler calls.
#[derive(Clone, Debug)]
pub struct Target {
    url: Url,
    /// How.
    pub method: Method,
    headers: HeaderMap,
    /// What it sends in place of the data of the job.
    pub body: Option<Value>,
    /// Time for each call, from the look-up of the name to the end of the answer.
    pub timeout: Duration,
}

/// Why something cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TargetError {
    /// No URL, or one of another scheme.
    #[error("must be an absolute http or https URL")]
    Url,
    /// It is too long.
    #[error("must be at most {WEBHOOK_URL_MAX} characters long")]
    UrlTooLong,
    /// A name or a password stands in it, and it is shown to whoever lists handlers.
    #[error("must not hold a user name or password: use headers")]
    Credentials,
    /// The operator does not allow it.
    #[error("must point to one of the hosts in BUNQUEUE_MCP_HANDLER_HOSTS")]
    Host,
    /// A header that is none, or that a handler cannot set.
    #[error("{0}")]
    Header(HeaderFault),
}

/// What is wrong with the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderFault {
    /// Too many.
    #[error("must have at most {HEADERS_MAX} members")]
    TooMany,
    /// A name.
    #[error("must have the names of HTTP headers")]
    Name,
    /// A value.
    #[error("must have text values without line breaks")]
    Value,
    /// One that says how the message travels.
    #[error("must not set connection, content-length, te, trailer, transfer-encoding or upgrade")]
    Reserved,
}

impl Target {
    /// A target, if it can be called.
    ///
    /// # Errors
    /// The first thing that is wrong, but for [`TargetError::Host`].
    pub fn new(
        url: &str,
        method: Method,
        headers: &[(&str, &str)],
        body: Option<Value>,
        timeout: Duration,
    ) -> Result<Self, TargetError> {
        if url.len() > WEBHOOK_URL_MAX {
            return Err(TargetError::UrlTooLong);
        }
        let url = Url::parse(url).map_err(|_| TargetError::Url)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetError::Url);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::Credentials);
        }
        Ok(Self {
            url,
            method,
            headers: checked(headers).map_err(TargetError::Header)?,
            body,
            timeout,
        })
    }

    /// Where it is.
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// What is sent along beside the body.
    pub(super) const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The names of its headers: their values are nobody's business.
    pub fn header_names(&self) -> Vec<&str> {
        self.headers.keys().map(HeaderName::as_str).collect()
    }
}

fn checked(given: &[(&str, &str)]) -> Result<HeaderMap, HeaderFault> {
    if given.len() > HEADERS_MAX {
        return Err(HeaderFault::TooMany);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name: HeaderName = name.parse().map_err(|_| HeaderFault::Name)?;
        if OF_THE_CONNECTION.contains(&name) {
            return Err(HeaderFault::Reserved);
        }
        let mut value: HeaderValue = value.parse().map_err(|_| HeaderFault::Value)?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The hosts that handlers may call; `None`: any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetHosts(pub Option<Vec<AllowedHost>>);

impl TargetHosts {
    /// # Errors
    /// [`TargetError::Host`].
    pub(super) fn check(&self, url: &Url) -> Result<(), TargetError> {
        let Some(hosts) = &self.0 else {
            return Ok(());
        };
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let is_allowed = hosts.iter().any(|allowed| allowed.covers(host, port));
        is_allowed.then_some(()).ok_or(TargetError::Host)
    }
}
