//! Processor and memory usage of processes and the machine, from /proc.

use std::fs;

use anyhow::{Context as _, Result};

/// Processor time used so far, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// By the system under test.
    pub(crate) subject: f64,
    /// By this generator.
    pub(crate) generator: f64,
    /// By everything on the machine, those two included.
    pub(crate) machine: f64,
}

impl Usage {
    pub(crate) fn read(subject: Option<u32>) -> Result<Self> {
        let subject = match subject {
            Some(pid) => process_seconds(&pid.to_string())?,
            None => 0.0,
        };
        Ok(Self { subject, generator: process_seconds("self")?, machine: machine_seconds()? })
    }
}

fn process_seconds(pid: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    // The name, in brackets, may contain blanks; the numbers come after it, the state first.
    let numbers = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<u32> =
        numbers.split_whitespace().skip(11).take(2).filter_map(|word| word.parse().ok()).collect();
    Ok(f64::from(ticks.iter().sum::<u32>()) / ticks_per_second()?)
}

/// User, nice, system, irq, softirq: not idle, not waiting, not stolen.
fn machine_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("failed to read /proc/stat")?;
    let ticks: Vec<f64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let busy = [0, 1, 2, 5, 6].into_iter().filter_map(|at| ticks.get(at)).sum::<f64>();
    Ok(busy / ticks_per_second()?)
}

fn ticks_per_second() -> Result<f64> {
    Ok(f64::from(u32::try_from(rustix::param::clock_ticks_per_second())?))
}

/// Resident memory of a process in MiB: now, and at its highest.
pub(crate) fn memory(pid: u32) -> Result<(f64, f64)> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    };
    Ok((mib("VmRSS:"), mib("VmHWM:")))
}
