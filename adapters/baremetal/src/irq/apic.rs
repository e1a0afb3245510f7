//! The local APIC of x86, as xAPIC (memory) or x2APIC (registers of the CPU).
//!
//! Offsets, fields and the layout of messages: Intel SDM volume 3, chapter "Advanced Programmable
//! Interrupt Controller"; names as in Linux's `arch/x86/include/asm/apicdef.h`.

use core::cell::RefCell;

use tombolo_hal::irq::MsiMessage;
use tombolo_hal::lock::RawLock;
use tombolo_hal::mmio::Mmio;

use super::{Blocks, IrqError, MessageBlock, MessageController};
use crate::pci::Bdf;

/// Where the xAPIC's registers are unless moved (`APIC_DEFAULT_PHYS_BASE`).
pub const DEFAULT_BASE: u64 = 0xfee0_0000;
/// The vector of interrupt number 0; below are exceptions and the legacy controllers' vectors.
pub const FIRST_VECTOR: u8 = 0x40;
/// How many vectors are given out: up to 0xef.
pub const VECTORS: usize = 0xb0;
/// The vector of spurious interrupts, which are not acknowledged.
pub const SPURIOUS_VECTOR: u8 = 0xff;

const ID: u16 = 0x20;
const TASK_PRIORITY: u16 = 0x80;
const END_OF_INTERRUPT: u16 = 0xb0;
const SPURIOUS: u16 = 0xf0;
const SOFTWARE_ENABLE: u32 = 1 << 8;
/// Timer, thermal, performance, LINT0, LINT1, error.
const LOCAL_VECTORS: [u16; 6] = [0x320, 0x330, 0x340, 0x350, 0x360, 0x370];
const MASKED: u32 = 1 << 16;

/// Access to the registers of the local APIC, by their xAPIC offsets.
pub trait ApicRegisters: Send + Sync {
    /// Reads a register.
    fn read(&self, offset: u16) -> u32;
    /// Writes a register.
    fn write(&self, offset: u16, value: u32);
    /// The APIC's id.
    fn id(&self) -> u32;
}

/// The xAPIC, behind 4 KiB of memory.
#[derive(Clone, Copy, Debug)]
pub struct XApic<M>(pub M);

impl<M: Mmio> ApicRegisters for XApic<M> {
    fn read(&self, offset: u16) -> u32 {
        self.0.read32(offset.into())
    }
    fn write(&self, offset: u16, value: u32) {
        self.0.write32(offset.into(), value);
    }
    fn id(&self) -> u32 {
        self.read(ID) >> 24
    }
}

/// The local APIC of the one CPU, which takes all messages.
#[derive(Debug)]
pub struct LocalApic<R, L> {
    registers: R,
    lock: L,
    vectors: RefCell<Blocks<VECTORS>>,
}

// SAFETY: `vectors` is only used inside `lock`.
unsafe impl<R: ApicRegisters, L: RawLock> Sync for LocalApic<R, L> {}

impl<R: ApicRegisters, L: RawLock> LocalApic<R, L> {
    /// Over `registers`; nothing is touched before [`start`](Self::start).
    pub const fn new(registers: R, lock: L) -> Self {
        Self { registers, lock, vectors: RefCell::new(Blocks::new()) }
    }

    /// Switches it on, with its local sources masked. The legacy controllers are to be masked already.
    pub fn start(&self) {
        for offset in LOCAL_VECTORS {
            self.registers.write(offset, MASKED);
        }
        self.registers.write(TASK_PRIORITY, 0);
        self.registers.write(SPURIOUS, SOFTWARE_ENABLE | u32::from(SPURIOUS_VECTOR));
    }

    /// Says that the interrupt in service has been handled.
    pub fn end_of_interrupt(&self) {
        self.registers.write(END_OF_INTERRUPT, 0);
    }

    /// The interrupt number that a vector stands for.
    pub fn number_of(vector: u8) -> Option<u32> {
        let number = u32::from(vector).checked_sub(FIRST_VECTOR.into())?;
        (number < VECTORS as u32).then_some(number)
    }
}

impl<R: ApicRegisters, L: RawLock> MessageController for LocalApic<R, L> {
    fn allocate(&self, _requester: Bdf, count: u16) -> Result<MessageBlock, IrqError> {
        let id = self.registers.id();
        // Without interrupt remapping a message has 8 bits for the destination; 0xff is everybody.
        let destination = u8::try_from(id).ok().filter(|id| *id != u8::MAX);
        let destination = destination.ok_or(IrqError::Destination { id })?;
        let first = self.lock.with(|| self.vectors.borrow_mut().take(count))?;
        // Fixed delivery, edge triggered, physical destination: all other bits are zero.
        let message = MsiMessage {
            address: DEFAULT_BASE | u64::from(destination) << 12,
            data: u32::from(FIRST_VECTOR) + first,
        };
        Ok(MessageBlock { first, count, message })
    }

    fn release(&self, _requester: Bdf, block: MessageBlock) {
        self.lock.with(|| self.vectors.borrow_mut().give_back(block.first, block.count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo_hal::fake::FakeMmio;
    use tombolo_hal::lock::SpinLock;

    fn apic(id: u8) -> LocalApic<XApic<FakeMmio>, SpinLock> {
        let registers = FakeMmio::new(0x1000);
        registers.poke32(0x20, u32::from(id) << 24);
        LocalApic::new(XApic(registers), SpinLock::new())
    }

    const AT: Bdf = Bdf::from_requester_id(8);

    #[test]
    fn starting_masks_the_local_sources_and_enables() {
        let apic = apic(0);
        apic.start();
        let registers = &apic.registers.0;
        assert_eq!((registers.peek32(0xf0), registers.peek32(0x350)), (0x1ff, 0x1_0000));
    }

    #[test]
    fn messages_name_the_cpu_and_a_vector_in_a_row_that_msi_can_use() {
        let apic = apic(3);
        let one = apic.allocate(AT, 1).unwrap();
        assert_eq!(one.message, MsiMessage { address: 0xfee0_3000, data: 0x40 });
        let four = apic.allocate(AT, 4).unwrap();
        assert_eq!((four.first, four.message.data), (4, 0x44));
        assert_eq!(LocalApic::<XApic<FakeMmio>, SpinLock>::number_of(0x47), Some(7));
        assert_eq!(LocalApic::<XApic<FakeMmio>, SpinLock>::number_of(0xf0), None);
        apic.release(AT, one);
        assert_eq!(apic.allocate(AT, 1).unwrap().first, 0);
    }

    #[test]
    fn vectors_run_out_and_a_cpu_that_no_message_can_name_is_refused() {
        let full = apic(0);
        for _ in 0..11 {
            full.allocate(AT, 16).unwrap();
        }
        assert!(matches!(
            full.allocate(AT, 1),
            Err(IrqError::NoneFree { wanted: 1, free: 0, limit: VECTORS })
        ));
        assert_eq!(apic(0xff).allocate(AT, 1), Err(IrqError::Destination { id: 0xff }));
    }
}
