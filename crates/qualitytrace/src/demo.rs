//! `qualitytrace demo`: a shop with real traces, a test suite for it, and bugs to be caught.

mod examples;
mod shop;
