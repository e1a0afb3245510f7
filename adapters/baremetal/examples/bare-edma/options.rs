//! The command line.

use core::num::ParseIntError;

use tombolo_baremetal::irq::Wanted;
use tombolo_baremetal::rt::Machine;

use crate::bring_up::Error;

pub struct Options {
    pub wanted: Wanted,
    pub vectors: u16,
    pub rounds: u32,
    pub seed: u64,
    pub memory_bar: u8,
    pub device_memory: Option<u64>,
    pub requester_alias: Option<u16>,
}

impl Options {
    pub fn read(machine: &Machine) -> Result<Self, Error> {
        let number = |key| {
            machine.option(key).map(|text| parse(text).map_err(|_| Error::Option(key, text))).transpose()
        };
        let wanted = match machine.option("irq").unwrap_or("best") {
            "best" => Wanted::Best,
            "msi-x" => Wanted::MsiX,
            "msi" => Wanted::Msi,
            "polling" => Wanted::Polling,
            other => return Err(Error::Option("irq", other)),
        };
        let alias = number("requester-alias")?;
        Ok(Self {
            wanted,
            vectors: number("vectors")?.unwrap_or(u64::from(u16::MAX)).clamp(1, u16::MAX.into()) as u16,
            rounds: number("rounds")?.unwrap_or(100).clamp(1, u32::MAX.into()) as u32,
            seed: number("seed")?.unwrap_or(1),
            memory_bar: number("memory-bar")?.unwrap_or(2).min(5) as u8,
            device_memory: number("device-memory")?,
            requester_alias: match alias {
                Some(id) => {
                    Some(u16::try_from(id).map_err(|_| Error::Option("requester-alias", "too large"))?)
                }
                None => None,
            },
        })
    }
}

fn parse(text: &str) -> Result<u64, ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
}
