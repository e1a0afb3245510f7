//! Interrupts: eventfds that the server signals, and messages that it writes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use tombolo_hal::irq::{IrqMode, IrqSource, MsiMessage};
use tombolo_hal::pci::{MsiInfo, MsixInfo};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
};

use super::bar::Config;
use super::core::Core;
use super::error::Error;
use super::machine::{msi_message, msix_message};
use crate::protocol::{IrqAction, IrqData, MAX_FDS, SetIrqs};

/// Descriptors of one message.
const AT_ONCE: usize = if MAX_FDS < 8 { MAX_FDS } else { 8 };

fn index_of(mode: IrqMode) -> Option<u32> {
    match mode {
        IrqMode::MsiX => Some(VFIO_PCI_MSIX_IRQ_INDEX),
        IrqMode::Msi => Some(VFIO_PCI_MSI_IRQ_INDEX),
        IrqMode::Intx => Some(VFIO_PCI_INTX_IRQ_INDEX),
        IrqMode::Polling => None,
    }
}

/// Vectors of `mode` that the function has.
pub(super) fn available(core: &Core, mode: IrqMode) -> u16 {
    let info = index_of(mode).and_then(|index| core.irqs.get(index as usize));
    let info = info.filter(|info| info.flags & VFIO_IRQ_INFO_EVENTFD != 0);
    info.map_or(0, |info| u16::try_from(info.count).unwrap_or(u16::MAX))
}

/// The vectors of an open device. Clones are the same vectors, the last one gives them back.
///
/// [`message`](IrqSource::message) tells an address in a window to which the server writes for an engine
/// that sends its own interrupts. Messages never change.
#[derive(Clone, Debug)]
pub struct ClientIrq(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    mode: IrqMode,
    events: Arc<Vec<OwnedFd>>,
    fired: Vec<AtomicU64>,
}

impl ClientIrq {
    pub(super) fn new(core: &Arc<Core>, mode: IrqMode, want: u16) -> Result<Self, Error> {
        let mut count = available(core, mode).min(want);
        if mode == IrqMode::Msi && count != 0 {
            // MSI comes in powers of two.
            count = 1 << count.ilog2();
        }
        if count == 0 && mode != IrqMode::Polling {
            return Err(Error::NoVectors(mode));
        }
        let new = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let events: Result<Vec<_>, Errno> = (0..count).map(|_| new()).collect();
        let events = events.map_err(|error| Error::System { call: "eventfd", source: error.into() })?;
        let inner = Inner {
            core: core.clone(),
            mode,
            events: Arc::new(events),
            fired: (0..count).map(|_| AtomicU64::new(0)).collect(),
        };
        let irq = Self(Arc::new(inner));
        irq.listen();
        irq.restore()?;
        Ok(irq)
    }

    /// Programs the function's vectors again, after a reset.
    ///
    /// # Errors
    /// [`Error`] if the server or the function refuses.
    pub fn restore(&self) -> Result<(), Error> {
        self.0.connect()?;
        self.0.enable(true)
    }

    /// Turns messages that arrive into signals of their vectors.
    fn listen(&self) {
        if self.0.mode == IrqMode::Polling {
            return;
        }
        let (events, mode) = (self.0.events.clone(), self.0.mode);
        let listener = move |data| {
            let vector = (0..events.len())
                .find(|vector| message(mode, *vector as u16).is_some_and(|m| m.data == data));
            match vector.and_then(|vector| events.get(vector)) {
                Some(event) => signal(event),
                None => log::debug!("a message with data {data:#x} is no vector's"),
            }
        };
        self.0.core.connection.machine.listen(Some(Arc::new(listener)));
    }

    /// Interrupts that arrived so far: of `vector`.
    pub fn fired(&self, vector: u16) -> u64 {
        self.0.fired.get(usize::from(vector)).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Interrupts that arrived so far, of all vectors.
    pub fn fired_in_all(&self) -> u64 {
        self.0.fired.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Waits until a vector fires, for `limit` at most, and calls `handler` with each that has. Returns
    /// whether one had. A server that is gone sends nothing.
    ///
    /// # Errors
    /// If the wait fails; not if a signal ends it.
    pub fn wait(&self, limit: Duration, handler: &mut dyn FnMut(u16)) -> io::Result<bool> {
        self.0.wait(Some(limit), None, handler)
    }

    /// Calls `handler` on a thread of its own whenever a vector fires, until the value is dropped.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn spawn(&self, handler: impl Fn(u16) + Send + 'static) -> io::Result<IrqThread> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (inner, stopped) = (self.0.clone(), stop.clone());
        let work = move || {
            let mut call = |vector| handler(vector);
            while take(stopped.as_fd()) == 0 {
                if let Err(error) = inner.wait(None, Some(stopped.as_fd()), &mut call) {
                    return log::error!("no more interrupts: {error}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("vfio-user irq".into()).spawn(work)?;
        Ok(IrqThread { stop, thread: Some(thread) })
    }
}

/// The message of a vector.
fn message(mode: IrqMode, vector: u16) -> Option<MsiMessage> {
    match mode {
        IrqMode::MsiX => Some(msix_message(vector)),
        IrqMode::Msi => Some(msi_message(vector)),
        IrqMode::Intx | IrqMode::Polling => None,
    }
}

impl Inner {
    /// Tells the server what to signal.
    fn connect(&self) -> Result<(), Error> {
        let Some(index) = index_of(self.mode) else { return Ok(()) };
        for (at, events) in self.events.chunks(AT_ONCE).enumerate() {
            let request = SetIrqs {
                action: IrqAction::Trigger,
                data: IrqData::EventFd,
                index,
                start: (at * AT_ONCE) as u32,
                count: events.len() as u32,
            };
            let fds: Vec<_> = events.iter().map(AsFd::as_fd).collect();
            self.core.set_irqs(&request, &fds)?;
        }
        Ok(())
    }

    /// Switches the capability on or off.
    fn enable(&self, on: bool) -> Result<(), Error> {
        let config = Config(self.core.clone());
        match self.mode {
            IrqMode::MsiX => {
                let msix = MsixInfo::read(&config)?.ok_or(Error::NoVectors(self.mode))?;
                msix.set_masked(&config, false)?;
                msix.set_enabled(&config, on)?;
            }
            IrqMode::Msi => {
                let msi = MsiInfo::read(&config)?.ok_or(Error::NoVectors(self.mode))?;
                if on {
                    msi.program(&config, msi_message(0), self.events.len() as u16)?;
                }
                msi.set_enabled(&config, on)?;
            }
            IrqMode::Intx | IrqMode::Polling => {}
        }
        Ok(())
    }

    fn wait(
        &self,
        limit: Option<Duration>,
        stop: Option<BorrowedFd<'_>>,
        handler: &mut dyn FnMut(u16),
    ) -> io::Result<bool> {
        let all = self.events.iter().map(AsFd::as_fd).chain(stop);
        let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        match poll(&mut fds, limit.as_ref()) {
            Err(Errno::INTR) => return Ok(false),
            result => result?,
        };
        let mut any = false;
        for (vector, fired) in (0u16..).zip(&self.fired) {
            let count = self.events.get(usize::from(vector)).map_or(0, |event| take(event.as_fd()));
            if count != 0 {
                fired.fetch_add(count, Ordering::Relaxed);
                handler(vector);
                any = true;
            }
        }
        if any && self.mode == IrqMode::Intx {
            self.unmask();
        }
        Ok(any)
    }

    /// The pin is masked when it fires; now that the handler is through it may fire again.
    fn unmask(&self) {
        let request = SetIrqs {
            action: IrqAction::Unmask,
            data: IrqData::None,
            index: VFIO_PCI_INTX_IRQ_INDEX,
            start: 0,
            count: 1,
        };
        if let Err(error) = self.core.set_irqs(&request, &[]) {
            log::warn!("INTx stays masked: {error}");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(index) = index_of(self.mode) else { return };
        if self.core.is_gone() {
            return;
        }
        self.core.connection.machine.listen(None);
        let _ = self.enable(false);
        let request = SetIrqs { action: IrqAction::Trigger, data: IrqData::None, index, start: 0, count: 0 };
        if let Err(error) = self.core.set_irqs(&request, &[]) {
            log::debug!("switching {} off: {error}", self.mode);
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

fn signal(event: &OwnedFd) {
    // One that is full is signalled, too.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

impl IrqSource for ClientIrq {
    fn mode(&self) -> IrqMode {
        self.0.mode
    }

    fn vectors(&self) -> u16 {
        self.0.events.len() as u16
    }

    fn message(&self, vector: u16) -> Option<MsiMessage> {
        if vector < self.vectors() { message(self.0.mode, vector) } else { None }
    }

    fn message_epoch(&self) -> u32 {
        0
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
        signal(&self.stop);
        let Some(thread) = self.thread.take() else { return };
        // A handler may drop what holds the thread.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            log::error!("an interrupt handler panicked");
        }
    }
}
