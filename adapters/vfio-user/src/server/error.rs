//! Why a model cannot be served.

use std::io;
use std::path::PathBuf;

use tombolo_sim::config::ConfigError;

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else serves at this path.
    #[error("{path}: another server listens there; choose another path or stop it", path = .0.display())]
    InUse(PathBuf),
    /// Something that is no socket has this name.
    #[error("{path}: there is something that is not a socket; choose another path", path = .0.display())]
    NoSocket(PathBuf),
    /// The socket cannot be made.
    #[error("{path}: cannot listen: {source}", path = .path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The model describes a function that cannot exist.
    #[error("the model describes an impossible function: {0}")]
    Config(#[from] ConfigError),
    /// The model says that a BAR is plain memory and does not give so much.
    #[error("the model has no {size:#x} bytes of memory for BAR {bar}")]
    NoMemory {
        /// Index of the BAR.
        bar: u8,
        /// Size of the BAR in bytes.
        size: u64,
    },
    /// A system call failed.
    #[error("a system call failed: {0}")]
    System(#[source] io::Error),
    /// A thread panicked, which is a bug of the model or of this crate.
    #[error("the {0} panicked; its message is on standard error")]
    Panicked(&'static str),
}
