//! The settings of another server that takes the place of the broker inside the process.

use super::read::{Reader, digits};
use super::{ConfigError, Given, Key, Remote, Setting};
use crate::broker::RemoteAddress;

/// The mode in which another server is the broker.
const REMOTE: &str = "tcp";

impl Reader<'_> {
    /// The other server, if there is to be one.
    ///
    /// # Errors
    /// The first value that does not fit; what only a broker of one's own can have.
    pub(super) fn remote(&self) -> Result<Option<Remote>, ConfigError> {
        if self.choice(Key::Mode, "embedded or tcp", &["embedded", REMOTE])? != REMOTE {
            return Ok(None);
        }
        if let Some(Given { setting, .. }) = self.given(Key::TcpListen) {
            return Err(ConfigError::NoWorkersHere {
                setting,
                mode: self.given_or_default(Key::Mode).setting,
            });
        }
        let host = self.given_or_default(Key::RemoteHost).value;
        Ok(Some(Remote {
            address: RemoteAddress {
                host: host.trim().to_owned(),
                port: self.positive(Key::RemotePort)?,
                token: self
                    .given(Key::RemoteToken)
                    .map(|given| given.value.trim().to_owned()),
            },
            connections: self.positive(Key::PoolSize)?.into(),
        }))
    }

    /// A broker has no other one.
    ///
    /// # Errors
    /// When another server is named as the broker.
    pub(super) fn refuse_remote(&self) -> Result<(), ConfigError> {
        let mode = self.choice(Key::Mode, "embedded or tcp", &["embedded", REMOTE])?;
        if mode != REMOTE {
            return Ok(());
        }
        let setting = self.given_or_default(Key::Mode).setting;
        Err(ConfigError::BrokerElsewhere { setting })
    }

    /// A number from 1 to 65535. A port that is blank is a mistake, not the default.
    fn positive(&self, key: Key) -> Result<u16, ConfigError> {
        let blank = || {
            let variable = Setting::of(key).map(Setting::variable)?;
            let value = self.source.variable(variable)?;
            let is_blank = key == Key::RemotePort && value.trim().is_empty();
            is_blank.then(|| Given {
                setting: variable.to_owned(),
                value,
            })
        };
        let Given { setting, value } = self
            .given(key)
            .or_else(blank)
            .unwrap_or_else(|| self.given_or_default(key));
        digits(value.trim())
            .and_then(|number| u16::try_from(number).ok())
            .filter(|number| *number > 0)
            .ok_or(ConfigError::Positive {
                setting,
                given: value,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Fixed;
    use crate::config::{Program, load};

    const TCP: (&str, &str) = ("BUNQUEUE_MODE", " TCP ");

    fn read(given: &[(&str, &str)]) -> Result<Option<Remote>, String> {
        let config = load(Program::Mcp, &Fixed(given));
        config
            .map(|config| config.remote)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn another_server_has_the_defaults_of_the_contract() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("BUNQUEUE_MODE", "embedded")]), Ok(None));
        let remote = |host: &str, port, token: Option<&str>, connections| {
            Ok(Some(Remote {
                address: RemoteAddress {
                    host: host.to_owned(),
                    port,
                    token: token.map(str::to_owned),
                },
                connections,
            }))
        };
        assert_eq!(read(&[TCP]), remote("localhost", 6789, None, 2));
        let given = [
            TCP,
            ("BUNQUEUE_HOST", " queue.example "),
            ("BUNQUEUE_PORT", "1"),
            ("BUNQUEUE_TOKEN", "s"),
            ("BUNQUEUE_POOL_SIZE", "65535"),
        ];
        assert_eq!(read(&given), remote("queue.example", 1, Some("s"), 65_535));
        let blank = [TCP, ("BUNQUEUE_HOST", " "), ("BUNQUEUE_POOL_SIZE", "")];
        assert_eq!(read(&blank), remote("localhost", 6789, None, 2));
    }

    #[test]
    fn numbers_of_another_server_are_named_as_they_were_given() {
        for name in ["BUNQUEUE_PORT", "BUNQUEUE_POOL_SIZE"] {
            for value in ["0", "65536", "abc", "1.5", "-1"] {
                let text = format!(
                    "Invalid {name}: \"{value}\" (expected a whole number between 1 and 65535)"
                );
                assert_eq!(read(&[TCP, (name, value)]), Err(text));
                // Nobody asks for them without another server.
                assert_eq!(read(&[(name, value)]), Ok(None));
            }
        }
        assert_eq!(
            read(&[TCP, ("BUNQUEUE_PORT", " ")]),
            Err(
                "Invalid BUNQUEUE_PORT: \" \" (expected a whole number between 1 and 65535)".into()
            )
        );
        assert_eq!(
            read(&[("BUNQUEUE_MODE", "remote")]),
            Err("BUNQUEUE_MODE must be embedded or tcp (got \"remote\")".into())
        );
    }

    #[test]
    fn with_another_server_nothing_is_kept_here_and_no_worker_served() {
        let given = [TCP, ("BUNQUEUE_DATA_PATH", "a.db"), ("DATA_PATH", "b.db")];
        let config = load(Program::Mcp, &Fixed(&given)).unwrap();
        assert_eq!(config.data, None);
        assert_eq!(
            read(&[TCP, ("BUNQUEUE_MCP_TCP_LISTEN", "0")]),
            Err(
                "BUNQUEUE_MCP_TCP_LISTEN does not go with BUNQUEUE_MODE tcp: workers connect to the broker itself"
                    .into()
            )
        );
        let serve = load(Program::Serve, &Fixed(&[TCP])).unwrap_err();
        assert_eq!(
            serve.to_string(),
            "BUNQUEUE_MODE is tcp, but `serve` is the broker itself: unset it to start"
        );
    }
}
