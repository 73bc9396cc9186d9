//! Tests of the core through its public interface.

#![expect(clippy::disallowed_methods, reason = "tests read their cases from files")]

mod absence;
mod advice;
mod analyzer;
mod assist;
mod budget;
mod compare;
mod conventions;
mod deep;
mod definition;
mod dialect;
mod docs;
mod edit;
mod explain;
mod fixture;
mod import;
mod layout;
mod near;
mod odd_values;
mod properties;
mod reference;
mod selector_variables;
mod stack;
mod standing;
mod triggers;
mod vocabulary;
mod wait;
