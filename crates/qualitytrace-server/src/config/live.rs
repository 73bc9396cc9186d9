//! The current configuration, shared and replaceable.

use std::sync::Arc;

use tokio::sync::watch;

use super::Config;
use crate::base::limits::Limits;

/// The current configuration. Code that calls [`Self::get`] each time follows a reload; code that keeps a copy does
/// not, and its setting is then not `live` in the table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live(Arc<watch::Sender<Arc<Config>>>);

impl Live {
    /// Creates it with this configuration.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(config))))
    }

    /// Returns the current configuration.
    pub fn get(&self) -> Arc<Config> {
        Arc::clone(&self.0.borrow())
    }

    /// Replaces the configuration.
    pub fn set(&self, config: Config) {
        self.0.send_replace(Arc::new(config));
    }
}

impl Live {
    /// Waits until the predicate holds for the configuration; returns at once if it holds now.
    pub(crate) async fn wait_for(&self, is_it: impl Fn(&Config) -> bool) {
        // Fails only when the sender is dropped, and `self` holds it.
        let _ = self.0.subscribe().wait_for(|config| is_it(config)).await;
    }
}

impl From<Limits> for Live {
    fn from(limits: Limits) -> Self {
        Self::new(Config { limits, ..Config::default() })
    }
}

impl From<&Limits> for Live {
    fn from(limits: &Limits) -> Self {
        limits.clone().into()
    }
}

impl From<Config> for Live {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}
