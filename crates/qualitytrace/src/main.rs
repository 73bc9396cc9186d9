//! Trace-based testing in one binary.

fn main() {}
