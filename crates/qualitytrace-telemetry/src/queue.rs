//! The delivery queue of one sink: on disk, or in memory where there is no spool.
//!
//! The recorder and the metric reader call `offer`, the delivery calls `next`. Neither waits for the other longer than
//! one read or write of the spool. Each signal waits by itself.

mod lane;
mod part;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    config::{Limits, Signal, Sync},
    item::Item,
    ledger::{Ledger, Loss},
    spool::{Leftovers, Spool, SpoolStatus},
};
pub(crate) use lane::BatchConditions;
use lane::Lane;
pub(crate) use part::Part;
use part::Ticket;

/// Items that are moved to disk at a time.
const MOVE_ITEMS: usize = 1_024;
/// Bytes that are moved from one spool to another at a time.
const MOVE_BYTES: usize = 1 << 20;

pub(crate) struct Queue {
    pub(crate) ledger: Ledger,
    pub(crate) wake: Notify,
    id: String,
    state: Mutex<State>,
    /// Held while spools are recovered, so that no item is counted twice.
    recovery: Mutex<()>,
}

struct State {
    /// What waits, per signal.
    lanes: [Lane; 3],
    limits: Limits,
    /// The folder of the spools, if new items go to one.
    root: Option<PathBuf>,
    /// The spool and the folder of spools that it was opened in. It may be there without a `root`: then it is only read.
    spool: Option<(Arc<Spool>, PathBuf)>,
    /// Spools in folders of earlier configurations; what is in them is moved to the current one.
    former: Vec<Arc<Spool>>,
    recovered: bool,
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
        let state = State {
            lanes: Default::default(),
            limits: limits.clone(),
            root: None,
            spool: None,
            former: Vec::new(),
            recovered: true,
            spool_problem: None,
        };
        let queue = Self {
            ledger: Ledger::default(),
            wake: Notify::new(),
            id: id.to_owned(),
            state: Mutex::new(state),
            recovery: Mutex::default(),
        };
        queue.set_limits(root, limits, lossy);
        queue
    }

    /// Sets new limits and another folder of the spools. Items in the spool of the earlier folder are delivered from
    /// there, or moved to the new one.
    pub(crate) fn set_limits(&self, root: Option<&Path>, limits: &Limits, lossy: bool) {
        let mut state = self.state();
        state.limits = limits.clone();
        state.root = root.filter(|_| !lossy && limits.spool).map(Path::to_path_buf);
        state.spool_problem = None;
        if let Some((spool, _)) = &state.spool {
            spool.set_capacity(limits.spool_bytes);
        }
        drop(state);
        self.open_spool();
    }

    /// Opens the spool if it should be there and is not. Returns whether it was opened now; then it must be recovered.
    pub(crate) fn open_spool(&self) -> bool {
        let mut state = self.state();
        let Some(root) = state.root.clone() else { return false };
        if state.spool.as_ref().is_some_and(|(_, opened)| *opened == root) {
            return false;
        }
        match Spool::open(&root, &self.id, state.limits.spool_bytes) {
            Ok(spool) => {
                state.spool_problem = None;
                state.recovered = false;
                let former = state.spool.replace((Arc::new(spool), root));
                state.former.extend(former.map(|(spool, _)| spool));
                true
            }
            Err(error) => {
                let problem = format!("the spool in `{}` cannot be opened: {error}", root.display());
                state.spool_problem = Some(problem);
                false
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spool(&self) -> Option<Arc<Spool>> {
        self.state().spool.as_ref().map(|(spool, _)| spool.clone())
    }

    /// Adds the spool of earlier processes to the queue. Reads all of it.
    pub(crate) fn recover(&self) {
        let _alone = self.recovery.lock().unwrap_or_else(PoisonError::into_inner);
        let spools: Vec<Arc<Spool>> = {
            let state = self.state();
            if state.recovered {
                return;
            }
            state.spools().cloned().collect()
        };
        for spool in &spools {
            self.inherit(spool.recover());
        }
        let mut state = self.state();
        // Unless another one was opened meanwhile.
        let current = state.spool.as_ref().map(|(spool, _)| spool);
        state.recovered = current.is_none_or(|spool| spools.iter().any(|known| Arc::ptr_eq(known, spool)));
    }

    /// Takes over the items of another spool, unless a process uses it.
    pub(crate) fn adopt(&self, folder: &Path) -> std::io::Result<u64> {
        let Some(spool) = self.spool() else { return Ok(0) };
        let found = spool.adopt(folder)?;
        self.inherit(found);
        self.wake.notify_one();
        Ok(found.items.iter().sum())
    }

    fn inherit(&self, found: Leftovers) {
        for signal in Signal::ALL {
            let (items, lost) = (found.items[signal as usize], found.lost[signal as usize]);
            self.ledger.of(signal).recovered(items + lost);
            self.ledger.of(signal).dropped_from_queue(Loss::Damaged, lost);
        }
        let mut state = self.state();
        for (lane, items) in state.lanes.iter_mut().zip(found.items) {
            lane.wait(items, 0);
        }
    }

    /// Moves what is left in the spools of earlier folders to the current one, as far as there is room, and at most
    /// about this many bytes: the next process looks only there.
    pub(crate) fn migrate(&self, resource: &Bytes, max_bytes: usize) {
        let mut moved = 0;
        while moved < max_bytes {
            let mut state = self.state();
            state.former.retain(|former| {
                // A thread that was about to write to it, or a request, may still hold it.
                let is_done = Arc::strong_count(former) == 1 && former.is_drained();
                if is_done {
                    former.tidy();
                }
                !is_done
            });
            let Some(spool) = state.writable() else { return };
            // A part that had no room is sent or unloaded first.
            let is_parked = |part: &Part| part.ticket.is_some() && !part.is_in(&spool);
            if state.lanes.iter().flat_map(|lane| &lane.ready).any(is_parked) {
                return;
            }
            let due = BatchConditions {
                items: MOVE_ITEMS,
                bytes: MOVE_BYTES,
                throttle: Duration::ZERO,
                flush: true,
            };
            let mut parts = Signal::ALL.into_iter().flat_map(|signal| {
                state.former.iter().filter_map(move |former| self.read_spool(former, signal, due))
            });
            let Some(part) = parts.next() else { return };
            let sync = state.limits.spool_sync == Sync::Always;
            if spool.append(part.resource.as_ref().unwrap_or(resource), &part.items, sync).is_err() {
                state.lanes[part.signal as usize].ready.push_back(part);
                return;
            }
            moved += part.items.iter().map(Item::size).sum::<usize>();
            part.settle();
        }
    }

    /// Moves items from memory, where they wait because the disk had no room, to the disk, as far as there is room now:
    /// there they survive the process.
    pub(crate) fn unload(&self, resource: &Bytes) {
        loop {
            let mut state = self.state();
            let Some(spool) = state.writable() else { return };
            let sync = state.limits.spool_sync == Sync::Always;
            for lane in &mut state.lanes {
                // Parts that wait for a retry come first: they are older.
                while let Some(at) = lane.ready.iter().position(|part| !part.is_in(&spool)) {
                    let part = &lane.ready[at];
                    let resource = part.resource.as_ref().unwrap_or(resource);
                    if spool.append(resource, &part.items, sync).is_err() {
                        return;
                    }
                    if let Some(part) = lane.ready.remove(at) {
                        let bytes = part.items.iter().map(|item| item.size() as u64).sum();
                        lane.wait(part.items.len() as u64, bytes);
                        part.settle();
                    }
                }
            }
            let Some(lane) = state.lanes.iter_mut().find(|lane| !lane.memory.is_empty()) else { return };
            let count = lane.memory.len().min(MOVE_ITEMS);
            // The lock is held meanwhile, so that the delivery does not send what is being written.
            if spool.append(resource, &lane.memory.make_contiguous()[..count], sync).is_err() {
                return;
            }
            lane.forget(count);
        }
    }

    /// Frees the disk space of acknowledged items, and checks whether the spool can be used.
    pub(crate) fn tidy(&self) {
        if let Some(spool) = self.spool().filter(|_| self.state().recovered) {
            spool.tidy();
        }
    }

    /// Releases the spool for the next process that opens it.
    pub(crate) fn release(&self) {
        let state = self.state();
        for spool in state.spools() {
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
        let (spool, sync) = {
            let state = self.state();
            (state.writable(), state.limits.spool_sync == Sync::Always)
        };
        // Counted before the delivery can see them, so that no balance goes below zero.
        for item in &fit {
            self.ledger.of(item.signal).queued(item.count.into());
        }
        let refusal = spool.as_ref().and_then(|spool| spool.append(resource, &fit, sync).err());
        let spooled = spool.is_some() && refusal.is_none();
        let mut state = self.state();
        let State { lanes, limits, .. } = &mut *state;
        for item in fit {
            let lane = &mut lanes[item.signal as usize];
            let size = item.size() as u64;
            if !spooled {
                if !lane.has_room(&item, limits) {
                    let loss = if refusal.is_some() { Loss::SpoolFull } else { Loss::QueueFull };
                    self.ledger.of(item.signal).dropped_from_queue(loss, item.count.into());
                    continue;
                }
                lane.keep(item);
            }
            lane.wait(1, size);
        }
        let wakes = lanes.iter().any(|lane| lane.waiting_items >= lane.threshold.max(1));
        drop(state);
        if wakes {
            self.wake.notify_one();
        }
    }

    /// The next part of a signal to send, if a batch is due.
    pub(crate) fn next(&self, signal: Signal, due: BatchConditions, now: Instant) -> Option<Part> {
        let mut state = self.state();
        if let Some(part) = state.lanes[signal as usize].ready.pop_front() {
            return Some(part);
        }
        if !state.recovered || state.lanes[signal as usize].due_at(due).is_none_or(|at| at > now) {
            return None;
        }
        let spooled = state.spools().find_map(|spool| self.read_spool(spool, signal, due));
        let lane = &mut state.lanes[signal as usize];
        let part = spooled.unwrap_or_else(|| {
            let items = lane.read_memory(due);
            Part { signal, items, resource: None, ticket: None }
        });
        lane.took(&part.items, now);
        (!part.items.is_empty()).then_some(part)
    }

    fn read_spool(&self, spool: &Arc<Spool>, signal: Signal, due: BatchConditions) -> Option<Part> {
        let (taken, damaged) = spool.take(signal, due.items, due.bytes);
        self.lose(Loss::Damaged, damaged);
        let taken = taken?;
        let ticket = Some(Arc::new(Ticket::new(spool.clone(), taken.start)));
        Some(Part { signal, items: taken.items, resource: taken.resource, ticket })
    }

    fn lose(&self, loss: Loss, counts: [u64; 3]) {
        for signal in Signal::ALL {
            self.ledger.of(signal).dropped_from_queue(loss, counts[signal as usize]);
        }
    }

    /// Puts a part at the front of the queue, for a retry.
    pub(crate) fn put_back(&self, part: Part) {
        self.state().lanes[part.signal as usize].ready.push_front(part);
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
        for lane in &mut state.lanes {
            for mut part in std::mem::take(&mut lane.ready) {
                let all = part.count();
                part.items.retain(|item| item.time >= before);
                self.ledger.of(part.signal).dropped_from_queue(Loss::Expired, all - part.count());
                if part.items.is_empty() {
                    part.settle();
                } else {
                    lane.ready.push_back(part);
                }
            }
            let old = lane.memory.iter().take_while(|item| item.time < before).count();
            for item in lane.forget(old) {
                self.ledger.of(item.signal).dropped_from_queue(Loss::Expired, item.count.into());
            }
        }
        for spool in state.spools() {
            let (expired, damaged) = spool.expire(before);
            self.lose(Loss::Expired, expired);
            self.lose(Loss::Damaged, damaged);
        }
    }

    /// Drops the items that cannot survive the process; the spool stays.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        for lane in &mut state.lanes {
            for item in lane.forget(lane.memory.len()) {
                self.ledger.of(item.signal).dropped_from_queue(Loss::Shutdown, item.count.into());
            }
            for part in std::mem::take(&mut lane.ready) {
                if part.ticket.is_none() {
                    self.ledger.of(part.signal).dropped_from_queue(Loss::Shutdown, part.count());
                }
            }
        }
    }

    /// The time at which the next batch of a signal closes by itself.
    pub(crate) fn due_at(&self, signal: Signal, due: BatchConditions) -> Option<Instant> {
        let mut state = self.state();
        let lane = &mut state.lanes[signal as usize];
        lane.threshold = if lane.waiting_items == 0 { 1 } else { due.items as u64 };
        if lane.ready.is_empty() { lane.due_at(due) } else { Some(Instant::now()) }
    }

    /// Whether nothing of a signal waits that the delivery could send.
    pub(crate) fn is_empty(&self, signal: Signal) -> bool {
        let state = self.state();
        let lane = &state.lanes[signal as usize];
        state.recovered && lane.ready.is_empty() && lane.waiting_items == 0
    }

    /// Whether all waiting items of a signal are on disk.
    pub(crate) fn survives(&self, signal: Signal) -> bool {
        let state = self.state();
        let lane = &state.lanes[signal as usize];
        state.spool.is_some() && lane.memory.is_empty() && lane.ready.iter().all(|part| part.ticket.is_some())
    }

    pub(crate) fn sync(&self) {
        let undelivered = self.state().lanes.iter().any(|lane| lane.waiting_items > 0);
        if let Some(spool) = self.spool().filter(|_| undelivered) {
            spool.sync();
        }
    }

    pub(crate) fn depth(&self) -> Depth {
        let mut depth = Depth::default();
        for lane in &self.state().lanes {
            let parts = lane.ready.iter().filter(|part| part.ticket.is_none()).flat_map(|part| &part.items);
            depth.memory_items += lane.memory.len();
            depth.memory_bytes += lane.memory_bytes;
            for item in parts {
                depth.memory_items += 1;
                depth.memory_bytes += item.size();
            }
        }
        depth
    }

    pub(crate) fn has_spool(&self) -> bool {
        self.state().spool.is_some()
    }

    /// Whether there should be a disk queue, or is one.
    pub(crate) fn uses_disk(&self) -> bool {
        let state = self.state();
        state.root.is_some() || state.spool.is_some()
    }

    pub(crate) fn spool_status(&self) -> Option<SpoolStatus> {
        let state = self.state();
        let problem = state.spool_problem.clone();
        match &state.spool {
            Some((spool, _)) => {
                let status = spool.status();
                Some(SpoolStatus { problem: problem.or(status.problem), ..status })
            }
            None => problem.map(|problem| SpoolStatus { problem: Some(problem), ..SpoolStatus::default() }),
        }
    }
}

impl State {
    /// All spools, oldest items first.
    fn spools(&self) -> impl Iterator<Item = &Arc<Spool>> {
        self.former.iter().chain(self.spool.iter().map(|(spool, _)| spool))
    }

    /// The spool that new items go to.
    fn writable(&self) -> Option<Arc<Spool>> {
        self.root.as_ref().and(self.spool.as_ref()).map(|(spool, _)| spool.clone())
    }
}
