//! The configuration of the moment.

use std::sync::{Arc, PoisonError, RwLock};

use super::Config;
use crate::limits::Limits;

/// The configuration of the moment. Whoever asks here each time follows a reload; whoever keeps a copy does not, and
/// its setting is then not `live` in the table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live(Arc<RwLock<Arc<Config>>>);

impl Live {
    /// Begins with this configuration.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    /// The configuration as it is now.
    pub fn get(&self) -> Arc<Config> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it for everybody who asks.
    pub fn set(&self, config: Config) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
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
