//! What drivers cost: instructions and device accesses of a guest, counted.

pub mod counts;
#[cfg(target_os = "linux")]
mod edma;

#[cfg(target_os = "linux")]
pub use edma::edma;
