//! Finding functions and numbering buses.

use arrayvec::ArrayVec;
use tombolo_hal::mmio::MmioNarrow;
use tombolo_hal::pci::regs::HeaderType;
use tombolo_hal::pci::{BAR_COUNT, BarInfo, ConfigSpace, Identity, PciError, size_bar};

use super::bridge;
use super::{Bdf, Ecam, Fault, FaultKind};

/// Faults that are kept; further ones are counted.
const MAX_FAULTS: usize = 32;
/// Buses inside each other: there are no more bus numbers.
const MAX_DEPTH: usize = 256;

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FunctionKind {
    /// An end of the line.
    Endpoint,
    /// A bridge, with the numbers of the buses behind it.
    Bridge {
        /// The bus right behind it.
        secondary: u8,
        /// The highest bus behind it.
        subordinate: u8,
        /// Its prefetchable window has 64 address bits.
        prefetch_64: bool,
    },
    /// A bridge that cannot be used, or a header of a layout that is not known.
    Other,
}

/// A function that was found.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Function {
    /// Where it is.
    pub address: Bdf,
    /// Who it says it is.
    pub identity: Identity,
    /// What it is.
    pub kind: FunctionKind,
    /// The bridge that it is behind, as an index into [`PciTree::functions`]; `None` on the first bus.
    pub parent: Option<usize>,
    /// Its base address registers. After [`PciTree::assign`] their addresses are right; 0 for none.
    pub bars: [Option<BarInfo>; BAR_COUNT],
}

impl Function {
    /// Whether every memory register has an address, so that memory may be enabled.
    pub fn is_assigned(&self) -> bool {
        self.bars.iter().flatten().all(|bar| !bar.is_memory() || bar.address != 0)
    }
}

/// All functions behind one host bridge, at most `N`: a bridge before what is behind it.
#[derive(Debug, Default)]
pub struct PciTree<const N: usize> {
    pub(super) functions: ArrayVec<Function, N>,
    faults: ArrayVec<Fault, MAX_FAULTS>,
    more_faults: u32,
}

/// A bus that is being looked at.
struct Level {
    bridge: Option<usize>,
    bus: u8,
    next: u16,
    one_device: bool,
    multi_function: bool,
}

impl<const N: usize> PciTree<N> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { functions: ArrayVec::new_const(), faults: ArrayVec::new_const(), more_faults: 0 }
    }

    /// What was found.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// What was wrong, and how many further faults there was no room for.
    pub fn faults(&self) -> (&[Fault], u32) {
        (&self.faults, self.more_faults)
    }

    pub(super) fn fault(&mut self, at: Bdf, kind: impl Into<FaultKind>) {
        if self.faults.try_push(Fault { at, kind: kind.into() }).is_err() {
            self.more_faults = self.more_faults.saturating_add(1);
        }
    }

    /// Looks at every place where a function can be, numbers the buses behind bridges anew and sizes
    /// base address registers. Forgets what it knew before.
    ///
    /// Nothing must use a device meanwhile: decoding is switched off while registers are sized, and
    /// bridges come out of it with their windows closed.
    pub fn scan<M: MmioNarrow + Clone>(&mut self, ecam: &Ecam<M>) {
        *self = Self::new();
        let mut levels = ArrayVec::<Level, MAX_DEPTH>::new();
        let mut last_bus = ecam.first_bus();
        levels.push(Level::new(None, last_bus, false));
        while let Some(level) = levels.last_mut() {
            let Some(at) = level.next_place() else {
                self.leave(ecam, level.bridge, last_bus);
                levels.pop();
                continue;
            };
            let Some(found) = self.look(ecam, level, at) else { continue };
            let Some(index) = self.add(at, found, level.bridge) else { return };
            if found.header_type.layout() != HeaderType::BRIDGE {
                continue;
            }
            if let Some(below) = self.enter(ecam, index, &mut last_bus) {
                // Each level has a bus number of its own, so there is room.
                levels.push(below);
            }
        }
    }

    fn look<M: MmioNarrow + Clone>(
        &mut self,
        ecam: &Ecam<M>,
        level: &mut Level,
        at: Bdf,
    ) -> Option<Identity> {
        match Identity::read(&ecam.function(at)) {
            Ok(identity) => {
                if at.function() == 0 {
                    level.multi_function = identity.header_type.multi_function();
                }
                Some(identity)
            }
            Err(PciError::Absent { .. }) => None,
            Err(error) => {
                self.fault(at, error);
                None
            }
        }
    }

    fn add(&mut self, address: Bdf, identity: Identity, parent: Option<usize>) -> Option<usize> {
        let index = self.functions.len();
        let kind = match identity.header_type.layout() {
            HeaderType::NORMAL => FunctionKind::Endpoint,
            _ => FunctionKind::Other,
        };
        let function = Function { address, identity, kind, parent, bars: [None; BAR_COUNT] };
        if self.functions.try_push(function).is_err() {
            self.fault(address, FaultKind::TooManyFunctions { limit: N });
            return None;
        }
        Some(index)
    }

    /// Numbers the bus behind a bridge. `None` if there is no way in.
    fn enter<M: MmioNarrow + Clone>(
        &mut self,
        ecam: &Ecam<M>,
        index: usize,
        last_bus: &mut u8,
    ) -> Option<Level> {
        let at = self.functions.get(index)?.address;
        let cfg = ecam.function(at);
        let prefetch_64 = bridge::close(&cfg).map_err(|error| self.fault(at, error)).ok()?;
        let last = ecam.last_bus();
        let Some(secondary) = last_bus.checked_add(1).filter(|bus| *bus <= last) else {
            self.fault(at, FaultKind::NoBusLeft { last });
            return None;
        };
        // Until it is known how far they go, all higher numbers are behind this bridge.
        if !bridge::set_buses(&cfg, at.bus(), secondary, last) {
            self.fault(at, FaultKind::BusNumbers { primary: at.bus(), secondary });
            return None;
        }
        *last_bus = secondary;
        let one_device = bridge::has_one_device_below(&cfg).unwrap_or_else(|error| {
            self.fault(at, error);
            false
        });
        if let Some(function) = self.functions.get_mut(index) {
            function.kind = FunctionKind::Bridge { secondary, subordinate: secondary, prefetch_64 };
        }
        Some(Level::new(Some(index), secondary, one_device))
    }

    /// All buses behind a bridge are numbered. The registers of what is on its bus are sized only now,
    /// so that a device that answers oddly while it is sized cannot hide others.
    fn leave<M: MmioNarrow + Clone>(&mut self, ecam: &Ecam<M>, bridge: Option<usize>, last_bus: u8) {
        for index in 0..self.functions.len() {
            self.size_bars(ecam, bridge, index);
        }
        let Some(function) = bridge.and_then(|index| self.functions.get_mut(index)) else { return };
        let at = function.address;
        let FunctionKind::Bridge { secondary, subordinate, .. } = &mut function.kind else { return };
        *subordinate = last_bus;
        if !bridge::set_buses(&ecam.function(at), at.bus(), *secondary, last_bus) {
            self.fault(at, FaultKind::BusNumbers { primary: at.bus(), secondary: last_bus });
        }
    }

    fn size_bars<M: MmioNarrow + Clone>(&mut self, ecam: &Ecam<M>, parent: Option<usize>, index: usize) {
        let Some(function) = self.functions.get(index).filter(|f| f.parent == parent) else { return };
        let at = function.address;
        let count = match function.identity.header_type.layout() {
            HeaderType::NORMAL => BAR_COUNT as u8,
            HeaderType::BRIDGE => 2,
            _ => 0,
        };
        let cfg = ecam.function(at);
        for bar in 0..count {
            match size_bar_or_none(&cfg, bar) {
                Ok(found) => {
                    let slots = self.functions.get_mut(index).map(|f| &mut f.bars);
                    if let Some(slot) = slots.and_then(|bars| bars.get_mut(usize::from(bar))) {
                        // Whatever address it was left with is not one that was given out here.
                        *slot = found.map(without_address);
                    }
                }
                Err(error) => self.fault(at, error),
            }
        }
    }
}

fn without_address(mut bar: BarInfo) -> BarInfo {
    bar.address = 0;
    bar
}

/// The upper half of a register is no register of its own.
fn size_bar_or_none<C: ConfigSpace>(cfg: &C, index: u8) -> Result<Option<BarInfo>, PciError> {
    match size_bar(cfg, index) {
        Err(PciError::BarUpperHalf { .. }) => Ok(None),
        result => result,
    }
}

impl Level {
    fn new(bridge: Option<usize>, bus: u8, one_device: bool) -> Self {
        Self { bridge, bus, next: 0, one_device, multi_function: false }
    }

    /// The next place where a function may be.
    fn next_place(&mut self) -> Option<Bdf> {
        let functions = u16::from(Bdf::FUNCTIONS);
        if self.next % functions == 1 && !self.multi_function {
            self.next = self.next.next_multiple_of(functions);
        }
        let place = self.next;
        let devices = if self.one_device { 1 } else { u16::from(Bdf::DEVICES) };
        if place >= devices * functions {
            return None;
        }
        if place.is_multiple_of(functions) {
            self.multi_function = false;
        }
        self.next = place + 1;
        Bdf::new(self.bus, (place / functions) as u8, (place % functions) as u8)
    }
}
