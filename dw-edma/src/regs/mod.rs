//! The register maps.
//!
//! Source: Linux 7.3 `drivers/dma/dw-edma/dw-edma-v0-regs.h` and `dw-hdma-v0-regs.h` (offsets as the
//! compiler lays the structures out; the comments there are wrong in places) and the bit names that
//! public vendor headers for the same cores use.

pub mod hdma;
pub mod v0;
