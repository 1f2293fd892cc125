//! The settings of what agents get and what they may do without a person's consent.

use std::time::Duration;

use reqwest::Url;

use super::read::Reader;
use super::{Agent, ConfigError, Given, Key, Setting};
use crate::handlers::TargetHosts;
use crate::mcp::DecisionOptions;

/// The one profile there is.
const PROFILE: &str = "agent";
/// What it stands for where nothing else is said.
const PROFILE_TOOLSETS: &str = "dynamic";

/// A provider of decision models.
struct Provider {
    name: &'static str,
    /// Its model where none is named.
    model: Option<&'static str>,
    /// Whether it asks for a key.
    has_key: bool,
}

const PROVIDERS: [Provider; 3] = [
    Provider {
        name: "typesafe",
        model: Some("jev-latest"),
        has_key: true,
    },
    Provider {
        name: CLOUDFLARE,
        model: Some("clef-flash"),
        has_key: true,
    },
    Provider {
        name: "systemone",
        model: None,
        has_key: false,
    },
];

const CLOUDFLARE: &str = "cloudflare";

impl Reader<'_> {
    /// # Errors
    /// The first value that does not fit.
    pub(super) fn agent(&self) -> Result<Agent, ConfigError> {
        let has_profile = match self.given(Key::Profile) {
            None => false,
            Some(_) => {
                self.choice(Key::Profile, PROFILE, &[PROFILE])?;
                true
            }
        };
        let by_profile = || Given {
            setting: Setting::of(Key::Profile)
                .map_or("", Setting::variable)
                .to_owned(),
            value: PROFILE_TOOLSETS.to_owned(),
        };
        let toolsets = self.given(Key::Toolsets);
        let words = ["destructive", "off"];
        let confirm = match self.given(Key::Confirm) {
            None => has_profile,
            Some(_) => {
                self.choice(Key::Confirm, "\"destructive\" or \"off\"", &words)? == "destructive"
            }
        };
        Ok(Agent {
            toolsets: toolsets.or_else(|| has_profile.then(by_profile)),
            confirm,
            profile: has_profile.then_some(PROFILE),
            handler_hosts: self.handler_hosts()?,
            decision: self.decision()?,
        })
    }

    /// Unset means any; a list without a host would be no bound at all.
    fn handler_hosts(&self) -> Result<TargetHosts, ConfigError> {
        let Some(Given { setting, value }) = self.given(Key::HandlerHosts) else {
            return Ok(TargetHosts::default());
        };
        let fault = |setting, given| ConfigError::AllowedHost { setting, given };
        let hosts = self.list(Key::HandlerHosts, |entry| entry.parse().ok(), fault)?;
        if hosts.is_empty() {
            return Err(fault(setting, value));
        }
        Ok(TargetHosts(Some(hosts)))
    }

    /// The decision model, if one is named. Its numbers have to fit in any case.
    fn decision(&self) -> Result<Option<DecisionOptions>, ConfigError> {
        let threshold = self.threshold()?;
        let timeout = self.integer(Key::DecisionTimeout, "positive", 1)?;
        if self.given(Key::DecisionProvider).is_none() {
            return Ok(None);
        }
        let names = PROVIDERS.map(|provider| provider.name);
        let allowed = "typesafe, cloudflare or systemone";
        let name = self.choice(Key::DecisionProvider, allowed, &names)?;
        let mut providers = PROVIDERS.into_iter();
        let Some(provider) = providers.find(|provider| provider.name == name) else {
            return Ok(None);
        };
        let text = |key| self.given(key).map(|given| given.value.trim().to_owned());
        let model = text(Key::DecisionModel)
            .or_else(|| provider.model.map(str::to_owned))
            .ok_or_else(|| missing(Key::DecisionModel, provider.name))?;
        let key = text(Key::DecisionKey);
        if provider.has_key && key.is_none() {
            return Err(missing(Key::DecisionKey, provider.name));
        }
        let url = self.decision_url(&provider, &model)?;
        Ok(Some(DecisionOptions {
            provider: provider.name,
            model,
            key,
            url,
            timeout: Duration::from_millis(timeout),
            threshold,
        }))
    }

    fn threshold(&self) -> Result<f64, ConfigError> {
        let Given { setting, value } = self.given_or_default(Key::DecisionThreshold);
        let number = value.trim().parse().ok();
        number
            .filter(|number| *number > 0.0 && *number <= 1.0)
            .ok_or(ConfigError::Fraction {
                setting,
                given: value,
            })
    }

    fn decision_url(&self, provider: &Provider, model: &str) -> Result<Url, ConfigError> {
        if let Some(Given { setting, value }) = self.given(Key::DecisionUrl) {
            let url = Url::parse(value.trim()).ok();
            let is_http = |url: &Url| matches!(url.scheme(), "http" | "https");
            return url.filter(is_http).ok_or(ConfigError::Url {
                setting,
                given: value,
            });
        }
        let address = match provider.name {
            "typesafe" => "https://api.typesafe.ai/v1/systemone".to_owned(),
            CLOUDFLARE => {
                let account = self.given(Key::DecisionAccount);
                let account = account.ok_or_else(|| missing(Key::DecisionAccount, CLOUDFLARE))?;
                let account = account.value.trim().to_owned();
                format!(
                    "https://api.cloudflare.com/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}"
                )
            }
            _ => return Err(missing(Key::DecisionUrl, provider.name)),
        };
        Url::parse(&address).map_err(|_| ConfigError::Url {
            setting: Setting::of(Key::DecisionAccount)
                .map_or("", Setting::variable)
                .to_owned(),
            given: address,
        })
    }
}

fn missing(key: Key, provider: &'static str) -> ConfigError {
    ConfigError::DecisionNeeds {
        setting: Setting::of(key).map_or("", Setting::variable),
        provider,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Program, Source, load};

    struct Fixed<'a>(&'a [(&'a str, &'a str)]);

    impl Source for Fixed<'_> {
        fn flag(&self, _: &str) -> Option<String> {
            None
        }

        fn variable(&self, name: &str) -> Option<String> {
            let mut given = self.0.iter();
            let found = given.find(|(given, _)| *given == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    fn agent(given: &[(&str, &str)]) -> Agent {
        load(Program::Mcp, &Fixed(given)).unwrap().agent
    }

    fn fault(given: &[(&str, &str)]) -> String {
        load(Program::Mcp, &Fixed(given)).unwrap_err().to_string()
    }

    #[test]
    fn the_profile_fills_in_what_is_not_given() {
        let read = |given: &[(&str, &str)]| {
            let Agent {
                toolsets,
                confirm,
                profile,
                handler_hosts,
                decision,
            } = agent(given);
            assert_eq!((handler_hosts, decision), (TargetHosts(None), None));
            (toolsets.map(|given| given.value), confirm, profile)
        };
        let (profile, toolsets, confirm) = (
            ("BUNQUEUE_MCP_PROFILE", " Agent "),
            ("BUNQUEUE_MCP_TOOLSETS", "jobs"),
            ("BUNQUEUE_MCP_CONFIRM", "off"),
        );
        let owned = |text: &str| Some(text.to_owned());
        assert_eq!(read(&[]), (None, false, None));
        assert_eq!(read(&[profile]), (owned("dynamic"), true, Some("agent")));
        assert_eq!(
            read(&[profile, toolsets]),
            (owned("jobs"), true, Some("agent"))
        );
        assert_eq!(
            read(&[profile, confirm]),
            (owned("dynamic"), false, Some("agent"))
        );
        assert_eq!(
            fault(&[("BUNQUEUE_MCP_PROFILE", "human")]),
            "BUNQUEUE_MCP_PROFILE must be agent (got \"human\")"
        );
        assert_eq!(
            fault(&[("BUNQUEUE_MCP_CONFIRM", "yes")]),
            "BUNQUEUE_MCP_CONFIRM must be \"destructive\" or \"off\" (got \"yes\")"
        );
    }

    #[test]
    fn a_list_of_hosts_for_handlers_is_a_bound() {
        let hosts = agent(&[("BUNQUEUE_MCP_HANDLER_HOSTS", "x.example, 127.0.0.1:80")]);
        assert_eq!(hosts.handler_hosts.0.map(|hosts| hosts.len()), Some(2));
        for value in [",", "http://x.example", "a b"] {
            let message = fault(&[("BUNQUEUE_MCP_HANDLER_HOSTS", value)]);
            assert!(
                message.starts_with("BUNQUEUE_MCP_HANDLER_HOSTS"),
                "{message}"
            );
        }
    }

    #[test]
    fn each_provider_has_its_defaults_and_its_demands() {
        const PROVIDER: &str = "BUNQUEUE_MCP_DECISION_PROVIDER";
        const KEY: (&str, &str) = ("BUNQUEUE_MCP_DECISION_API_KEY", " k ");
        const MODEL: (&str, &str) = ("BUNQUEUE_MCP_DECISION_MODEL", "m");
        const ACCOUNT: (&str, &str) = ("BUNQUEUE_MCP_DECISION_ACCOUNT_ID", "acc");
        const URL: (&str, &str) = ("BUNQUEUE_MCP_DECISION_URL", "http://127.0.0.1:9/x");
        let read = |given: &[(&str, &str)]| {
            let options = agent(given).decision.unwrap();
            (options.model, options.key, options.url.to_string())
        };
        let key = || Some("k".to_owned());
        assert_eq!(
            read(&[(PROVIDER, "TypeSafe"), KEY]),
            (
                "jev-latest".into(),
                key(),
                "https://api.typesafe.ai/v1/systemone".into()
            )
        );
        assert_eq!(
            read(&[(PROVIDER, "cloudflare"), KEY, ACCOUNT]),
            (
                "clef-flash".into(),
                key(),
                "https://api.cloudflare.com/client/v4/accounts/acc/ai/run/@cf/cloudflare/clef-flash".into()
            )
        );
        assert_eq!(
            read(&[(PROVIDER, "cloudflare"), KEY, URL]),
            ("clef-flash".into(), key(), "http://127.0.0.1:9/x".into())
        );
        assert_eq!(
            read(&[(PROVIDER, "systemone"), MODEL, URL]),
            ("m".into(), None, "http://127.0.0.1:9/x".into())
        );
        let needs: [(&[(&str, &str)], &str); 5] = [
            (
                &[(PROVIDER, "typesafe")],
                "API_KEY is required for the typesafe",
            ),
            (
                &[(PROVIDER, "cloudflare")],
                "API_KEY is required for the cloudflare",
            ),
            (
                &[(PROVIDER, "cloudflare"), KEY],
                "ACCOUNT_ID is required for the cloudflare",
            ),
            (
                &[(PROVIDER, "systemone")],
                "MODEL is required for the systemone",
            ),
            (
                &[(PROVIDER, "systemone"), MODEL],
                "URL is required for the systemone",
            ),
        ];
        for (given, text) in needs {
            let message = fault(given);
            assert!(message.contains(text), "{message}");
        }
        for url in ["ftp://x", "x", "/y"] {
            let message = fault(&[
                (PROVIDER, "systemone"),
                MODEL,
                ("BUNQUEUE_MCP_DECISION_URL", url),
            ]);
            assert!(
                message.contains("must be an http or https URL"),
                "{message}"
            );
        }
    }

    #[test]
    fn numbers_of_the_model_fit_also_where_none_is_asked() {
        for value in ["1.5", "0", "-0.1", "NaN", "high"] {
            assert_eq!(
                fault(&[("BUNQUEUE_MCP_DECISION_THRESHOLD", value)]),
                format!(
                    "BUNQUEUE_MCP_DECISION_THRESHOLD must be a number in (0, 1] (got {value:?})"
                )
            );
        }
        let message = fault(&[("BUNQUEUE_MCP_DECISION_TIMEOUT_MS", "0")]);
        assert!(message.contains("positive"), "{message}");
    }
}
