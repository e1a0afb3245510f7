//! DMA memory from one bounded region.
//!
//! [`DmaPool`] gives hal's `Coherent` and `Streaming` memory without an operating system:
//! no paging, no IOMMU, a constant distance between the CPU's addresses and the devices'.

mod buffer;
mod cache;
mod error;
mod pool;
mod table;
#[cfg(test)]
mod tests;

pub use buffer::DmaBuffer;
pub use cache::{CacheMaintenance, Coherent};
pub use error::DmaError;
pub use pool::{DmaPool, DmaRegion};
