//! Scenarios in which unmodified Linux drivers and kernels are the peer.
fn main() {}
