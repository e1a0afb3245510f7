//! External time stamps: edges of PCI11x1x's pins.

use tombolo_hal::net::Timestamp;
use tombolo_hal::reg;
use tombolo_hal::register::{Readable, Writeable};

use super::{Ptp, clock};
use crate::Error;
use crate::regs::ptp::{PTP_INT, PTP_IO_CAP_CONFIG, PTP_IO_SEL, Ptp as Registers};
use crate::shared::SharedRef;

/// Inputs of PCI11x1x.
pub const INPUTS: u8 = 8;

/// An edge of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// From low to high.
    Rising,
    /// From high to low.
    Falling,
}

impl<S: SharedRef> Ptp<S> {
    /// Chooses which edges of an input are captured: none, one or both. A capture is kept until it is
    /// taken; edges that come before that are not seen. A level has to last for 40 ns.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with LAN743x, [`Error::NoChannel`] beyond the eight inputs,
    /// [`Error::PinInUse`] for a pin that is an output.
    pub fn set_input(&mut self, input: u8, rising: bool, falling: bool) -> Result<(), Error> {
        let bit = self.input_bit(input)?;
        if (rising || falling) && self.pins.is_used(input) {
            return Err(Error::PinInUse(input));
        }
        let with = |edges: u8, on: bool| if on { edges | bit } else { edges & !bit };
        let edges = (with(self.edges.0, rising), with(self.edges.1, falling));
        let both = PTP_INT::IO_RE.val(bit.into()) + PTP_INT::IO_FE.val(bit.into());
        reg!(self.registers, Registers, int_en_clr).write(both);
        self.edges = edges;
        self.write_captures(edges);
        // What an earlier use has left.
        reg!(self.registers, Registers, int_sts).clear(both);
        self.enable_captures((edges.0 & bit, edges.1 & bit));
        Ok(())
    }

    /// Takes a captured edge, after which the input can capture the next one.
    ///
    /// # Errors
    /// As [`set_input`](Self::set_input); [`Error::BadTime`] if it is none, and it is taken all the same;
    /// [`Error::DeviceGone`].
    pub fn take_capture(&mut self, input: u8, edge: Edge) -> Result<Option<Timestamp>, Error> {
        let bit = u32::from(self.input_bit(input)?);
        let registers = &self.registers;
        let field = match edge {
            Edge::Rising => PTP_INT::IO_RE.val(bit),
            Edge::Falling => PTP_INT::IO_FE.val(bit),
        };
        let status = reg!(*registers, Registers, int_sts).get();
        if status == u32::MAX && reg!(*registers, Registers, int_en_set).get() == u32::MAX {
            return Err(Error::DeviceGone);
        }
        if status & field.value == 0 {
            return Ok(None);
        }
        reg!(*registers, Registers, io_sel).write(PTP_IO_SEL::SEL.val(input.into()));
        // The lock keeps both words together until the status is cleared.
        let (seconds, nanoseconds) = match edge {
            Edge::Rising => (
                reg!(*registers, Registers, io_re_ltc_sec_cap).get(),
                reg!(*registers, Registers, io_re_ltc_ns_cap).get(),
            ),
            Edge::Falling => (
                reg!(*registers, Registers, io_fe_ltc_sec_cap).get(),
                reg!(*registers, Registers, io_fe_ltc_ns_cap).get(),
            ),
        };
        reg!(*registers, Registers, int_sts).clear(field);
        clock::device_time(seconds, nanoseconds).map(Some)
    }

    fn input_bit(&self, input: u8) -> Result<u8, Error> {
        if !self.is_pci11x1x() {
            return Err(Error::Unsupported("external time stamps"));
        }
        if input >= INPUTS {
            return Err(Error::NoChannel { channel: input, available: INPUTS });
        }
        Ok(1 << input)
    }

    /// Captures these edges, with their locks, and no others.
    pub(super) fn write_captures(&self, (rising, falling): (u8, u8)) {
        if !self.is_pci11x1x() {
            return;
        }
        reg!(self.registers, Registers, io_cap_config).write(
            PTP_IO_CAP_CONFIG::LOCK_RE.val(rising.into())
                + PTP_IO_CAP_CONFIG::RE_CAP_EN.val(rising.into())
                + PTP_IO_CAP_CONFIG::LOCK_FE.val(falling.into())
                + PTP_IO_CAP_CONFIG::FE_CAP_EN.val(falling.into()),
        );
    }

    fn enable_captures(&self, (rising, falling): (u8, u8)) {
        if (rising, falling) != (0, 0) {
            let edges = PTP_INT::IO_RE.val(rising.into()) + PTP_INT::IO_FE.val(falling.into());
            reg!(self.registers, Registers, int_en_set).write(edges);
        }
    }

    /// After a reset.
    pub(super) fn restore_inputs(&self) {
        self.write_captures(self.edges);
        self.enable_captures(self.edges);
    }
}
