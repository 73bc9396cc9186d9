//! [`Telemetry`], the entry point of the crate: start, status, reload, shutdown.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use opentelemetry::metrics::Meter;
use tokio::{runtime, sync::watch};
use tracing::Subscriber;
use tracing_subscriber::{Layer as _, registry::LookupSpan};

#[cfg(feature = "prometheus")]
use crate::meter::prometheus::{self, Exposition};
use crate::{
    config::{Config, Level, Signal, Sink, features},
    context,
    delivery::{Delivery, HealthCell, Mode},
    encode::{self, View},
    global,
    layer::{Gate, Shared, TelemetryLayer},
    meter::{Metrics, delta::Deltas, exemplar::Histogram},
    probe,
    propagation::Propagators,
    queue::Queue,
    recorder::Intake,
    resource::Identity,
    self_metrics,
    sinks::{Current, Handle, Set},
    spool::{Orphan, orphan},
    status::{Probe, SinkStatus, Status},
    tracer::ApplicationTracer,
    transport,
};

/// How long a removed sink may go on delivering, and a changed one may wait for responses beyond their timeout.
const RETIRE: Duration = Duration::from_secs(30);
/// Limit on removed sinks whose ledgers are still shown.
const MAX_RETIRED: usize = 16;
/// How often orphaned spools are looked for.
const SURVEY_EVERY: Duration = Duration::from_mins(1);

/// The telemetry of a process. Clones share the same state.
#[derive(Clone)]
pub struct Telemetry(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    metrics: Arc<Metrics>,
    identity: Identity,
    runtime: runtime::Handle,
    control: Mutex<Control>,
}

struct Control {
    config: Config,
    tasks: Vec<Task>,
    retired: Vec<Retired>,
    /// Deliveries that a reload replaced, which wait for the responses to their last requests.
    stopped: Vec<Stopped>,
    orphans: Vec<Orphan>,
    recorder: Option<JoinHandle<()>>,
    /// Dropping it ends the delivery thread.
    stop: Option<(tokio::sync::oneshot::Sender<()>, JoinHandle<()>)>,
}

struct Task {
    handle: Arc<Handle>,
    delivery: tokio::task::JoinHandle<()>,
    collector: Option<tokio::task::JoinHandle<()>>,
    root: Option<PathBuf>,
    log_level: Level,
    schema_url: Option<String>,
    /// Of the certificates: their files may change under the same names.
    fingerprint: u64,
}

/// A delivery whose queue has another one.
struct Stopped {
    handle: Arc<Handle>,
    ending: tokio::task::JoinHandle<()>,
}

/// A sink that a reload removed.
struct Retired {
    handle: Arc<Handle>,
    /// Set by the new owner of the queue: a reload that brings the sink back, or the end of its delivery.
    taken: Arc<AtomicBool>,
    /// Its delivery and the cleanup after it.
    ending: Option<tokio::task::JoinHandle<()>>,
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Telemetry")
    }
}

impl Telemetry {
    /// Starts recording and delivering. No connection is made before this returns, so it takes the same time whether
    /// receivers are up or not. Fails only when the system refuses a thread, or when the configuration needs a cargo
    /// feature that this build does not have.
    pub fn start(config: Config) -> std::io::Result<Self> {
        features::require(&config)?;
        let identity = Identity::detect();
        let sinks = Arc::new(Current::default());
        let scope = encode::scope(&config.service_name, config.service_version.as_deref());
        let intake = Intake::new(config.recorder.clone(), sinks.clone(), scope);
        let shared = Arc::new(Shared::new(intake, sinks));
        let metrics = Arc::new(Metrics::new(&identity.of(&config, None), &config));
        self_metrics::observe(&metrics.meter("qualitytrace.telemetry"), &shared);

        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_start(context::suppress_thread)
            .max_blocking_threads(8)
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let delivery =
            std::thread::Builder::new().name("telemetry-delivery".to_owned()).spawn(move || {
                context::suppress_thread();
                runtime.block_on(async {
                    let _ = stopped.await;
                });
                // A name lookup that hangs must not block the end of the process.
                runtime.shutdown_background();
            })?;
        let recorder = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("telemetry-recorder".to_owned())
                .spawn(move || shared.intake.run())?
        };
        let control = Control {
            config: Config { sinks: Vec::new(), ..config.clone() },
            tasks: Vec::new(),
            retired: Vec::new(),
            stopped: Vec::new(),
            orphans: Vec::new(),
            recorder: Some(recorder),
            stop: Some((stop, delivery)),
        };
        let inner = Inner { shared, metrics, identity, runtime: handle, control: Mutex::new(control) };
        let telemetry = Self(Arc::new(inner));
        if config.set_global {
            global::install(&telemetry.0.shared, telemetry.0.metrics.provider());
        }
        telemetry.reload(config);
        telemetry.0.runtime.spawn(tend_orphans(Arc::downgrade(&telemetry.0)));
        Ok(telemetry)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.0.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layer for a `tracing` subscriber. It does not affect other layers.
    pub fn layer<S>(&self) -> impl tracing_subscriber::Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        TelemetryLayer(self.0.shared.clone()).with_filter(Gate(self.0.shared.clone()))
    }

    /// A meter of the OpenTelemetry API; its instruments reach every sink of metrics and [`Self::prometheus`].
    pub fn meter(&self, name: &'static str) -> Meter {
        self.0.metrics.meter(name)
    }

    /// A histogram with exemplars: the trace that a value came from. Without bounds the defaults of OpenTelemetry are
    /// used.
    pub fn histogram(
        &self,
        meter: &'static str,
        name: &'static str,
        unit: &'static str,
        description: &'static str,
        bounds: &[f64],
    ) -> Histogram {
        self.0.metrics.histogram(meter, name, unit, description, bounds)
    }

    /// Makes spans for the sinks of `applicationExporter`.
    pub fn application_tracer(&self) -> ApplicationTracer {
        ApplicationTracer(self.0.shared.clone())
    }

    /// The propagators for incoming and outgoing requests.
    pub fn propagators(&self) -> Propagators {
        self.0.shared.sinks.with(|set| set.propagators.clone())
    }

    /// Records the statements that the embedding server sends with `sqlx`, as children of the current span. `system` is
    /// a name of the database conventions: `postgresql`, `sqlite`. The first name wins.
    pub fn observe_database(&self, system: &'static str) {
        let _ = self.0.shared.database.set(system);
    }

    /// Reports the embedding server's tokio runtime among the metrics.
    pub fn observe_runtime(&self, handle: &runtime::Handle) {
        self_metrics::runtime(&self.0.metrics.meter("qualitytrace.telemetry"), handle);
    }

    /// All metrics as `OpenMetrics` text; see [`OPENMETRICS`](crate::OPENMETRICS) for its media type.
    #[cfg(feature = "prometheus")]
    pub fn prometheus(&self) -> String {
        self.exposition(Exposition::OpenMetrics)
    }

    /// All metrics as text in a format that the client understands; see [`Exposition::accepted`].
    #[cfg(feature = "prometheus")]
    pub fn exposition(&self, format: Exposition) -> String {
        prometheus::render(&self.0.metrics.collect(), format)
    }

    /// The status of every sink.
    pub fn status(&self) -> Status {
        let (retired, orphans) = {
            let control = self.control();
            let retired = control.retired.iter().map(|retired| SinkStatus::of(&retired.handle)).collect();
            (retired, control.orphans.clone())
        };
        Status {
            orphans,
            intake: self.0.shared.intake.len(),
            sinks: self.0.shared.sinks.get().sinks.iter().map(|handle| SinkStatus::of(handle)).collect(),
            retired,
        }
    }

    /// Replaces the configuration. Unchanged sinks are not touched; a changed sink gets a new connection over the same
    /// queue; a removed sink delivers what it has for a while. The bounds of the recorder, the aggregation of metrics
    /// and `set_global` stay as they were at the start. A sink that needs a cargo feature which this build does not
    /// have keeps its items, and its status says so.
    pub fn reload(&self, config: Config) {
        let mut control = self.control();
        if control.stop.is_none() {
            return;
        }
        // Records made under the old sinks belong to them.
        self.0.shared.intake.settle(Duration::from_secs(1));
        control.stopped.retain(|stopped| !stopped.ending.is_finished());
        let mut old = std::mem::take(&mut control.tasks);
        let mut set = Set { sinks: Vec::new(), propagators: config.propagators.clone() };
        let sinks: &[Sink] = if config.enabled { &config.sinks } else { &[] };
        for sink in sinks {
            let resource = self.0.identity.encode(&config, sink);
            let before =
                old.iter().position(|task| task.handle.sink.id == sink.id).map(|at| old.swap_remove(at));
            let task = match before {
                Some(task)
                    if task.handle.sink.same_settings(sink)
                        && task.handle.resource == resource
                        && (task.log_level, &task.schema_url) == (config.log_level, &config.schema_url)
                        && task.root == config.spool_path
                        && task.fingerprint == transport::fingerprint(sink) =>
                {
                    task
                }
                Some(task) => {
                    if let Some(collector) = &task.collector {
                        collector.abort();
                    }
                    let stopped = Stopped { handle: task.handle, ending: task.delivery };
                    self.succeed(stopped, &mut control.stopped, sink, resource, &config)
                }
                None => match reclaim(&mut control.retired, sink) {
                    Some(stopped) => self.succeed(stopped, &mut control.stopped, sink, resource, &config),
                    None => {
                        let root = config.spool_path.as_deref();
                        let queue = Arc::new(Queue::open(&sink.id, root, &sink.limits, sink.lossy));
                        // What an earlier sink of this name left on disk is counted in the ledger of the new one.
                        let ended = |retired: &Retired| {
                            let handle = &retired.handle;
                            handle.sink.id == sink.id
                                && handle.queue.has_spool()
                                && retired.taken.load(SeqCst)
                        };
                        control.retired.retain(|retired| !ended(retired));
                        self.spawn(sink, resource, (queue, Arc::default()), BTreeMap::new(), &config)
                    }
                },
            };
            set.sinks.push(task.handle.clone());
            control.tasks.push(task);
        }
        // The new set comes first, so that nothing is offered to a sink that ends.
        let set = Arc::new(set);
        self.0.shared.limits.set(config.limits);
        self.0.shared.sinks.set(set.clone());
        self.0.shared.refresh(&set);
        for task in old {
            let _ = task.handle.mode.send(Mode::Retire(Instant::now() + RETIRE));
            if let Some(collector) = task.collector {
                collector.abort();
            }
            let taken = Arc::new(AtomicBool::new(false));
            if control.retired.len() == MAX_RETIRED {
                // Rather one that has ended than one that still delivers.
                let ended = control.retired.iter().position(|retired| retired.taken.load(SeqCst));
                control.retired.remove(ended.unwrap_or(0));
            }
            let (handle, delivery, ours) = (task.handle.clone(), task.delivery, taken.clone());
            let ending = self.0.runtime.spawn(async move {
                let _ = delivery.await;
                if !ours.swap(true, SeqCst) {
                    handle.leave();
                }
            });
            control.retired.push(Retired { handle: task.handle, taken, ending: Some(ending) });
        }
        control.config = config;
        drop(control);
        let inner = Arc::downgrade(&self.0);
        self.0.runtime.spawn_blocking(move || inner.upgrade().map(|inner| Self(inner).survey()));
    }

    /// Looks for orphaned spools: those of sinks that were renamed or removed.
    fn survey(&self) {
        let (root, log_level, handles) = {
            let control = self.control();
            let handles: Vec<Arc<Handle>> = control.tasks.iter().map(|task| task.handle.clone()).collect();
            (control.config.spool_path.clone(), control.config.log_level, handles)
        };
        let Some(root) = root else { return };
        let sinks: Vec<Sink> = handles.iter().map(|handle| handle.sink.clone()).collect();
        for handle in handles.iter().filter(|handle| handle.queue.has_spool()) {
            orphan::sign(&root, &handle.sink);
        }
        let survey = orphan::survey(&root, &sinks, SystemTime::now());
        for (folder, heir) in survey.adopted {
            let sink = &sinks[heir].id;
            let taken = handles[heir].queue.adopt(&folder);
            let folder = folder.display();
            match taken {
                Ok(items) if log_level <= Level::Info => {
                    tracing::info!(%folder, %sink, items, "telemetry sink took over the spool of another one");
                }
                Err(error) if log_level <= Level::Warn => {
                    tracing::warn!(%folder, %sink, %error, "telemetry spool cannot be taken over");
                }
                Ok(_) | Err(_) => {}
            }
        }
        let told = std::mem::replace(&mut self.control().orphans, survey.reported.clone());
        let new = survey.reported.iter().filter(|orphan| told.iter().all(|told| told.path != orphan.path));
        for orphan in new.filter(|_| log_level <= Level::Warn) {
            tracing::warn!(
                folder = orphan.path,
                sink = orphan.sink,
                bytes = orphan.bytes,
                "telemetry spool belongs to no sink; it is removed when its items are too old, name the sink again to deliver them"
            );
        }
        for orphan in survey.expired.iter().filter(|_| log_level <= Level::Warn) {
            tracing::warn!(
                folder = orphan.path,
                sink = orphan.sink,
                bytes = orphan.bytes,
                "telemetry spool of a former sink was removed: its items are too old"
            );
        }
    }

    /// Starts a new delivery over the queue of the old one, which takes nothing more from it.
    fn succeed(
        &self,
        old: Stopped,
        stopped: &mut Vec<Stopped>,
        sink: &Sink,
        resource: bytes::Bytes,
        config: &Config,
    ) -> Task {
        let handle = old.handle.clone();
        let _ = handle.mode.send(Mode::Stop(Instant::now() + handle.sink.delivery.timeout + RETIRE));
        stopped.push(old);
        handle.queue.set_limits(config.spool_path.as_deref(), &sink.limits, sink.lossy);
        let former = handle.former(sink);
        self.spawn(sink, resource, (handle.queue.clone(), handle.deltas.clone()), former, config)
    }

    fn spawn(
        &self,
        sink: &Sink,
        resource: bytes::Bytes,
        (queue, deltas): (Arc<Queue>, Arc<Mutex<Deltas>>),
        former: BTreeMap<Signal, Sink>,
        config: &Config,
    ) -> Task {
        let health = Arc::new(HealthCell::new());
        let (mode, receiver) = watch::channel(Mode::Run);
        let delivery = Delivery {
            sink: sink.clone(),
            queue: queue.clone(),
            resource: resource.clone(),
            health: health.clone(),
            mode: receiver,
            former: former.clone(),
            schema_url: config.schema_url.clone().unwrap_or_default(),
            log_level: config.log_level,
        };
        let view = View::new(sink.level, sink.targets.clone(), sink.redact.clone());
        let handle =
            Arc::new(Handle { sink: sink.clone(), view, queue, resource, health, mode, deltas, former });
        let delivery = self.0.runtime.spawn(delivery.run());
        let collector = handle.carries(Signal::Metrics).then(|| {
            let (handle, metrics) = (handle.clone(), self.0.metrics.clone());
            self.0.runtime.spawn(async move {
                let mut ticks = tokio::time::interval(handle.sink.interval);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                ticks.tick().await;
                loop {
                    ticks.tick().await;
                    handle.offer_metrics(&metrics);
                }
            })
        });
        let (root, log_level) = (config.spool_path.clone(), config.log_level);
        let (schema_url, fingerprint) = (config.schema_url.clone(), transport::fingerprint(sink));
        Task { handle, delivery, collector, root, log_level, schema_url, fingerprint }
    }

    /// Sends one span, one data point and one log record to every sink, bypassing the queues, and returns the
    /// responses. These probes are in no ledger. Blocks until all responses are in.
    pub fn test(&self) -> Vec<Probe> {
        let set = self.0.shared.sinks.get();
        let (sender, receiver) = mpsc::channel();
        for handle in &set.sinks {
            let (handle, sender) = (handle.clone(), sender.clone());
            self.0.runtime.spawn(async move {
                for probe in probe::send(&handle).await {
                    let _ = sender.send(probe);
                }
            });
        }
        drop(sender);
        let mut probes: Vec<Probe> = receiver.iter().collect();
        let place = |probe: &Probe| set.sinks.iter().position(|handle| handle.sink.id == probe.sink);
        probes.sort_by_key(|probe| (place(probe), probe.signal));
        probes
    }

    /// Waits until everything recorded so far is out of the intake and every queue is empty, or until the deadline.
    /// Returns whether it got there.
    pub fn flush(&self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        while Instant::now() < end {
            let idle = |handle: &Arc<Handle>| {
                let ledger = &handle.queue.ledger;
                Signal::ALL.iter().all(|signal| {
                    let balance = ledger.balance(*signal);
                    balance.queued == 0 && balance.in_flight == 0
                })
            };
            if self.0.shared.intake.is_idle() && self.0.shared.sinks.get().sinks.iter().all(idle) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Stops recording, sends what is left (open spans included, marked as such) and ends. What cannot be sent before
    /// the deadline stays in the spools; what has no spool is counted as dropped. Blocks at most a little longer than
    /// the deadline, and needs no runtime of the caller.
    pub fn shutdown(&self, deadline: Duration) -> Status {
        let end = Instant::now() + deadline;
        let (tasks, ending, recorder, stop) = {
            let mut control = self.control();
            let mut ending: Vec<_> = control
                .retired
                .iter_mut()
                .filter_map(|retired| {
                    let _ = retired.handle.mode.send(Mode::Flush(end));
                    retired.ending.take()
                })
                .collect();
            ending.extend(control.stopped.drain(..).map(|stopped| {
                let _ = stopped.handle.mode.send(Mode::Stop(end));
                stopped.ending
            }));
            (std::mem::take(&mut control.tasks), ending, control.recorder.take(), control.stop.take())
        };
        let Some((stop, delivery)) = stop else {
            return self.status();
        };
        self.0.shared.close();
        self.0.shared.end_open_spans();
        self.0.shared.intake.stop();
        if let Some(recorder) = recorder {
            let _ = recorder.join();
        }
        self.0.shared.intake.close();
        let (sender, receiver) = mpsc::channel::<()>();
        for task in tasks {
            if let Some(collector) = &task.collector {
                collector.abort();
                task.handle.offer_metrics(&self.0.metrics);
            }
            let _ = task.handle.mode.send(Mode::Flush(end));
            self.announce(task.delivery, sender.clone());
        }
        for ending in ending {
            self.announce(ending, sender.clone());
        }
        drop(sender);
        let timeout = end.saturating_duration_since(Instant::now()) + Duration::from_millis(500);
        let _ = receiver.recv_timeout(timeout);
        drop(stop);
        let _ = delivery.join();
        for handle in &self.0.shared.sinks.get().sinks {
            // The next process, or the next telemetry of this one, takes the queue over.
            handle.leave();
        }
        for retired in &self.control().retired {
            if !retired.taken.swap(true, SeqCst) {
                retired.handle.leave();
            }
        }
        let status = self.status();
        let log_level = self.control().config.log_level;
        context::without_telemetry(|| {
            for sink in &status.sinks {
                for (signal, balance) in &sink.ledger {
                    let lost = balance.dropped.total() > 0;
                    if log_level > if lost { Level::Warn } else { Level::Info } {
                        continue;
                    }
                    if lost {
                        tracing::warn!(sink = %sink.id, signal = signal.name(), ?balance, "telemetry sink ended with losses");
                        continue;
                    }
                    tracing::info!(sink = %sink.id, signal = signal.name(), ?balance, "telemetry sink ended");
                }
            }
        });
        status
    }
}

impl Telemetry {
    /// Drops the sender when the task ends.
    fn announce(&self, task: tokio::task::JoinHandle<()>, sender: mpsc::Sender<()>) {
        self.0.runtime.spawn(async move {
            let _ = task.await;
            drop(sender);
        });
    }
}

/// Takes back a sink that returns before its delivery ended.
fn reclaim(retired: &mut Vec<Retired>, sink: &Sink) -> Option<Stopped> {
    let came_first =
        |retired: &Retired| retired.handle.sink.id == sink.id && !retired.taken.swap(true, SeqCst);
    let at = retired.iter().position(came_first)?;
    let Retired { handle, ending, .. } = retired.remove(at);
    ending.map(|ending| Stopped { handle, ending })
}

/// Periodically looks for orphaned spools, so that they expire.
async fn tend_orphans(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(SURVEY_EVERY).await;
        let Some(inner) = inner.upgrade() else { return };
        let _ = tokio::task::spawn_blocking(move || Telemetry(inner).survey()).await;
    }
}
