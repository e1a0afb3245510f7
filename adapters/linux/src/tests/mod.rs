//! The Rust half on the host.

mod binding;
mod transfers;
mod words;
