//! The Rust half on the host.

mod binding;
mod errors;
mod harness;
mod header;
mod transfers;
mod words;
