//! The configuration of the moment.

use std::sync::Arc;

use tokio::sync::watch;

use super::Config;
use crate::limits::Limits;

/// The configuration of the moment. Whoever asks here each time follows a reload; whoever keeps a copy does not, and
/// its setting is then not `live` in the table. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Live(Arc<watch::Sender<Arc<Config>>>);

impl Live {
    /// Begins with this configuration.
    pub fn new(config: Config) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(config))))
    }

    /// The configuration as it is now.
    pub fn get(&self) -> Arc<Config> {
        Arc::clone(&self.0.borrow())
    }

    /// Replaces it for everybody who asks.
    pub fn set(&self, config: Config) {
        self.0.send_replace(Arc::new(config));
    }
}

impl Live {
    /// Waits until a configuration is one of these; the present one may be.
    pub(crate) async fn wait_for(&self, is_it: impl Fn(&Config) -> bool) {
        // Fails only when there is no sender any more; we are one.
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
