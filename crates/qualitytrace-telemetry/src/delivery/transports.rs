//! The connections of a sink: one for the signals that it sends now, and one for each signal that it no longer sends.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    config::{self, Signal, Sink},
    transport::Transport,
};

pub(crate) struct Transports {
    sink: Sink,
    former: BTreeMap<Signal, Sink>,
    /// The key is the signal of a former connection; `None` is the current one.
    made: BTreeMap<Option<Signal>, Arc<Transport>>,
}

impl Transports {
    /// `former` holds how signals were sent that a reload switched off.
    pub(crate) fn new(sink: &Sink, mut former: BTreeMap<Signal, Sink>) -> Self {
        for signal in Signal::ALL.into_iter().filter(|signal| !sink.endpoints.contains_key(signal)) {
            if let Some(url) = neighbour(sink, signal) {
                former
                    .entry(signal)
                    .or_insert_with(|| Sink { endpoints: [(signal, url)].into(), ..sink.clone() });
            }
        }
        Self { sink: sink.clone(), former, made: BTreeMap::new() }
    }

    /// The connection for a signal. A failure is not cached: a certificate may be there the next time.
    pub(crate) fn of(&mut self, signal: Signal) -> Result<Arc<Transport>, String> {
        let former = self.former.get(&signal).filter(|_| !self.sink.endpoints.contains_key(&signal));
        let key = former.map(|_| signal);
        if let Some(transport) = self.made.get(&key) {
            return Ok(transport.clone());
        }
        let transport = Arc::new(Transport::new(former.unwrap_or(&self.sink))?);
        self.made.insert(key, transport.clone());
        Ok(transport)
    }
}

/// The address of a signal that was switched off while the server did not run, derived from that of another signal.
fn neighbour(sink: &Sink, signal: Signal) -> Option<String> {
    sink.endpoints.iter().find_map(|(other, url)| match sink.transport {
        config::Transport::Grpc => Some(url.clone()),
        config::Transport::Http => {
            let base = url.strip_suffix(&format!("/v1/{}", other.name()))?;
            Some(format!("{base}/v1/{}", signal.name()))
        }
    })
}
