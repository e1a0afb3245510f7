//! Interrupts by eventfd.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK, VFIO_IRQ_SET_DATA_NONE,
    VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
};

use crate::messages::Messages;
use crate::regions::Core;
use crate::sysfs::Sysfs;
use crate::{Error, sys};

const MODES: [IrqMode; 3] = [IrqMode::MsiX, IrqMode::Msi, IrqMode::Intx];
/// How often a thread looks whether a message has changed.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(100);

fn index_of(mode: IrqMode) -> Option<u32> {
    match mode {
        IrqMode::MsiX => Some(VFIO_PCI_MSIX_IRQ_INDEX),
        IrqMode::Msi => Some(VFIO_PCI_MSI_IRQ_INDEX),
        IrqMode::Intx => Some(VFIO_PCI_INTX_IRQ_INDEX),
        IrqMode::Polling => None,
    }
}

/// Vectors of `mode` that the function has.
pub(crate) fn available(core: &Core, mode: IrqMode) -> u16 {
    let Some(index) = index_of(mode) else { return 0 };
    match sys::irq_info(core.file.as_fd(), index) {
        Ok(info) if info.flags & VFIO_IRQ_INFO_EVENTFD != 0 => u16::try_from(info.count).unwrap_or(u16::MAX),
        _ => 0,
    }
}

/// The vectors of an open device. Clones are the same vectors, the last one gives them back.
///
/// [`message`](IrqSource::message) tells MSI-X messages from the mapped table, and MSI messages from
/// sysfs if this process may read there (root): VFIO itself hides both. `None` otherwise, so that a
/// driver polls, and says so.
#[derive(Clone, Debug)]
pub struct VfioIrq(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    mode: IrqMode,
    fds: Vec<OwnedFd>,
    fired: Vec<AtomicU64>,
    messages: Messages,
}

impl VfioIrq {
    pub(crate) fn new(core: &Arc<Core>, sysfs: &Sysfs, mode: IrqMode, want: u16) -> Result<Self, Error> {
        let count = available(core, mode).min(want);
        if count == 0 && mode != IrqMode::Polling {
            let others = MODES.into_iter().map(|mode| (mode, available(core, mode)));
            return Err(Error::NoVectors {
                mode,
                available: others.filter(|(_, count)| *count != 0).collect(),
            });
        }
        let eventfd = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let fds: io::Result<Vec<_>> = (0..count).map(|_| Ok(eventfd()?)).collect();
        let mut inner = Inner {
            core: core.clone(),
            mode,
            fds: fds.map_err(|source| Error::Call { call: "eventfd", source })?,
            fired: (0..count).map(|_| AtomicU64::new(0)).collect(),
            messages: Messages::find(core, sysfs, mode, count)?,
        };
        // The machine may have fewer vectors to give than the function has.
        if let Some(fewer) = inner.enable()? {
            inner.keep(fewer, sysfs)?;
            if inner.enable()?.is_some() {
                return Err(Error::NoVectors { mode, available: Vec::new() });
            }
        }
        inner.messages.look();
        Ok(Self(Arc::new(inner)))
    }

    /// Programs the function's vectors again, after a reset.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn restore(&self) -> Result<(), Error> {
        if self.0.enable()?.is_some() {
            return Err(Error::NoVectors { mode: self.0.mode, available: Vec::new() });
        }
        self.look_for_new_messages();
        Ok(())
    }

    /// Interrupts that arrived so far: of `vector`.
    pub fn fired(&self, vector: u16) -> u64 {
        self.0.fired.get(usize::from(vector)).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Interrupts that arrived so far, of all vectors.
    pub fn fired_in_all(&self) -> u64 {
        self.0.fired.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Reads the messages again, which costs three reads of the device for each vector of MSI-X.
    /// [`message_epoch`](IrqSource::message_epoch) changes if one has. They do when an interrupt moves
    /// to another CPU and the IOMMU does not remap interrupts. A [thread](Self::spawn) does so by
    /// itself, ten times a second.
    pub fn look_for_new_messages(&self) {
        self.0.messages.look();
    }

    /// Waits until a vector fires, for `limit` at most, and calls `handler` with each that has. Returns
    /// whether one had.
    ///
    /// # Errors
    /// If the wait fails; not if a signal ends it.
    pub fn wait(&self, limit: Duration, handler: &mut dyn FnMut(u16)) -> io::Result<bool> {
        self.0.wait(limit, None, handler)
    }

    /// Calls `handler` on a thread of its own whenever a vector fires, until the value is dropped.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn spawn(&self, handler: impl Fn(u16) + Send + 'static) -> io::Result<IrqThread> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (inner, stopped) = (self.0.clone(), stop.clone());
        let name = format!("irq {}", inner.core.address);
        let work = move || run(&inner, stopped.as_fd(), &handler);
        let thread = std::thread::Builder::new().name(name).spawn(work)?;
        Ok(IrqThread { stop, thread: Some(thread) })
    }
}

fn run(inner: &Inner, stop: BorrowedFd<'_>, handler: &dyn Fn(u16)) {
    let mut fired = |vector| handler(vector);
    while !is_signalled(stop) {
        match inner.wait(MESSAGE_INTERVAL, Some(stop), &mut fired) {
            Ok(_) => inner.messages.look_now_and_then(MESSAGE_INTERVAL),
            Err(error) => {
                log::error!("{}: no more interrupts: {error}", inner.core.address);
                return;
            }
        }
    }
}

impl Inner {
    /// Programs the vectors; if the machine has fewer to give, nothing is done, and it says how many.
    fn enable(&self) -> Result<Option<usize>, Error> {
        let Some(index) = index_of(self.mode) else { return Ok(None) };
        let fds: Vec<_> = self.fds.iter().map(AsFd::as_fd).collect();
        let fewer = sys::set_irqs(self.core.file.as_fd(), index, VFIO_IRQ_SET_ACTION_TRIGGER, &fds)
            .map_err(|source| Error::Call { call: "VFIO_DEVICE_SET_IRQS", source })?;
        Ok((fewer != 0).then_some(fewer))
    }

    /// Does with fewer vectors.
    fn keep(&mut self, count: usize, sysfs: &Sysfs) -> Result<(), Error> {
        log::info!("{}: {count} of {} {} vectors", self.core.address, self.fds.len(), self.mode);
        self.fds.truncate(count);
        self.fired.truncate(count);
        self.messages = Messages::find(&self.core, sysfs, self.mode, self.fds.len() as u16)?;
        Ok(())
    }

    fn wait(
        &self,
        limit: Duration,
        stop: Option<BorrowedFd<'_>>,
        handler: &mut dyn FnMut(u16),
    ) -> io::Result<bool> {
        let all = self.fds.iter().map(AsFd::as_fd).chain(stop);
        let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let limit = Timespec::try_from(limit).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        match poll(&mut fds, Some(&limit)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut any = false;
        for ((vector, fd), _) in (0..).zip(&self.fds).zip(ready).filter(|(_, ready)| *ready) {
            let count = take(fd.as_fd());
            if count == 0 {
                continue;
            }
            any = true;
            if let Some(fired) = self.fired.get(usize::from(vector)) {
                fired.fetch_add(count, Ordering::Relaxed);
            }
            handler(vector);
            if self.mode == IrqMode::Intx {
                self.unmask();
            }
        }
        Ok(any)
    }

    /// VFIO masks the pin when it fires; now that the handler is through it may fire again.
    fn unmask(&self) {
        let flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK;
        let done =
            sys::set_irqs_raw(self.core.file.as_fd(), VFIO_PCI_INTX_IRQ_INDEX, flags, 1, std::iter::empty());
        if let Err(error) = done {
            log::warn!("{}: INTx stays masked: {error}", self.core.address);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(index) = index_of(self.mode) else { return };
        let flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
        // No vectors: switches them off. A device that is gone has none.
        if let Err(error) = sys::set_irqs_raw(self.core.file.as_fd(), index, flags, 0, std::iter::empty()) {
            log::debug!("{}: switching {} off: {error}", self.core.address, self.mode);
        }
    }
}

/// Takes what an eventfd has counted.
fn take(fd: BorrowedFd<'_>) -> u64 {
    let mut bytes = [0; 8];
    match rustix::io::read(fd, &mut bytes) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => 0,
    }
}

fn is_signalled(fd: BorrowedFd<'_>) -> bool {
    take(fd) != 0
}

impl IrqSource for VfioIrq {
    fn mode(&self) -> IrqMode {
        self.0.mode
    }

    fn vectors(&self) -> u16 {
        self.0.fds.len() as u16
    }

    fn message(&self, vector: u16) -> Option<MsiMessage> {
        self.0.messages.get(vector)
    }

    fn message_epoch(&self) -> u32 {
        self.0.messages.epoch()
    }
}

/// A thread that calls a handler. Dropping it ends the thread, after the handler has returned.
#[derive(Debug)]
pub struct IrqThread {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for IrqThread {
    fn drop(&mut self) {
        // An eventfd that is full is signalled, too.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let Some(thread) = self.thread.take() else { return };
        // A handler may drop what holds the thread.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            log::error!("an interrupt handler panicked");
        }
    }
}
