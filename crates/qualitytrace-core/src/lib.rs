#![doc = include_str!("../README.md")]

pub mod analyzer;
pub mod assist;
pub mod budget;
pub mod compare;
pub mod definition;
pub mod explain;
pub mod gates;
pub mod id;
pub mod import;
mod json;
pub mod judge;
pub mod lang;
pub mod names;
mod number;
pub mod run;
pub mod series;
pub mod suite;
pub mod time;
pub mod trace;
pub mod value;
pub mod wait;
