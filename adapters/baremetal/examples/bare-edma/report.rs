//! What came of it.

use core::fmt;

use arrayvec::ArrayVec;
use dw_edma::{Format, RemoteEngine};
use tombolo_baremetal::irq::{FunctionInterrupts, Wanted};
use tombolo_baremetal::pci::{Bdf, Function};
use tombolo_baremetal::rt::Machine;
use tombolo_hal::irq::{IrqMode, IrqSource};

use crate::options::Options;

pub struct Report {
    address: Bdf,
    vendor: u16,
    device: u16,
    format: Format,
    irq: IrqMode,
    channels: u16,
    seed: u64,
    alias: Option<u16>,
    pub transfers: u64,
    pub bytes: u64,
    pub failed: u64,
    pub mismatches: u64,
    pub found_by_looking: u64,
    pub microseconds: u64,
    interrupts: ArrayVec<u32, 32>,
    unexpected: u32,
}

impl Report {
    pub fn new(
        function: &Function,
        engine: &RemoteEngine,
        irq: &FunctionInterrupts,
        channels: u16,
        options: &Options,
    ) -> Self {
        Self {
            address: function.address,
            vendor: function.identity.vendor,
            device: function.identity.device,
            format: engine.format,
            irq: irq.mode(),
            channels,
            seed: options.seed,
            alias: options.requester_alias,
            transfers: 0,
            bytes: 0,
            failed: 0,
            mismatches: 0,
            found_by_looking: 0,
            microseconds: 0,
            interrupts: ArrayVec::new(),
            unexpected: 0,
        }
    }

    pub fn count_interrupts(&mut self, machine: &Machine, irq: &FunctionInterrupts) {
        let numbers = (0..irq.vectors()).filter_map(|vector| irq.number(vector));
        self.interrupts = numbers.take(32).map(|number| machine.interrupts().count(number)).collect();
        self.unexpected = machine.interrupts().unexpected();
    }

    /// Whether this is what was to be shown.
    pub fn verdict(&self, options: &Options) -> Result<(), &'static str> {
        let polled = self.irq == IrqMode::Polling;
        let silent = self.interrupts.contains(&0);
        match () {
            () if self.failed != 0 => Err("a transfer failed"),
            () if self.mismatches != 0 => Err("data differs"),
            () if polled && options.wanted != Wanted::Polling => Err("polling, which nobody asked for"),
            () if !polled && silent => Err("a vector never came"),
            () if !polled && self.found_by_looking != 0 => Err("a completion was found by looking"),
            () if self.unexpected != 0 => Err("an interrupt came that is nobody's"),
            () => Ok(()),
        }
    }

    pub fn json(&self, failure: Option<&'static str>) -> Json<'_> {
        Json { report: self, failure }
    }
}

/// The report as a JSON object.
pub struct Json<'a> {
    report: &'a Report,
    failure: Option<&'static str>,
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = self.report;
        write!(f, "{{\"function\":\"{}\",\"id\":\"{:04x}:{:04x}\",", r.address, r.vendor, r.device)?;
        write!(f, "\"format\":\"{}\",\"irq\":\"{}\",\"interrupts\":[", r.format, r.irq)?;
        for (index, count) in r.interrupts.iter().enumerate() {
            write!(f, "{}{count}", if index == 0 { "" } else { "," })?;
        }
        write!(f, "],\"unexpected_interrupts\":{},\"channels\":{},", r.unexpected, r.channels)?;
        write!(f, "\"seed\":{},\"transfers\":{},\"bytes\":{},", r.seed, r.transfers, r.bytes)?;
        write!(f, "\"failed\":{},\"mismatches\":{},", r.failed, r.mismatches)?;
        write!(f, "\"found_by_looking\":{},\"microseconds\":{},", r.found_by_looking, r.microseconds)?;
        match r.alias {
            Some(id) => write!(f, "\"requester_alias\":{id},")?,
            None => write!(f, "\"requester_alias\":null,")?,
        }
        match self.failure {
            Some(why) => write!(f, "\"passed\":false,\"why\":\"{why}\"}}"),
            None => write!(f, "\"passed\":true}}"),
        }
    }
}
