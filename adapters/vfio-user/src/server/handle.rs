//! Handles of a server that runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use super::Error;
use super::counters::Counters;
use super::shared::Shared;

/// A handle of a server: clones are the same server. It does not keep the server running.
#[derive(Clone)]
pub struct ServerHandle(pub(super) Arc<Shared>);

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerHandle").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// The model's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Ends the server, whatever it waits for; [`Running::join`] returns soon. Its client is
    /// disconnected, which a QEMU of version 11.1 does not survive if its guest uses MSI-X: shut guests
    /// down first, or [`remove`](Self::remove) the device.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Whether a client is connected.
    pub fn is_connected(&self) -> bool {
        self.0.link.is_connected()
    }

    /// How many clients came so far.
    pub fn clients(&self) -> u64 {
        self.0.counters.clients.load(Ordering::Relaxed)
    }

    /// Maps of the client's memory at the moment.
    pub fn maps(&self) -> usize {
        self.0.memory.count()
    }

    /// Pulls the device out (`true`): all reads give all ones, writes vanish, DMA, events and interrupts
    /// stop. `false` plugs it in again, as after a reset. What is mapped into the guest stays readable.
    pub fn remove(&self, removed: bool) {
        self.0.set_removed(removed);
    }

    /// Loses the next `count` interrupts: of vectors, and messages that the engine writes.
    pub fn lose_interrupts(&self, count: u64) {
        self.0.lose_interrupts(count);
    }

    /// Calls [`Device::event`](tombolo_sim::device::Device::event) with `token`, on this server's worker
    /// and soon. From any thread, also from another server's model: that is how two devices tell each
    /// other something. An event from before a reset does not come after it.
    ///
    /// False if too many events are waiting already, or the server has stopped.
    pub fn post_event(&self, token: u64) -> bool {
        self.0.post(0, token)
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.0.counters.read()
    }
}

/// A server that runs on threads of its own. Dropping it stops it and waits.
#[derive(Debug)]
pub struct Running {
    pub(super) handle: ServerHandle,
    pub(super) dispatcher: Option<JoinHandle<io::Result<()>>>,
    pub(super) worker: Option<JoinHandle<()>>,
}

impl Running {
    /// A handle.
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Waits until the server has stopped; its socket is then gone.
    ///
    /// # Errors
    /// [`Error`] if it ended for another reason than [`ServerHandle::stop`].
    pub fn join(mut self) -> Result<(), Error> {
        self.wait()
    }

    fn wait(&mut self) -> Result<(), Error> {
        let dispatcher = self.dispatcher.take().map(JoinHandle::join);
        // The dispatcher has stopped the worker, whatever ended it.
        let worker = self.worker.take().map(JoinHandle::join);
        match (dispatcher, worker) {
            (Some(Err(_)), _) => Err(Error::Panicked("dispatcher")),
            (_, Some(Err(_))) => Err(Error::Panicked("worker")),
            (Some(Ok(result)), _) => result.map_err(Error::System),
            (None, _) => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.dispatcher.is_some() {
            self.handle.stop();
            if let Err(error) = self.wait() {
                log::error!("{}: {error}", self.handle.name());
            }
        }
    }
}
