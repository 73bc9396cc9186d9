//! The content of `qualitytrace demo`: a shop with real traces, a test suite for it, and bugs to catch.

mod examples;
mod shop;

pub(crate) use self::examples::EXAMPLES;
pub(crate) use self::shop::{Bug, Shop};
