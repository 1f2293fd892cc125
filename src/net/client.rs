//! Where every HTTP client of the program begins.

use std::error::Error;
use std::sync::Arc;

use reqwest::{ClientBuilder, redirect};
use rustls::RootCertStore;
use rustls::crypto::ring;

/// A client that trusts the public authorities, follows no redirect, repeats nothing, and uses no proxy of the environment:
/// each of these would reach another address than the one that was given, or reach it twice.
///
/// # Errors
/// TLS cannot be set up.
pub fn outgoing() -> Result<ClientBuilder, Box<dyn Error>> {
    let roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .no_proxy()
        .user_agent(concat!("bunqueue-mcp/", env!("CARGO_PKG_VERSION"))))
}
