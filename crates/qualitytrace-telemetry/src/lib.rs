//! How a server watches itself.
