//! Giving addresses to base address registers and to the windows of bridges.
//!
//! Sizes are added up from the ends of the tree to its root, then places are given out from the root
//! to the ends. On each bus the largest alignment goes first, which packs powers of two without holes.

use tombolo_hal::mmio::MmioNarrow;
use tombolo_hal::pci::{BAR_COUNT, BarInfo, BarKind, ConfigSpace, PciError, command};

use super::bridge::{self, WINDOW_ALIGN};
use super::{AssignError, Ecam, FaultKind, Function, FunctionKind, PciTree, Range};

/// A range of bus addresses that the host bridge decodes, and where the CPU finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aperture {
    /// First address on the PCI bus.
    pub bus: u64,
    /// The same place as the CPU addresses it.
    pub cpu: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Aperture {
    /// Where the CPU finds `size` bytes at bus address `bus`; `None` if they are not all inside.
    pub fn cpu_address(&self, bus: u64, size: u64) -> Option<u64> {
        let offset = bus.checked_sub(self.bus)?;
        let inside = offset < self.size && size <= self.size - offset;
        if inside { self.cpu.checked_add(offset) } else { None }
    }

    fn range(&self, which: &'static str, end: u64) -> Result<Range, AssignError> {
        let refused = AssignError::Aperture { which, start: self.bus, size: self.size };
        // Address 0 would look like no address at all.
        match self.bus.checked_add(self.size) {
            Some(past) if past <= end && self.size != 0 && self.bus != 0 => {
                Ok(Range { start: self.bus, size: self.size })
            }
            _ => Err(refused),
        }
    }
}

/// What a host bridge decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apertures {
    /// Below 4 GiB, not prefetchable.
    pub low: Aperture,
    /// Anywhere, for registers of 64 bits.
    pub high: Option<Aperture>,
}

impl Apertures {
    /// Where the CPU finds `size` bytes at bus address `bus`.
    pub fn cpu_address(&self, bus: u64, size: u64) -> Option<u64> {
        let high = self.high.and_then(|aperture| aperture.cpu_address(bus, size));
        self.low.cpu_address(bus, size).or(high)
    }
}

/// From which aperture memory comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Low,
    High,
}

impl Class {
    const ALL: [Class; 2] = [Class::Low, Class::High];
}

/// What a bridge needs for what is behind it, and what it got.
#[derive(Clone, Copy, Default)]
struct Need {
    size: u64,
    align: u64,
    place: Option<Range>,
}

/// Who asks for memory on a bus: a register of a function, or a bridge for what is behind it.
#[derive(Clone, Copy)]
struct Asker {
    function: usize,
    bar: Option<usize>,
}

/// A size that was asked for, and the place that it got.
type Place = Option<(u64, Option<u64>)>;

/// What a function got.
#[derive(Clone, Copy, Default)]
struct Given {
    bars: [Place; BAR_COUNT],
    window: Place,
}

/// Fills a range from its start.
struct Packer {
    at: u64,
    left: u64,
}

impl Packer {
    fn new(range: Range) -> Self {
        Self { at: range.start, left: range.size }
    }

    /// `size` bytes at a multiple of `align`, a power of two.
    fn place(&mut self, size: u64, align: u64) -> Option<u64> {
        let start = self.at.checked_next_multiple_of(align)?;
        let used = (start - self.at).checked_add(size)?;
        self.left = self.left.checked_sub(used)?;
        // Saturates never: the range does not wrap.
        self.at = self.at.saturating_add(used);
        Some(start)
    }
}

impl<const N: usize> PciTree<N> {
    /// Gives addresses to what [`scan`](Self::scan) found, programs them, and opens bridges.
    ///
    /// Memory and bus mastering of functions stay off: a driver switches on what it needs, after asking
    /// [`Function::is_assigned`]. Registers of 64 bits come from the high aperture, behind bridges only
    /// if they are prefetchable and the bridges can; all else from the low one.
    ///
    /// # Errors
    /// [`AssignError`] if the apertures are not usable. What does not fit is a [`Fault`](super::Fault).
    pub fn assign<M: MmioNarrow + Clone>(
        &mut self,
        ecam: &Ecam<M>,
        apertures: &Apertures,
    ) -> Result<(), AssignError> {
        let low = apertures.low.range("low", 1 << 32)?;
        let high = match &apertures.high {
            Some(aperture) => Some(aperture.range("high", u64::MAX)?),
            None => None,
        };
        for class in Class::ALL {
            let range = if class == Class::Low { Some(low) } else { high };
            let mut needs = [Need::default(); N];
            if let Some(range) = range {
                self.add_up(&mut needs, class, range.size, high.is_some());
                self.give_out(&mut needs, class, range, high.is_some());
            }
            self.open_bridges(ecam, &needs, class);
        }
        self.program(ecam);
        Ok(())
    }

    /// What each bridge needs. What is behind a bridge stands after it.
    fn add_up(&self, needs: &mut [Need; N], class: Class, most: u64, has_high: bool) {
        for index in (0..self.functions.len()).rev() {
            let mut packer = Packer { at: 0, left: most };
            let mut align = 0;
            self.each_asker(needs, Some(index), class, has_high, |_, size, its_align| {
                if packer.place(size, its_align).is_some() {
                    align = its_align.max(align);
                }
            });
            let size = packer.at.checked_next_multiple_of(WINDOW_ALIGN).unwrap_or(packer.at);
            if let Some(need) = needs.get_mut(index) {
                *need = Need { size, align: align.max(WINDOW_ALIGN), place: None };
            }
        }
    }

    /// Gives out `range` on the first bus, and what bridges got of it on theirs.
    fn give_out(&mut self, needs: &mut [Need; N], class: Class, range: Range, has_high: bool) {
        self.give_out_on(needs, None, class, Some(range), has_high);
        for index in 0..self.functions.len() {
            let is_bridge = |f: &Function| matches!(f.kind, FunctionKind::Bridge { .. });
            if self.functions.get(index).is_some_and(is_bridge) {
                let place = needs.get(index).and_then(|need| need.place);
                self.give_out_on(needs, Some(index), class, place, has_high);
            }
        }
    }

    fn give_out_on(
        &mut self,
        needs: &mut [Need; N],
        parent: Option<usize>,
        class: Class,
        range: Option<Range>,
        has_high: bool,
    ) {
        let mut packer = Packer::new(range.unwrap_or(Range { start: 0, size: 0 }));
        // The order of askers does not depend on what was given out.
        let before = *needs;
        let mut given = [Given::default(); N];
        self.each_asker(&before, parent, class, has_high, |asker, size, align| {
            let place = Some((size, packer.place(size, align)));
            match (asker, given.get_mut(asker.function)) {
                (Asker { bar: None, .. }, Some(given)) => given.window = place,
                (Asker { bar: Some(bar), .. }, Some(given)) => {
                    if let Some(slot) = given.bars.get_mut(bar) {
                        *slot = place;
                    }
                }
                (_, None) => {}
            }
        });
        for (index, (given, need)) in given.iter().zip(needs).enumerate() {
            self.take_bars(index, &given.bars);
            let Some((size, place)) = given.window else { continue };
            need.place = place.map(|start| Range { start, size });
            if place.is_none() {
                self.fault_of(index, FaultKind::NoRoomBehind { size });
            }
        }
    }

    fn take_bars(&mut self, index: usize, given: &[Place; BAR_COUNT]) {
        for (bar, given) in given.iter().enumerate() {
            let Some((size, place)) = *given else { continue };
            match place {
                Some(address) => self.set_address(index, bar, address),
                None => self.fault_of(index, FaultKind::NoRoom { index: bar as u8, size }),
            }
        }
    }

    fn set_address(&mut self, index: usize, bar: usize, address: u64) {
        let slot = self.functions.get_mut(index).and_then(|f| f.bars.get_mut(bar));
        if let Some(Some(bar)) = slot {
            bar.address = address;
        }
    }

    fn fault_of(&mut self, index: usize, kind: FaultKind) {
        if let Some(at) = self.functions.get(index).map(|f| f.address) {
            self.fault(at, kind);
        }
    }

    /// All that want memory of `class` on the bus behind `parent`, the largest alignment first.
    fn each_asker(
        &self,
        needs: &[Need; N],
        parent: Option<usize>,
        class: Class,
        has_high: bool,
        mut asks: impl FnMut(Asker, u64, u64),
    ) {
        for align in (0..u64::BITS).rev().map(|shift| 1u64 << shift) {
            for (index, function) in self.functions.iter().enumerate() {
                if function.parent != parent {
                    continue;
                }
                for (slot, bar) in function.bars.iter().enumerate() {
                    let Some(bar) = bar.filter(|bar| bar.size == align) else { continue };
                    if self.class_of(&bar, function, has_high) == Some(class) {
                        asks(Asker { function: index, bar: Some(slot) }, bar.size, align);
                    }
                }
                match needs.get(index) {
                    Some(need) if need.size != 0 && need.align == align => {
                        asks(Asker { function: index, bar: None }, need.size, align);
                    }
                    _ => {}
                }
            }
        }
    }

    fn class_of(&self, bar: &BarInfo, function: &Function, has_high: bool) -> Option<Class> {
        match bar.kind {
            BarKind::Io => None,
            BarKind::Memory64 if has_high && self.reaches_high(bar, function.parent) => Some(Class::High),
            BarKind::Memory32 | BarKind::Memory64 => Some(Class::Low),
        }
    }

    /// Whether all bridges above let such a register be above 4 GiB.
    fn reaches_high(&self, bar: &BarInfo, parent: Option<usize>) -> bool {
        let mut above = parent;
        while let Some(index) = above {
            let Some(bridge) = self.functions.get(index) else { return false };
            let wide = matches!(bridge.kind, FunctionKind::Bridge { prefetch_64: true, .. });
            if !wide || !bar.prefetchable {
                return false;
            }
            // A bridge stands before what is behind it, so this ends.
            above = bridge.parent.filter(|parent| *parent < index);
        }
        true
    }

    fn open_bridges<M: MmioNarrow + Clone>(&mut self, ecam: &Ecam<M>, needs: &[Need; N], class: Class) {
        for index in 0..self.functions.len() {
            let range = needs.get(index).and_then(|need| need.place);
            let (Some(range), Some(function)) = (range, self.functions.get(index)) else { continue };
            let cfg = ecam.function(function.address);
            let taken = match class {
                Class::Low => bridge::open_low(&cfg, range),
                Class::High => bridge::open_high(&cfg, range),
            };
            if !taken {
                self.fault_of(index, FaultKind::WindowRefused { start: range.start, size: range.size });
            }
        }
    }

    /// Writes the addresses, and lets requests through bridges.
    fn program<M: MmioNarrow + Clone>(&mut self, ecam: &Ecam<M>) {
        for index in 0..self.functions.len() {
            let Some(function) = self.functions.get(index).copied() else { return };
            let cfg = ecam.function(function.address);
            let programmed = self.program_bars(&cfg, index, &function);
            if let Err(error) = programmed {
                self.fault(function.address, error);
            }
            if let FunctionKind::Bridge { .. } = function.kind {
                let usable = self.functions.get(index).is_some_and(Function::is_assigned);
                if let Err(error) = bridge::forward(&cfg, usable) {
                    self.fault(function.address, error);
                }
            }
        }
    }

    fn program_bars<C: ConfigSpace>(
        &mut self,
        cfg: &C,
        index: usize,
        function: &Function,
    ) -> Result<(), PciError> {
        if !function.bars.iter().flatten().any(BarInfo::is_memory) {
            return Ok(());
        }
        command::set_memory_enabled(cfg, false)?;
        command::set_bus_master(cfg, false)?;
        for bar in function.bars.iter().flatten().filter(|bar| bar.is_memory()) {
            let wide = bar.kind == BarKind::Memory64;
            if !bridge::write_bar(cfg, bar.index, wide, bar.address) {
                let refused = FaultKind::BarRefused { index: bar.index, address: bar.address };
                self.set_address(index, usize::from(bar.index), 0);
                self.fault(function.address, refused);
            }
        }
        Ok(())
    }
}
