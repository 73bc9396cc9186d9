//! Random systems: a tree of services, their processes over time, and the bugs that they can have.

use std::sync::Arc;

use super::super::random::Random;
use super::super::spans::Maker;
use super::super::system::{MS, SECOND, START};
use super::super::worlds::NEVER;
use super::process::{Ending, Naming, Process, Start};
use super::telemetry::{Language, Texts};
use super::world::World;

const NAMES: [&str; 5] = ["gateway", "orders", "stock", "billing", "mail"];
/// How far ahead of a run it is decided which processes come and go.
const AHEAD: u64 = 200 * SECOND;
/// How long it takes until a killed process is replaced.
const DOWN: u64 = 2 * SECOND;

pub(super) struct Service {
    pub(super) texts: Texts,
    pub(super) caller: Option<usize>,
    pub(super) is_queue: bool,
    pub(super) has_tail: bool,
    pub(super) has_partner: bool,
    /// Its processes, in the order of their start.
    pub(super) processes: Vec<usize>,
    clock: i64,
}

pub(super) struct System {
    pub(super) world: World,
    pub(super) services: Vec<Service>,
    /// The service that the world is about.
    pub(super) odd: usize,
    /// Whether the odd service makes no spans for what is called.
    pub(super) is_blind: bool,
    pub(super) processes: Vec<Process>,
    pub(super) maker: Maker,
    /// Whether SDKs say of each span whether its parent is in another process.
    pub(super) tells_remote: bool,
    /// The `tracestate` of all spans: some samplers say there how much they keep.
    pub(super) trace_state: Arc<str>,
    naming: Naming,
    random: Random,
    /// When processes come and go next.
    change: u64,
    next_pid: i64,
}

/// What a run does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// This service is not called.
    Drop(usize),
    /// It is called twice.
    Twice(usize),
    /// The message to it is lost.
    Lost(usize),
    /// It refuses connections.
    Refused(usize),
    /// Its entry, its first step or its work after the answer has an error.
    BadEntry(usize),
    BadStep(usize),
    BadTail(usize),
    /// Its first step has a wrong result.
    WrongStep(usize),
    /// It leaves out its work after the answer.
    NoTail(usize),
}

impl System {
    pub(super) fn new(mut random: Random, world: World) -> Self {
        let count = 2 + random.index(4);
        let odd = 1 + random.index(count - 1);
        let naming = match random.index(3) {
            _ if world.is_unnamed => Naming::Unnamed,
            0 => Naming::ById,
            1 => Naming::ByHost,
            _ => Naming::ByPid,
        };
        let services: Vec<Service> = (0..count)
            .map(|at| {
                let is_queue = at > 0 && random.chance(world.queues);
                let error = i64::try_from(world.clock_error).expect("seconds");
                let clock = if random.chance(50) { error } else { 0 };
                Service {
                    texts: Texts::new(NAMES[at], is_queue, Language::ALL[random.index(4)]),
                    caller: (at > 0).then(|| random.index(at)),
                    is_queue,
                    has_tail: random.chance(35) || (world.job.is_some() && at == odd),
                    has_partner: random.chance(15),
                    processes: Vec::new(),
                    clock: if random.chance(50) { clock } else { -clock },
                }
            })
            .collect();
        let is_blind = world.has_blind_route && !services.iter().any(|service| service.caller == Some(odd));
        let tells_remote = random.chance(50);
        let tells_share = tells_remote && world.sampled < 100 && world.held == 0;
        let change = START + random.between(40 * SECOND, 120 * SECOND);
        let mut system = Self {
            world,
            services,
            odd,
            is_blind,
            processes: Vec::new(),
            maker: Maker::new(),
            tells_remote,
            // Four of ten traces are left out.
            trace_state: if tells_share { "ot=th:6666" } else { "" }.into(),
            naming,
            random,
            change,
            next_pid: 100,
        };
        for service in 0..count {
            system.start_service(service);
        }
        system
    }

    fn start_service(&mut self, service: usize) {
        let world = self.world;
        let is_odd = service == self.odd;
        let usual = world.delays[self.random.index(world.delays.len())];
        let delay = world.slow.filter(|_| is_odd).unwrap_or(usual);
        for host in 0..if is_odd { world.replicas } else { 1 } {
            let slow = world.slow_process.filter(|_| is_odd && host == 0);
            let at = self.start(service, host, slow.unwrap_or(delay), START);
            if world.back_off > 0 && self.random.chance(40) {
                self.processes[at].reachable = START + self.random.between(0, world.back_off);
            }
            if is_odd {
                self.processes[at].is_silent = host < world.silent;
                if world.exporter_dies {
                    self.processes[at].mute_from = START + self.random.between(60 * SECOND, 200 * SECOND);
                }
            }
        }
    }

    /// Starts a process of a service.
    fn start(&mut self, service: usize, host: usize, delay: u64, at: u64) -> usize {
        self.next_pid += 7;
        let known = &self.services[service];
        let start = Start {
            service,
            texts: &known.texts,
            trace_state: &self.trace_state,
            host,
            pid: self.next_pid,
            naming: self.naming,
            delay,
            clock: known.clock,
            is_function: self.world.freezes && service == self.odd,
            at,
        };
        let process = Process::new(&mut self.random, &self.world, &self.maker, &start);
        self.processes.push(process);
        let new = self.processes.len() - 1;
        self.services[service].processes.push(new);
        new
    }

    /// Decides which processes come and go until long after `now`.
    pub(super) fn unfold(&mut self, now: u64) {
        while self.change <= now + AHEAD {
            let at = self.change;
            self.change = NEVER;
            let running: Vec<usize> = self.services[self.odd]
                .processes
                .iter()
                .copied()
                .filter(|process| self.processes[*process].gone == NEVER)
                .collect();
            if let Some(delay) = self.world.update {
                for old in running {
                    self.processes[old].gone = at;
                    self.start(self.odd, self.processes[old].host, delay, at);
                }
            } else if let Some(interval) = self.world.joins {
                self.change = at + interval;
                self.processes[running[0]].gone = at;
                let delay = [100 * MS, SECOND, 5 * SECOND][self.random.index(3)];
                let host = self.services[self.odd].processes.len();
                self.start(self.odd, host, delay, at);
            }
        }
    }

    /// Kills the running process of the odd service, which is replaced a little later.
    pub(super) fn kill(&mut self, at: u64) {
        let Some(last) = self.services[self.odd].processes.last().copied() else { return };
        self.processes[last].gone = at;
        self.processes[last].ending = Ending::Killed;
        let Process { host, delay, .. } = self.processes[last];
        self.start(self.odd, host, delay, at + DOWN);
    }

    /// The first moment from `at` on at which the odd service is up.
    pub(super) fn up_since(&self, at: u64) -> u64 {
        let own = self.services[self.odd].processes.iter().map(|process| &self.processes[*process]);
        let since = own.filter(|process| at < process.gone).map(|process| process.born.max(at));
        since.min().unwrap_or(at)
    }

    /// Chooses the process of a service that a request reaches.
    pub(super) fn reached(&self, random: &mut Random, service: usize, at: u64) -> usize {
        let all = &self.services[service].processes;
        let runs = |process: &&usize| {
            let process = &self.processes[**process];
            process.born <= at && at < process.gone
        };
        match all.iter().filter(runs).count() {
            0 => all[all.len() - 1],
            count => *all.iter().filter(runs).nth(random.index(count)).expect("an index is below a length"),
        }
    }

    /// The bugs that a run can have; likelier ones are listed more than once.
    pub(super) fn bugs(&self) -> Vec<Bug> {
        let mut bugs = Vec::new();
        for (at, service) in self.services.iter().enumerate() {
            if at > 0 {
                bugs.extend([Bug::Drop(at), Bug::Twice(at)]);
                if service.is_queue {
                    bugs.extend([Bug::Lost(at); 2]);
                } else if self.world.refuses {
                    bugs.extend([Bug::Refused(at); 3]);
                }
            }
            bugs.extend([Bug::BadEntry(at), Bug::BadStep(at), Bug::WrongStep(at)]);
            if service.has_tail {
                bugs.extend([Bug::NoTail(at), Bug::NoTail(at), Bug::BadTail(at)]);
            }
        }
        bugs
    }
}
