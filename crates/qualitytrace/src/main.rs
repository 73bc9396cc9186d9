//! Trace-based testing in one binary.

#[cfg_attr(not(test), expect(dead_code, reason = "the demo command will start the shop"))]
mod demo;

fn main() {}
