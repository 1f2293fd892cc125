//! Refuses doors that anybody on the network could use, because whoever comes in may delete everything.

use super::{ConfigError, Http, Key, Setting, Tcp};
use crate::net::is_loopback;

/// Refuses listeners on an address beyond loopback that ask for no token; each comes with the setting of its tokens.
///
/// # Errors
/// All of them at once, so that nobody has to learn of them one by one.
pub(super) fn refuse_open(
    http: Option<(&Http, Key)>,
    tcp: Option<(&Tcp, Key)>,
) -> Result<(), ConfigError> {
    let variable = |key| Setting::of(key).map_or("", Setting::variable);
    let is_open = |host: &str, tokens: &[String]| tokens.is_empty() && !is_loopback(host);
    let http = http
        .filter(|(http, _)| is_open(&http.host, &http.tokens))
        .map(|(http, tokens)| ConfigError::OpenHttp {
            host: http.host.clone(),
            tokens: variable(tokens),
        });
    let tcp = tcp
        .filter(|(tcp, _)| is_open(&tcp.host, &tcp.tokens))
        .map(|(tcp, tokens)| ConfigError::OpenTcp {
            host: tcp.host.clone(),
            tokens: variable(tokens),
        });
    match (http, tcp) {
        (Some(http), Some(tcp)) => Err(ConfigError::OpenBoth {
            http: Box::new(http),
            tcp: Box::new(tcp),
        }),
        (Some(fault), None) | (None, Some(fault)) => Err(fault),
        (None, None) => Ok(()),
    }
}
