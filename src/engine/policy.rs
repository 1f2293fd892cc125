//! Settings of a queue that outlive its jobs: how long and how many dead letters stay, whether they are tried again, and
//! when a silent delivery counts as stalled (engine contract, sections 9.1 and 10).
//!
//! A queue keeps its settings only while they differ from the broker's; then its name is kept too, with or without
//! jobs. Reading never creates a queue, obliterating one resets it. Values are normalised in `command/`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::backlog::Group;
use super::outcome::Refusal;
use super::queue::QueueKey;
use super::{Config, Engine, Millis, Turn};

/// Ms between two automatic retries when a queue does not say.
const AUTO_RETRY_INTERVAL: Millis = 3_600_000;
/// Automatic retries of one dead letter when a queue does not say.
const AUTO_RETRIES_MAX: u64 = 3;

/// What becomes of the dead letters of a queue (engine contract, section 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DlqConfig {
    /// Whether dead letters are tried again by themselves.
    pub auto_retry: bool,
    /// Ms until the first automatic retry; after the n-th the next one is due in 2^(n−1) times as many.
    pub auto_retry_interval: Millis,
    /// Automatic retries of one dead letter.
    pub max_auto_retries: u64,
    /// Ms a dead letter stays; `None` means for ever.
    pub max_age: Option<Millis>,
    /// Dead letters that stay, at least 1; the oldest goes first.
    pub max_entries: usize,
}

/// Changes to a [`DlqConfig`]; `None` keeps what is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DlqConfigUpdate {
    /// See [`DlqConfig::auto_retry`].
    pub auto_retry: Option<bool>,
    /// See [`DlqConfig::auto_retry_interval`].
    pub auto_retry_interval: Option<Millis>,
    /// See [`DlqConfig::max_auto_retries`].
    pub max_auto_retries: Option<u64>,
    /// See [`DlqConfig::max_age`].
    pub max_age: Option<Option<Millis>>,
    /// See [`DlqConfig::max_entries`].
    pub max_entries: Option<usize>,
}

/// When a delivery of a queue counts as stalled (engine contract, section 9.1). Finite numbers, as they were given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StallConfig {
    /// Whether any does.
    pub enabled: bool,
    /// Ms without a sign of life; a job's own `stallTimeout` comes first.
    pub stall_interval: f64,
    /// Stalls and lost locks after which a job fails for good; 0 or less means no limit (B-25).
    pub max_stalls: f64,
    /// Ms from the start in which no delivery counts as stalled.
    pub grace_period: f64,
}

/// Changes to a [`StallConfig`]; `None` keeps what is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StallConfigUpdate {
    /// See [`StallConfig::enabled`].
    pub enabled: Option<bool>,
    /// See [`StallConfig::stall_interval`].
    pub stall_interval: Option<f64>,
    /// See [`StallConfig::max_stalls`].
    pub max_stalls: Option<f64>,
    /// See [`StallConfig::grace_period`].
    pub grace_period: Option<f64>,
}

impl DlqConfig {
    /// What holds in every queue that has no settings of its own.
    pub(super) fn default_of(config: &Config) -> Self {
        Self {
            auto_retry: false,
            auto_retry_interval: AUTO_RETRY_INTERVAL,
            max_auto_retries: AUTO_RETRIES_MAX,
            max_age: Some(config.dlq_age),
            max_entries: config.dlq_max,
        }
    }

    fn changed(self, update: &DlqConfigUpdate) -> Self {
        Self {
            auto_retry: update.auto_retry.unwrap_or(self.auto_retry),
            auto_retry_interval: update
                .auto_retry_interval
                .unwrap_or(self.auto_retry_interval),
            max_auto_retries: update.max_auto_retries.unwrap_or(self.max_auto_retries),
            max_age: update.max_age.unwrap_or(self.max_age),
            max_entries: update.max_entries.unwrap_or(self.max_entries),
        }
    }
}

impl StallConfig {
    /// What holds in every queue that has no settings of its own.
    pub(super) fn default_of(config: &Config) -> Self {
        Self {
            enabled: true,
            stall_interval: config.stall_interval as f64,
            max_stalls: config.stalls_max.into(),
            grace_period: config.stall_grace as f64,
        }
    }

    fn changed(self, update: &StallConfigUpdate) -> Self {
        Self {
            enabled: update.enabled.unwrap_or(self.enabled),
            stall_interval: update.stall_interval.unwrap_or(self.stall_interval),
            max_stalls: update.max_stalls.unwrap_or(self.max_stalls),
            grace_period: update.grace_period.unwrap_or(self.grace_period),
        }
    }
}

impl Engine {
    /// Whether something may be set for a queue: it has settings already, or fewer than the bound have.
    ///
    /// # Errors
    /// [`Refusal::SettingsFull`].
    pub fn check_room_for_settings(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
    ) -> Result<(), Refusal> {
        self.tick(turn);
        let key = self.queues.find(queue);
        let counts = key.is_some_and(|key| self.queues.with_settings.contains(&key));
        self.check_settings("queues", counts, self.queues.with_settings.len())
    }

    /// The same for a group of a queue.
    ///
    /// # Errors
    /// [`Refusal::SettingsFull`].
    pub fn check_room_for_group_settings(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &str,
        group: &str,
    ) -> Result<(), Refusal> {
        self.tick(turn);
        let key = self.queues.find(queue);
        let group = key.and_then(|key| self.queues.get(key).ready.groups.get(group));
        let counts = group.is_some_and(Group::has_settings);
        self.check_settings("groups", counts, self.queues.groups_with_settings)
    }

    fn check_settings(&self, what: &'static str, counts: bool, have: usize) -> Result<(), Refusal> {
        let max = self.config.settings_max;
        if counts || have < max {
            Ok(())
        } else {
            Err(Refusal::SettingsFull { what, max })
        }
    }

    /// What becomes of the dead letters of a queue.
    pub fn get_dlq_config(&mut self, turn: &mut Turn<'_>, queue: &str) -> DlqConfig {
        self.tick(turn);
        let default = DlqConfig::default_of(&self.config);
        self.queues
            .find(queue)
            .map_or(default, |key| self.dlq_config(key))
    }

    /// Changes that; what holds now. Dead letters keep their times, but those that become due by it are tried again at
    /// once, and the oldest beyond the new bound go.
    pub fn set_dlq_config(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        update: &DlqConfigUpdate,
    ) -> DlqConfig {
        let before = self.get_dlq_config(turn, queue);
        let config = before.changed(update);
        if config == before {
            return config;
        }
        let key = self.queues.open_listed(queue);
        let own = (config != DlqConfig::default_of(&self.config)).then(|| Box::new(config));
        self.queues.get_mut(key).dlq = own;
        self.queues.note_settings(key);
        let letters: Vec<_> = self.queues.get(key).failed.values().copied().collect();
        for letter in letters {
            self.disarm_dead_letter(letter);
            self.arm_dead_letter(letter);
        }
        self.bound_dead_letters(turn, key);
        self.note_idle(key);
        config
    }

    /// When a delivery of a queue counts as stalled.
    pub fn get_stall_config(&mut self, turn: &mut Turn<'_>, queue: &str) -> StallConfig {
        self.tick(turn);
        let default = StallConfig::default_of(&self.config);
        self.queues
            .find(queue)
            .map_or(default, |key| self.stall_config(key))
    }

    /// Changes that, for the deliveries in progress too; what holds now.
    pub fn set_stall_config(
        &mut self,
        turn: &mut Turn<'_>,
        queue: &Arc<str>,
        update: &StallConfigUpdate,
    ) -> StallConfig {
        let before = self.get_stall_config(turn, queue);
        let config = before.changed(update);
        if config == before {
            return config;
        }
        let key = self.queues.open_listed(queue);
        let own = (config != StallConfig::default_of(&self.config)).then(|| Box::new(config));
        self.queues.get_mut(key).stall = own;
        self.queues.note_settings(key);
        let active: Vec<_> = self.queues.get(key).active.iter().copied().collect();
        for job in active {
            self.rearm_delivery(job);
        }
        self.note_idle(key);
        config
    }

    pub(super) fn dlq_config(&self, queue: QueueKey) -> DlqConfig {
        let own = self.queues.get(queue).dlq.as_deref().copied();
        own.unwrap_or_else(|| DlqConfig::default_of(&self.config))
    }

    pub(super) fn stall_config(&self, queue: QueueKey) -> StallConfig {
        let own = self.queues.get(queue).stall.as_deref().copied();
        own.unwrap_or_else(|| StallConfig::default_of(&self.config))
    }
}
