//! The delivery queue of one sink: on disk, or in memory where there is no spool.
//!
//! The recorder and the metric reader call `offer`, the delivery calls `next`. Neither waits for the other longer than
//! one read or write of the spool.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    config::{Limits, Signal, Sync},
    item::Item,
    ledger::{Ledger, Loss},
    spool::{Found, Position, Spool, SpoolStatus},
};

/// A batch: items of one signal for one request.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) signal: Signal,
    pub(crate) items: Vec<Item>,
    /// The resource that they were recorded under; `None` is that of the sink.
    pub(crate) resource: Option<Bytes>,
    ticket: Option<Arc<Ticket>>,
}

/// A range of the spool that is acknowledged when all its parts are settled.
struct Ticket {
    spool: Arc<Spool>,
    start: Position,
    open: AtomicUsize,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ticket").field(&self.start).finish()
    }
}

impl Part {
    /// How many items it counts as in the ledger.
    pub(crate) fn count(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.count)).sum()
    }

    /// Marks the part as done; the last part of a ticket acknowledges it in the spool.
    pub(crate) fn settle(self) {
        if let Some(ticket) = &self.ticket
            && ticket.open.fetch_sub(1, Relaxed) == 1
        {
            ticket.spool.acknowledge(ticket.start);
        }
    }

    /// Splits the part into two halves.
    pub(crate) fn split(mut self) -> (Self, Self) {
        if let Some(ticket) = &self.ticket {
            ticket.open.fetch_add(1, Relaxed);
        }
        let items = self.items.split_off(self.items.len() / 2);
        let other =
            Self { signal: self.signal, items, resource: self.resource.clone(), ticket: self.ticket.clone() };
        (self, other)
    }
}

/// Items that are moved from memory to disk at a time.
const UNLOAD_ITEMS: usize = 1_024;

/// Items, their resource, and their position in the spool.
type Spooled = (Vec<Item>, Option<Bytes>, (Arc<Spool>, Position));

/// The conditions under which a batch closes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
    pub(crate) throttle: Duration,
    /// Whether a batch closes without waiting to fill.
    pub(crate) flush: bool,
}

pub(crate) struct Queue {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) wake: Notify,
    id: String,
    state: Mutex<State>,
    /// The folder of the spools, if there should be one.
    root: Option<PathBuf>,
    /// Empty while the spool cannot be opened.
    spool: OnceLock<Arc<Spool>>,
    /// How many waiting items wake the sleeping delivery.
    threshold: AtomicU64,
}

struct State {
    memory: VecDeque<Item>,
    memory_bytes: usize,
    ready: VecDeque<Part>,
    limits: Limits,
    lossy: bool,
    recovered: bool,
    /// Items and bytes that were offered and not taken.
    waiting_items: u64,
    waiting_bytes: u64,
    oldest: Option<Instant>,
    /// Why there is no spool although there should be one.
    spool_problem: Option<String>,
}

/// The depth of a queue, for the status.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Depth {
    pub(crate) memory_items: usize,
    pub(crate) memory_bytes: usize,
}

impl Queue {
    pub(crate) fn open(id: &str, root: Option<&Path>, limits: &Limits, lossy: bool) -> Self {
        let wanted = !lossy && limits.spool;
        let state = State {
            memory: VecDeque::new(),
            memory_bytes: 0,
            ready: VecDeque::new(),
            limits: limits.clone(),
            lossy,
            recovered: true,
            waiting_items: 0,
            waiting_bytes: 0,
            oldest: None,
            spool_problem: None,
        };
        let queue = Self {
            ledger: Arc::default(),
            wake: Notify::new(),
            id: id.to_owned(),
            state: Mutex::new(state),
            root: root.filter(|_| wanted).map(Path::to_path_buf),
            spool: OnceLock::new(),
            threshold: AtomicU64::new(1),
        };
        queue.open_spool();
        queue
    }

    /// Opens the spool if it should be there and is not. Returns whether it was opened now; then it must be recovered.
    pub(crate) fn open_spool(&self) -> bool {
        let Some(root) = self.root.as_ref().filter(|_| self.spool.get().is_none()) else { return false };
        let capacity = self.state().limits.spool_bytes;
        let opened = Spool::open(root, &self.id, capacity);
        let mut state = self.state();
        match opened {
            Ok(spool) => {
                state.spool_problem = None;
                state.recovered = false;
                self.spool.set(Arc::new(spool)).is_ok()
            }
            Err(error) => {
                let problem = format!("the spool in `{}` cannot be opened: {error}", root.display());
                state.spool_problem = Some(problem);
                false
            }
        }
    }

    /// Uses the ledger of another queue.
    pub(crate) fn with_ledger(mut self, ledger: Arc<Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets new limits; the spool stays where it is.
    pub(crate) fn set_limits(&self, limits: &Limits, lossy: bool) {
        let mut state = self.state();
        state.limits = limits.clone();
        state.lossy = lossy;
        if let Some(spool) = self.spool.get() {
            spool.set_capacity(limits.spool_bytes);
        }
    }

    /// Adds the spool of earlier processes to the queue. Reads all of it.
    pub(crate) fn recover(&self) {
        let Some(spool) = self.spool.get() else { return };
        if self.state().recovered {
            return;
        }
        self.inherit(spool.recover());
        self.state().recovered = true;
    }

    /// Takes over the items of another spool, unless a process uses it.
    pub(crate) fn adopt(&self, folder: &Path) -> std::io::Result<u64> {
        let Some(spool) = self.spool.get() else { return Ok(0) };
        let found = spool.adopt(folder)?;
        self.inherit(found);
        self.wake.notify_one();
        Ok(found.items.iter().sum())
    }

    fn inherit(&self, found: Found) {
        for signal in Signal::ALL {
            let (items, lost) = (found.items[signal as usize], found.lost[signal as usize]);
            self.ledger.of(signal).recovered(items + lost);
            self.ledger.of(signal).dropped_from_queue(Loss::Damaged, lost);
        }
        let mut state = self.state();
        state.waiting_items += found.items.iter().sum::<u64>();
        state.oldest = Some(Instant::now());
    }

    /// Moves items from memory, where they wait because the disk had no room, to the disk, as far as there is room now:
    /// there they survive the process.
    pub(crate) fn unload(&self, resource: &Bytes) {
        let Some(spool) = self.spool.get() else { return };
        loop {
            let mut state = self.state();
            if state.lossy || !state.recovered {
                return;
            }
            let sync = state.limits.spool_sync == Sync::Always;
            // Parts that wait for a retry come first: they are older.
            while let Some(at) = state.ready.iter().position(|part| part.ticket.is_none()) {
                if spool.append(resource, &state.ready[at].items, sync).is_err() {
                    return;
                }
                if let Some(part) = state.ready.remove(at) {
                    state.waiting_items += part.items.len() as u64;
                    state.waiting_bytes += part.items.iter().map(|item| item.size() as u64).sum::<u64>();
                    state.oldest.get_or_insert_with(Instant::now);
                }
            }
            if state.memory.is_empty() {
                return;
            }
            let count = state.memory.len().min(UNLOAD_ITEMS);
            // The lock is held meanwhile, so that the delivery does not send what is being written.
            if spool.append(resource, &state.memory.make_contiguous()[..count], sync).is_err() {
                return;
            }
            let moved: usize = state.memory.drain(..count).map(|item| item.size()).sum();
            state.memory_bytes -= moved;
        }
    }

    /// Frees the disk space of acknowledged items, and checks whether the spool can be used.
    pub(crate) fn tidy(&self) {
        if let Some(spool) = self.spool.get().filter(|_| self.state().recovered) {
            spool.tidy();
        }
    }

    /// Releases the spool for the next process that opens it.
    pub(crate) fn release(&self) {
        if let Some(spool) = self.spool.get() {
            spool.release();
        }
    }

    /// Queues new items, or counts them as dropped. Never waits for the receiver.
    pub(crate) fn offer(&self, resource: &Bytes, items: Vec<Item>, max_item: usize) {
        let mut fit = Vec::with_capacity(items.len());
        for item in items {
            let counters = self.ledger.of(item.signal);
            counters.created(item.count.into());
            if item.size() > max_item {
                counters.dropped(Loss::TooLarge, item.count.into());
            } else {
                fit.push(item);
            }
        }
        if fit.is_empty() {
            return;
        }
        let (lossy, sync) = {
            let state = self.state();
            (state.lossy, state.limits.spool_sync == Sync::Always)
        };
        let bytes: usize = fit.iter().map(Item::size).sum();
        let total = fit.len() as u64;
        // Counted before the delivery can see them, so that no balance goes below zero.
        for item in &fit {
            self.ledger.of(item.signal).queued(item.count.into());
        }
        let spool = self.spool.get().filter(|_| !lossy);
        let refusal = spool.and_then(|spool| spool.append(resource, &fit, sync).err());
        let spooled = spool.is_some() && refusal.is_none();
        let mut state = self.state();
        let (mut items, mut size) = (total, bytes as u64);
        if !spooled {
            for item in fit {
                let full = state.memory.len() >= state.limits.queue_items
                    || state.memory_bytes + item.size() > state.limits.queue_bytes;
                if full {
                    let loss = if refusal.is_some() { Loss::SpoolFull } else { Loss::QueueFull };
                    self.ledger.of(item.signal).dropped_from_queue(loss, item.count.into());
                    items -= 1;
                    size -= item.size() as u64;
                } else {
                    state.memory_bytes += item.size();
                    state.memory.push_back(item);
                }
            }
        }
        state.waiting_items += items;
        state.waiting_bytes += size;
        state.oldest.get_or_insert_with(Instant::now);
        let waiting = state.waiting_items;
        drop(state);
        if waiting >= self.threshold.load(Relaxed) {
            self.wake.notify_one();
        }
    }

    /// The next part to send, if a batch is due.
    pub(crate) fn next(&self, due: Due, now: Instant) -> Option<Part> {
        let mut state = self.state();
        if let Some(part) = state.ready.pop_front() {
            return Some(part);
        }
        if !state.recovered || state.due_at(due).is_none_or(|at| at > now) {
            return None;
        }
        let (items, resource, ticket) = match self.read_spool(due) {
            Some((items, resource, ticket)) => (items, resource, Some(ticket)),
            None => (state.read_memory(due), None, None),
        };
        let bytes: usize = items.iter().map(Item::size).sum();
        state.waiting_items = state.waiting_items.saturating_sub(items.len() as u64);
        state.waiting_bytes = state.waiting_bytes.saturating_sub(bytes as u64);
        if items.is_empty() {
            // The spool is empty, whatever the estimate said.
            state.waiting_items = 0;
            state.waiting_bytes = 0;
        }
        state.oldest = (state.waiting_items > 0).then_some(now);
        let mut groups: [Vec<Item>; 3] = Default::default();
        for item in items {
            groups[item.signal as usize].push(item);
        }
        let open = groups.iter().filter(|group| !group.is_empty()).count();
        let ticket =
            ticket.map(|(spool, start)| Arc::new(Ticket { spool, start, open: AtomicUsize::new(open) }));
        for (signal, items) in Signal::ALL.into_iter().zip(groups).filter(|(_, items)| !items.is_empty()) {
            state.ready.push_back(Part { signal, items, resource: resource.clone(), ticket: ticket.clone() });
        }
        state.ready.pop_front()
    }

    fn read_spool(&self, due: Due) -> Option<Spooled> {
        let spool = self.spool.get()?;
        let (taken, damaged) = spool.take(due.items, due.bytes);
        self.lose(Loss::Damaged, damaged);
        let taken = taken?;
        Some((taken.items, taken.resource, (spool.clone(), taken.start)))
    }

    fn lose(&self, loss: Loss, counts: [u64; 3]) {
        for signal in Signal::ALL {
            self.ledger.of(signal).dropped_from_queue(loss, counts[signal as usize]);
        }
    }

    /// Puts a part at the front of the queue, for a retry.
    pub(crate) fn put_back(&self, part: Part) {
        self.state().ready.push_front(part);
    }

    /// Drops items that are older than the retention of the sink.
    pub(crate) fn expire(&self, now: SystemTime) {
        let mut state = self.state();
        if !state.recovered {
            return;
        }
        let Some(before) = now.checked_sub(state.limits.spool_age) else {
            return;
        };
        let before = crate::clock::nanos(before);
        let ready = std::mem::take(&mut state.ready);
        for mut part in ready {
            let all = part.count();
            part.items.retain(|item| item.time >= before);
            self.ledger.of(part.signal).dropped_from_queue(Loss::Expired, all - part.count());
            if part.items.is_empty() {
                part.settle();
            } else {
                state.ready.push_back(part);
            }
        }
        while state.memory.front().is_some_and(|item| item.time < before) {
            if let Some(item) = state.memory.pop_front() {
                state.memory_bytes -= item.size();
                self.ledger.of(item.signal).dropped_from_queue(Loss::Expired, item.count.into());
            }
        }
        if let Some(spool) = self.spool.get() {
            let (expired, damaged) = spool.expire(before);
            self.lose(Loss::Expired, expired);
            self.lose(Loss::Damaged, damaged);
        }
    }

    /// Drops the items that cannot survive the process; the spool stays.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        for item in std::mem::take(&mut state.memory) {
            self.ledger.of(item.signal).dropped_from_queue(Loss::Shutdown, item.count.into());
        }
        state.memory_bytes = 0;
        for part in std::mem::take(&mut state.ready) {
            if part.ticket.is_none() {
                self.ledger.of(part.signal).dropped_from_queue(Loss::Shutdown, part.count());
            }
        }
    }

    /// The time at which the next batch closes by itself.
    pub(crate) fn due_at(&self, due: Due) -> Option<Instant> {
        let state = self.state();
        self.threshold.store(if state.waiting_items == 0 { 1 } else { due.items as u64 }, Relaxed);
        if state.ready.is_empty() { state.due_at(due) } else { Some(Instant::now()) }
    }

    /// Whether nothing waits that the delivery could send.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state();
        state.recovered && state.ready.is_empty() && state.waiting_items == 0
    }

    /// Whether all waiting items are on disk.
    pub(crate) fn survives(&self) -> bool {
        let state = self.state();
        self.spool.get().is_some()
            && state.memory.is_empty()
            && state.ready.iter().all(|part| part.ticket.is_some())
    }

    pub(crate) fn sync(&self) {
        let undelivered = self.state().waiting_items > 0;
        if let Some(spool) = self.spool.get().filter(|_| undelivered) {
            spool.sync();
        }
    }

    pub(crate) fn depth(&self) -> Depth {
        let state = self.state();
        let parts = state.ready.iter().filter(|part| part.ticket.is_none()).flat_map(|part| &part.items);
        let (items, bytes) = parts.fold((0, 0), |(items, bytes), item| (items + 1, bytes + item.size()));
        Depth { memory_items: state.memory.len() + items, memory_bytes: state.memory_bytes + bytes }
    }

    pub(crate) fn has_spool(&self) -> bool {
        self.spool.get().is_some()
    }

    /// Whether there should be a disk queue.
    pub(crate) fn wants_spool(&self) -> bool {
        self.root.is_some()
    }

    pub(crate) fn spool_status(&self) -> Option<SpoolStatus> {
        match (self.spool.get(), &self.state().spool_problem) {
            (Some(spool), _) => Some(spool.status()),
            (None, Some(problem)) => {
                Some(SpoolStatus { problem: Some(problem.clone()), ..SpoolStatus::default() })
            }
            (None, None) => None,
        }
    }
}

impl State {
    fn due_at(&self, due: Due) -> Option<Instant> {
        let oldest = self.oldest.filter(|_| self.waiting_items > 0)?;
        let full = self.waiting_items >= due.items as u64 || self.waiting_bytes >= due.bytes as u64;
        Some(if full || due.flush { oldest } else { oldest + due.throttle })
    }

    fn read_memory(&mut self, due: Due) -> Vec<Item> {
        let mut items = Vec::new();
        let mut bytes = 0;
        while let Some(item) = self.memory.front() {
            bytes += item.size();
            if items.len() >= due.items || (bytes > due.bytes && !items.is_empty()) {
                break;
            }
            self.memory_bytes -= item.size();
            items.extend(self.memory.pop_front());
        }
        items
    }
}
