//! Shared code of the fuzz targets.

/// A quarter of a server worker's stack: unbounded recursion over an input overflows it.
const STACK: usize = 512 * 1024;

/// Runs on a thread with a small stack. A panic there is a finding, too.
pub fn on_a_small_stack(run: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(STACK);
        let thread = small.spawn_scoped(scope, run).expect("a thread can be started");
        thread.join().expect("the target does not panic");
    });
}
