//! SIGBUS on a mapping that the kernel took away, turned into "gone".
//!
//! vfio-pci takes a BAR's mapping away while the function's memory is off: during a reset, after
//! somebody cleared the memory bit, after an error of the link. An access then raises SIGBUS. The
//! handler finds the address in a table, says in the device's flag that it is gone, and puts ordinary
//! memory in the mapping's place, so that the access goes on. Whoever reads looks at the flag before
//! and *after* the load, and takes all ones for what was read: what the memory holds does not matter.
//!
//! The handler uses system calls and atomics in static storage only. Faults at other addresses go to
//! the handler that was there before, or end the process as they would have.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use crate::error::Error;

/// Devices that can be open at once.
const DEVICES: usize = 64;
/// Mappings that can exist at once.
const MAPPINGS: usize = 512;

/// Whether a device is there. `state` is even while it is and odd while it is gone, and never returns to
/// an earlier value: who reads compares it before and after, so that what was read of a mapping that
/// was lost is not taken for the device's, even if the device has come back meanwhile.
#[derive(Debug)]
struct Flag {
    taken: AtomicBool,
    state: AtomicUsize,
}

impl Flag {
    fn set(&self) {
        // Odd stays odd.
        self.state.fetch_or(1, Ordering::SeqCst);
    }
}

/// A mapping that may be taken away. `len` is 0 while the slot is free.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    flag: AtomicUsize,
    replaced: AtomicBool,
}

static FLAGS: [Flag; DEVICES] =
    [const { Flag { taken: AtomicBool::new(false), state: AtomicUsize::new(0) } }; DEVICES];
static SLOTS: [Slot; MAPPINGS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        flag: AtomicUsize::new(0),
        replaced: AtomicBool::new(false),
    }
}; MAPPINGS];
/// Whether the handler is there; held while slots change hands.
static INSTALLED: Mutex<bool> = Mutex::new(false);
static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

/// What handled SIGBUS before.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before the handler that reads it is installed.
unsafe impl Sync for Previous {}

/// Whether a device is gone, for all who access it.
#[derive(Debug)]
pub(crate) struct Gone(usize);

impl Gone {
    /// The flag of a device that is there.
    pub fn new() -> Result<Self, Error> {
        let free = FLAGS.iter().position(|flag| !flag.taken.swap(true, Ordering::AcqRel));
        let gone = Self(free.ok_or(Error::TooMany(DEVICES))?);
        gone.clear();
        Ok(gone)
    }

    fn flag(&self) -> &'static Flag {
        &FLAGS[self.0]
    }

    /// Whether it is gone.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.state() & 1 != 0
    }

    /// The state before an access.
    #[inline(always)]
    pub fn state(&self) -> usize {
        self.flag().state.load(Ordering::Acquire)
    }

    /// Whether the device was there all the time since `before`: only then what was read is its own.
    #[inline(always)]
    pub fn was_there(&self, before: usize) -> bool {
        // The load of the device's word comes before that of the state.
        fence(Ordering::Acquire);
        before & 1 == 0 && self.flag().state.load(Ordering::Relaxed) == before
    }

    /// The device is gone.
    pub fn set(&self) {
        self.flag().set();
    }

    /// It is back.
    pub fn clear(&self) {
        let next = |state: usize| (state & 1 != 0).then(|| state.wrapping_add(1));
        // Fails if it is there.
        let _ = self.flag().state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        FLAGS[self.0].taken.store(false, Ordering::Release);
    }
}

/// A mapping under watch.
#[derive(Debug)]
pub(crate) struct Watched(&'static Slot);

impl Watched {
    /// Watches `len` bytes at `start`, whole pages that are mapped for as long as the value lives.
    pub fn new(start: NonNull<u8>, len: usize, gone: &Gone) -> Result<Self, Error> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*installed {
            install().map_err(|source| Error::Call { call: "sigaction", source })?;
            *installed = true;
        }
        let slot = SLOTS.iter().find(|slot| slot.len.load(Ordering::Relaxed) == 0);
        let slot = slot.ok_or(Error::TooMany(MAPPINGS))?;
        slot.start.store(start.as_ptr().addr(), Ordering::Relaxed);
        slot.flag.store(gone.0, Ordering::Relaxed);
        slot.replaced.store(false, Ordering::Relaxed);
        slot.len.store(len, Ordering::Release);
        Ok(Self(slot))
    }

    /// Whether ordinary memory stands in its place, which is forgotten by asking.
    pub fn take_replaced(&self) -> bool {
        self.0.replaced.swap(false, Ordering::AcqRel)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _held = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.len.store(0, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    let check = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: asks only; called once, under the lock, before the handler that reads PREVIOUS exists.
    check(unsafe { libc::sigaction(libc::SIGBUS, null_mut(), (*PREVIOUS.0.get()).as_mut_ptr()) })?;
    // SAFETY: all zeroes is a `sigaction`: no flags, no handler.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
    action.sa_sigaction = handler as libc::sighandler_t;
    // On the alternate stack, where there is one.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: a valid set; the handler keeps to what a signal handler may do.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    // SAFETY: as above.
    check(unsafe { libc::sigaction(libc::SIGBUS, &action, null_mut()) })
}

extern "C" fn on_sigbus(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid `siginfo_t`.
    let (address, code) = unsafe { ((*info).si_addr().addr(), (*info).si_code) };
    // Not one that somebody sent with `kill`.
    if code > 0 && replace(address) {
        return;
    }
    // SAFETY: forwarded as it came.
    unsafe { forward(signal, info, context, code <= 0) }
}

/// Puts ordinary memory in place of the mapping that holds `address`. False if there is none.
fn replace(address: usize) -> bool {
    let holds = |slot: &&Slot| {
        let len = slot.len.load(Ordering::Acquire);
        address.wrapping_sub(slot.start.load(Ordering::Relaxed)) < len
    };
    let Some(slot) = SLOTS.iter().find(holds) else { return false };
    if let Some(flag) = FLAGS.get(slot.flag.load(Ordering::Relaxed)) {
        flag.set();
    }
    slot.replaced.store(true, Ordering::SeqCst);
    let (start, len) = (slot.start.load(Ordering::Relaxed), slot.len.load(Ordering::Relaxed));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: where the thread's errno is.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; the interrupted code may be about to read it.
    let saved = unsafe { *errno };
    // SAFETY: replaces a mapping that is ours: the slot is in use for as long as it exists, and it exists
    // because it is being accessed.
    let place = unsafe {
        libc::mmap(
            std::ptr::without_provenance_mut(start),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    // SAFETY: as above.
    unsafe { *errno = saved };
    place != libc::MAP_FAILED
}

/// What would have happened without us.
///
/// # Safety
/// The arguments are those of a handler; called from one, after `install`.
unsafe fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void, sent: bool) {
    // SAFETY: `install` wrote it before the handler could run.
    let previous = unsafe { (*PREVIOUS.0.get()).assume_init_ref() };
    match previous.sa_sigaction {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access is made again and ends the process; a signal that was sent is sent again.
            // SAFETY: both are allowed in a handler.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if sent {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: that is the type of a handler with SA_SIGINFO.
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: that is the type of a handler without SA_SIGINFO.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
