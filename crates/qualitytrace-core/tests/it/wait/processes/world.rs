//! Simulated worlds: what is special about the processes of a system.

use super::super::system::{MS, SECOND};

/// The properties of a world. Most concern one service of each system, the *odd* one.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a world is named by what is special about it")]
pub(super) struct World {
    pub(super) name: &'static str,
    /// How often each process makes a span of its own, in a trace of its own; zero: never.
    pub(super) beat: u64,
    /// The export intervals of processes.
    pub(super) delays: &'static [u64],
    /// The export interval of the odd service.
    pub(super) slow: Option<u64>,
    /// The export interval of one process of the odd service.
    pub(super) slow_process: Option<u64>,
    /// Some processes cannot reach the server at first, for up to this long.
    pub(super) back_off: u64,
    /// Maximum delay of a batch on its way.
    pub(super) jitter: u64,
    /// Processes of the odd service, and how many of these send nothing.
    pub(super) replicas: usize,
    pub(super) silent: usize,
    /// The silent ones have no SDK: what they call begins a trace of its own.
    pub(super) has_no_sdk: bool,
    /// Chance in percent that a service consumes messages.
    pub(super) queues: u64,
    /// No resource says which process it is.
    pub(super) is_unnamed: bool,
    /// Calls name the process that was reached.
    pub(super) names_peers: bool,
    /// Callers choose a process themselves, and know it by its own address.
    pub(super) is_direct: bool,
    /// Each round has a new server that knows what a file keeps, as in CI.
    pub(super) is_renewed: bool,
    /// How often a process of the odd service leaves and another one joins.
    pub(super) joins: Option<u64>,
    /// The processes of the odd service are replaced once, by ones with this export interval.
    pub(super) update: Option<u64>,
    /// Services are called without a span for the call.
    pub(super) is_bare: bool,
    /// The odd service is killed after most requests, and started again 2 s later.
    pub(super) is_killed: bool,
    /// The odd service stops exporting for good.
    pub(super) exporter_dies: bool,
    /// Chance in percent that a trace is sampled.
    pub(super) sampled: u64,
    /// How long a collector holds every span.
    pub(super) held: u64,
    /// Chance in percent that the odd service samples its part of a trace.
    pub(super) part_sampled: u64,
    /// The odd service is suspended between requests, often before it has exported.
    pub(super) freezes: bool,
    /// By how much the clocks of some services are wrong.
    pub(super) clock_error: u64,
    /// The caller of the odd service also calls a peer that does not reply.
    pub(super) has_dead_peer: bool,
    /// Bugs include connections that are refused.
    pub(super) refuses: bool,
    /// How long the odd service works on after its answer.
    pub(super) job: Option<u64>,
    /// Within which time the tests want what they ask for.
    pub(super) within: Option<u64>,
    /// Runs begin right after the server has started.
    pub(super) is_cold: bool,
    /// The odd service makes no spans for the route that is called, if it calls no other service.
    pub(super) has_blind_route: bool,
}

const USUAL_DELAYS: &[u64] = &[100 * MS, 200 * MS, SECOND, 5 * SECOND, 5 * SECOND];
const PROMPT: &[u64] = &[100 * MS];

impl World {
    const HEALTHY: Self = Self {
        name: "healthy",
        beat: SECOND,
        delays: USUAL_DELAYS,
        slow: None,
        slow_process: None,
        back_off: 0,
        jitter: 50 * MS,
        replicas: 1,
        silent: 0,
        has_no_sdk: false,
        queues: 15,
        is_unnamed: false,
        names_peers: false,
        is_direct: false,
        is_renewed: false,
        joins: None,
        update: None,
        is_bare: false,
        is_killed: false,
        exporter_dies: false,
        sampled: 100,
        held: 0,
        part_sampled: 100,
        freezes: false,
        clock_error: 0,
        has_dead_peer: false,
        refuses: false,
        job: None,
        within: None,
        is_cold: false,
        has_blind_route: false,
    };

    const IDLE: Self = Self { beat: 0, ..Self::HEALTHY };

    const SILENT: Self = Self { replicas: 2, silent: 1, ..Self::HEALTHY };

    const RESTARTED: Self = Self { update: Some(5 * SECOND), delays: PROMPT, ..Self::IDLE };

    pub(super) const ALL: [Self; 42] = [
        Self::HEALTHY,
        Self { name: "healthy, idle", ..Self::IDLE },
        Self { name: "prompt, idle", delays: PROMPT, ..Self::IDLE },
        Self { name: "one at 20 s", slow: Some(20 * SECOND), ..Self::HEALTHY },
        Self { name: "back-off", back_off: 90 * SECOND, ..Self::HEALTHY },
        Self { name: "reordered 3 s", jitter: 3 * SECOND, ..Self::HEALTHY },
        Self { name: "three replicas", replicas: 3, ..Self::HEALTHY },
        Self {
            name: "replica slow, unnamed",
            replicas: 2,
            slow_process: Some(8 * SECOND),
            is_unnamed: true,
            ..Self::HEALTHY
        },
        Self { name: "silent 1 of 2", ..Self::SILENT },
        Self { name: "silent 1 of 2, peer named", names_peers: true, ..Self::SILENT },
        Self { name: "silent 1 of 2, direct", is_direct: true, ..Self::SILENT },
        Self { name: "three replicas, direct", replicas: 3, is_direct: true, ..Self::HEALTHY },
        Self { name: "silent 1 of 3", replicas: 3, ..Self::SILENT },
        Self { name: "silent 1 of 10", replicas: 10, ..Self::SILENT },
        Self { name: "silent 1 of 10, peer named", replicas: 10, names_peers: true, ..Self::SILENT },
        Self { name: "silent 1 of 2, no SDK", has_no_sdk: true, ..Self::SILENT },
        Self { name: "silent consumer 1 of 2", queues: 100, ..Self::SILENT },
        Self { name: "silent consumer 1 of 10", replicas: 10, queues: 100, ..Self::SILENT },
        Self { name: "replicas join and leave", replicas: 2, joins: Some(25 * SECOND), ..Self::HEALTHY },
        Self { name: "rolling update, 8 s", replicas: 2, update: Some(8 * SECOND), ..Self::HEALTHY },
        Self { name: "restart, 5 s", ..Self::RESTARTED },
        Self { name: "restart, 5 s, bare edges", is_bare: true, ..Self::RESTARTED },
        Self { name: "killed with its queue", is_killed: true, ..Self::HEALTHY },
        Self { name: "killed, idle", is_killed: true, ..Self::IDLE },
        Self { name: "exporter dies", exporter_dies: true, ..Self::HEALTHY },
        Self { name: "new server", is_renewed: true, ..Self::IDLE },
        Self { name: "new server, silent 1 of 2", is_renewed: true, ..Self::SILENT },
        Self { name: "new server, exporter dies", is_renewed: true, exporter_dies: true, ..Self::HEALTHY },
        Self { name: "root not sampled", sampled: 60, ..Self::HEALTHY },
        Self { name: "tail sampling", sampled: 60, held: 4 * SECOND, ..Self::HEALTHY },
        Self { name: "one service samples", part_sampled: 60, ..Self::HEALTHY },
        Self { name: "frozen", freezes: true, ..Self::IDLE },
        Self { name: "offsets 5 min", clock_error: 300 * SECOND, ..Self::HEALTHY },
        Self { name: "offsets 5 min, idle", clock_error: 300 * SECOND, ..Self::IDLE },
        Self { name: "unreachable peer", has_dead_peer: true, ..Self::HEALTHY },
        Self { name: "calls refused", refuses: true, ..Self::HEALTHY },
        Self { name: "job 30 s", job: Some(30 * SECOND), ..Self::HEALTHY },
        Self { name: "job 30 s, idle", job: Some(30 * SECOND), ..Self::IDLE },
        Self {
            name: "job 30 s, within 40 s",
            job: Some(30 * SECOND),
            within: Some(40 * SECOND),
            ..Self::HEALTHY
        },
        Self { name: "cold, known after", is_cold: true, ..Self::HEALTHY },
        Self { name: "bare edges", is_bare: true, ..Self::HEALTHY },
        Self { name: "no spans for one route", has_blind_route: true, ..Self::HEALTHY },
    ];
}
