#![doc = include_str!("../README.md")]

pub mod analyzer;
pub mod definition;
pub mod id;
pub mod judge;
pub mod lang;
pub mod names;
pub mod run;
pub mod series;
pub mod suite;
pub mod time;
pub mod trace;
pub mod value;
pub mod wait;
