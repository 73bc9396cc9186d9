//! The connections of a sink: one for each host of the signals that it sends now, and of those that it no longer sends.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    config::{self, Signal, Sink},
    transport::Transport,
};

pub(crate) struct Transports {
    sink: Sink,
    former: BTreeMap<Signal, Sink>,
    made: BTreeMap<Key, Arc<Transport>>,
}

/// The signal of a former connection, where `None` is a current one, and the host.
type Key = (Option<Signal>, String);

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
        let (key, sink) = self.find(signal);
        if let Some(transport) = self.made.get(&key) {
            return Ok(transport.clone());
        }
        let transport = Arc::new(Transport::new(sink)?);
        self.made.insert(key, transport.clone());
        Ok(transport)
    }

    /// Gives up the connection of a signal, because the receiver did not respond: the peer may be gone, or want another
    /// certificate, which is then read again.
    pub(crate) fn renew(&mut self, signal: Signal) {
        let (key, _) = self.find(signal);
        self.made.remove(&key);
    }

    fn find(&self, signal: Signal) -> (Key, &Sink) {
        let former = self.former.get(&signal).filter(|_| !self.sink.endpoints.contains_key(&signal));
        let sink = former.unwrap_or(&self.sink);
        let url = sink.endpoints.get(&signal).map_or("", String::as_str);
        let host = url.split('/').take(3).collect::<Vec<_>>().join("/");
        ((former.map(|_| signal), host), sink)
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
