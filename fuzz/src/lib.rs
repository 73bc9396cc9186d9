//! What all targets share.

/// A quarter of what a worker of the server has: whatever calls itself for each part of an input ends there.
const STACK: usize = 512 * 1024;

/// Runs on a thread with a small stack. A panic there is a finding, as everywhere.
pub fn on_a_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(STACK);
        let thread = small.spawn_scoped(scope, run).expect("a thread can be started");
        thread.join().expect("the target does not panic");
    });
}
