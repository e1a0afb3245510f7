//! Interrupts: what the client wants signalled, and when it may be.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use vfio_bindings::bindings::vfio::{
    VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
};

use crate::protocol::{IrqAction, IrqData, SetIrqs};

/// Interrupt index of the pin.
pub(super) const INTX: u32 = VFIO_PCI_INTX_IRQ_INDEX;
/// Interrupt index of MSI.
pub(super) const MSI: u32 = VFIO_PCI_MSI_IRQ_INDEX;
/// Interrupt index of MSI-X.
pub(super) const MSIX: u32 = VFIO_PCI_MSIX_IRQ_INDEX;

#[derive(Clone, Debug, Default)]
struct Vector {
    event: Option<Arc<OwnedFd>>,
    masked: bool,
    /// It fired while it was masked or not connected.
    pending: bool,
}

#[derive(Debug)]
struct State {
    indexes: [Vec<Vector>; 3],
    /// What vectors no longer have, and what somebody was signalling when they lost it.
    busy: Vec<Arc<OwnedFd>>,
    /// Level of the pin.
    asserted: bool,
}

/// What came of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The client was signalled.
    Sent,
    /// It is remembered.
    Pending,
    /// There is no such vector.
    Nothing,
}

/// All vectors of the function.
#[derive(Debug)]
pub(super) struct Irqs(Mutex<State>);

impl Irqs {
    /// So many vectors: the pin, MSI, MSI-X.
    pub fn new(counts: [u32; 3]) -> Self {
        let indexes = counts.map(|count| vec![Vector::default(); count as usize]);
        Self(Mutex::new(State { indexes, busy: Vec::new(), asserted: false }))
    }

    /// Connects, masks, unmasks or triggers, and gives back how many interrupts of the device could be
    /// sent by that.
    ///
    /// # Errors
    /// What the client is told: `EINVAL` for vectors that do not exist, a number of descriptors that does
    /// not fit, or descriptors that are no eventfd; `EOPNOTSUPP` for masking by descriptor.
    pub fn set(&self, request: &SetIrqs<'_>, fds: Vec<OwnedFd>) -> Result<u64, Errno> {
        let (start, count) = (request.start as usize, request.count as usize);
        let mut state = self.lock();
        let State { indexes, busy, .. } = &mut *state;
        let all = usize::try_from(request.index).ok().and_then(|index| indexes.get_mut(index));
        let all = all.ok_or(Errno::INVAL)?;
        if request.action == IrqAction::Trigger && request.data == IrqData::None && count == 0 {
            all.iter_mut().for_each(|vector| vector.disconnect(busy));
            return Ok(0);
        }
        let vectors =
            all.get_mut(start..start + count).filter(|some| !some.is_empty()).ok_or(Errno::INVAL)?;
        if request.data == IrqData::EventFd {
            if request.action != IrqAction::Trigger {
                return Err(Errno::OPNOTSUPP);
            }
            connect(vectors, fds, busy)?;
        }
        let (mut due, mut tests) = (Vec::new(), Vec::new());
        for (at, vector) in vectors.iter_mut().enumerate() {
            match (request.action, request.data) {
                (_, IrqData::Bool(chosen)) if chosen.get(at).is_none_or(|byte| *byte == 0) => continue,
                (IrqAction::Mask, _) => vector.masked = true,
                (IrqAction::Unmask, _) => vector.masked = false,
                (IrqAction::Trigger, IrqData::EventFd) => {}
                // A test by the client: nothing is remembered.
                (IrqAction::Trigger, _) => tests.extend(vector.event.clone()),
            }
            if request.index != INTX && vector.pending {
                due.extend(vector.fire());
            }
        }
        if request.index == INTX {
            due.extend(state.level());
        }
        drop(state);
        tests.iter().chain(&due).for_each(signal);
        Ok(due.len() as u64)
    }

    /// Fires a vector of MSI or MSI-X, or remembers it.
    pub fn fire(&self, index: u32, vector: u16) -> Outcome {
        let mut state = self.lock();
        let Some(vector) = state.vector(index, vector) else { return Outcome::Nothing };
        vector.pending = true;
        let Some(event) = vector.fire() else { return Outcome::Pending };
        drop(state);
        signal(&event);
        Outcome::Sent
    }

    /// Remembers a vector of MSI-X that must wait.
    pub fn hold(&self, vector: u16) {
        if let Some(vector) = self.lock().vector(MSIX, vector) {
            vector.pending = true;
        }
    }

    /// Fires what waited and can be sent, and gives back how many that were.
    pub fn fire_pending(&self, index: u32) -> u64 {
        let mut state = self.lock();
        let all = state.indexes.get_mut(index as usize).into_iter().flatten();
        let due: Vec<_> = all.filter(|vector| vector.pending).filter_map(Vector::fire).collect();
        drop(state);
        due.iter().for_each(signal);
        due.len() as u64
    }

    /// Sets the level of the pin. True if the client was signalled: it is masked then, until the client
    /// unmasks it.
    pub fn set_intx(&self, asserted: bool) -> bool {
        let mut state = self.lock();
        state.asserted = asserted;
        let due = state.level();
        drop(state);
        due.iter().for_each(signal);
        due.is_some()
    }

    /// Whether the client connected this vector.
    pub fn is_connected(&self, index: u32, vector: u16) -> bool {
        self.lock().vector(index, vector).is_some_and(|vector| vector.event.is_some())
    }

    /// The pending bits of 32 vectors of MSI-X.
    pub fn pending_bits(&self, word: usize) -> u32 {
        let state = self.lock();
        let all = state.indexes[MSIX as usize].iter().skip(word * 32).take(32).enumerate();
        all.fold(0, |bits, (at, vector)| bits | u32::from(vector.pending) << at)
    }

    /// Forgets what waits: the function was reset. Connections stay.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.asserted = false;
        state.indexes.iter_mut().flatten().for_each(|vector| vector.pending = false);
    }

    /// Forgets everything: the client is gone.
    pub fn disconnect(&self) {
        let mut state = self.lock();
        state.asserted = false;
        let State { indexes, busy, .. } = &mut *state;
        indexes.iter_mut().flatten().for_each(|vector| vector.disconnect(busy));
    }

    /// Lets a signal go on that a client made block, by filling the counter after it had made the
    /// descriptor, which it shares with us, block again.
    pub fn unblock(&self) {
        let state = self.lock();
        let events = state.indexes.iter().flatten().filter_map(|vector| vector.event.as_ref());
        for event in events.chain(&state.busy) {
            if set_nonblocking(event).is_ok() {
                let _ = rustix::io::read(&**event, &mut [0; 8]);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn vector(&mut self, index: u32, vector: u16) -> Option<&mut Vector> {
        self.indexes.get_mut(index as usize)?.get_mut(usize::from(vector))
    }

    /// What is to be signalled for the pin now.
    fn level(&mut self) -> Option<Arc<OwnedFd>> {
        let asserted = self.asserted;
        let pin = self.vector(INTX, 0).filter(|pin| asserted && !pin.masked)?;
        let event = pin.event.clone()?;
        pin.masked = true;
        Some(event)
    }
}

impl Vector {
    fn disconnect(&mut self, busy: &mut Vec<Arc<OwnedFd>>) {
        self.replace(None, busy);
        *self = Self::default();
    }

    fn replace(&mut self, event: Option<Arc<OwnedFd>>, busy: &mut Vec<Arc<OwnedFd>>) {
        let old = std::mem::replace(&mut self.event, event);
        // Who signals has a clone, taken under the same lock.
        busy.retain(|event| Arc::strong_count(event) > 1);
        busy.extend(old.filter(|event| Arc::strong_count(event) > 1));
    }

    /// What is to be signalled; nothing waits then.
    fn fire(&mut self) -> Option<Arc<OwnedFd>> {
        let event = self.event.clone().filter(|_| !self.masked)?;
        self.pending = false;
        Some(event)
    }
}

/// One descriptor for each vector, or none at all.
fn connect(vectors: &mut [Vector], fds: Vec<OwnedFd>, busy: &mut Vec<Arc<OwnedFd>>) -> Result<(), Errno> {
    if fds.is_empty() {
        vectors.iter_mut().for_each(|vector| vector.replace(None, busy));
        return Ok(());
    }
    if fds.len() != vectors.len() || !fds.iter().all(is_eventfd) {
        return Err(Errno::INVAL);
    }
    fds.iter().try_for_each(set_nonblocking)?;
    for (vector, fd) in vectors.iter_mut().zip(fds) {
        vector.replace(Some(Arc::new(fd)), busy);
    }
    Ok(())
}

/// A pipe or a file would take our signals for data, or make us wait.
fn is_eventfd(fd: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventfd]")
}

/// A counter that is full must not make us wait; it is signalled already.
fn set_nonblocking(fd: impl std::os::fd::AsFd) -> Result<(), Errno> {
    let flags = fcntl_getfl(&fd)?;
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK)
}

fn signal(event: &Arc<OwnedFd>) {
    let _ = rustix::io::write(&**event, &1u64.to_ne_bytes());
}
