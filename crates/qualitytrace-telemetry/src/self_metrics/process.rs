//! Metrics of the process, from `/proc`.

use std::fs;

use opentelemetry::{KeyValue, metrics::Meter};

/// Registers the instruments.
pub(super) fn observe(meter: &Meter) {
    meter
        .f64_observable_counter("process.cpu.time")
        .with_unit("s")
        .with_description("CPU time of the process")
        .with_callback(|observer| {
            if let Some((user, system)) = cpu_seconds() {
                observer.observe(user, &[KeyValue::new("cpu.mode", "user")]);
                observer.observe(system, &[KeyValue::new("cpu.mode", "system")]);
            }
        })
        .build();
    meter
        .i64_observable_up_down_counter("process.memory.usage")
        .with_unit("By")
        .with_description("Physical memory of the process")
        .with_callback(|observer| {
            if let Some(bytes) = memory_bytes() {
                observer.observe(bytes, &[]);
            }
        })
        .build();
    meter
        .i64_observable_up_down_counter("process.unix.file_descriptor.count")
        .with_unit("{file_descriptor}")
        .with_description("Open files of the process")
        .with_callback(|observer| {
            if let Ok(files) = fs::read_dir("/proc/self/fd") {
                observer.observe(i64::try_from(files.count()).unwrap_or(0), &[]);
            }
        })
        .build();
}

/// User and system seconds.
fn cpu_seconds() -> Option<(f64, f64)> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let per_second = f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).ok()?);
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok().map(|ticks| ticks / per_second);
    Some((next()?, next()?))
}

fn memory_bytes() -> Option<i64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(i64::try_from(rustix::param::page_size()).ok()?)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn memory_is_what_the_kernel_says_in_kibibytes() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kibibytes: i64 = line.split_whitespace().next().unwrap().parse().unwrap();
        let times = memory_bytes().unwrap() / 1024 / kibibytes;
        // Other tests of this process take and return memory meanwhile.
        assert!((0..=1).contains(&times), "{kibibytes} KiB {times} times");
    }

    #[test]
    fn seconds_of_the_processor_are_seconds() {
        let cpu = || cpu_seconds().map(|(user, system)| user + system).unwrap();
        let (began, before) = (Instant::now(), cpu());
        while cpu() < before + 0.05 {
            std::hint::spin_loop();
        }
        // Of each second, every processor gives at most one.
        let processors = std::thread::available_parallelism().unwrap().get();
        let most = began.elapsed().as_secs_f64() * f64::from(u32::try_from(processors).unwrap());
        assert!(cpu() - before <= most + 0.1, "{} s in {most} s", cpu() - before);
    }
}
