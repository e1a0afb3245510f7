//! The server without its socket: what each message does, with a model that does what it is told.

mod dma;
mod irqs;
mod messages;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use tombolo_sim::config::{Bar, ConfigSpaceBuilder, Msi, Msix};
use tombolo_sim::device::{Bus, Device, DmaFault, Width};
use tombolo_sim::memory::SharedMemory;

use super::ServerOptions;
use super::offline::{Client, Offline};
use crate::protocol::{
    Access, Command, DmaMap, DmaUnmap, Errno, Header, MAP_READ, MAP_WRITE, UNMAP_ALL, Version,
};

const CONFIG: u32 = 7;
const COMMAND: u64 = 4;
/// Memory decoding and bus mastering.
const ON: u16 = 6;

/// What was done to the model, and what came of what it did.
#[derive(Debug, Default)]
struct Log {
    writes: Vec<(u64, Width, u64)>,
    resets: u32,
    events: Vec<u64>,
    results: Vec<Result<Vec<u8>, DmaFault>>,
}

/// BAR 0: registers, of which some do something when written; MSI-X in its second half. BAR 2: memory.
struct Probe {
    log: Arc<Mutex<Log>>,
    address: u64,
    memory: SharedMemory,
}

mod register {
    pub const ADDRESS: u64 = 0;
    /// Reads so many bytes by DMA.
    pub const READ: u64 = 8;
    /// Writes the value's four bytes by DMA.
    pub const WRITE: u64 = 0x10;
    /// Sends the value as a message.
    pub const MESSAGE: u64 = 0x18;
    pub const RAISE: u64 = 0x20;
    pub const PIN: u64 = 0x28;
    /// Schedules an event.
    pub const LATER: u64 = 0x30;
}

impl Device for Probe {
    fn name(&self) -> &str {
        "probe"
    }

    fn describe(&self, config: &mut ConfigSpaceBuilder) {
        let msix = Msix { vectors: 40, table_bar: 0, table_offset: 0x1000, pba_bar: 0, pba_offset: 0x1800 };
        config
            .identity(0x1de5, 0x0001)
            .interrupt_pin(1)
            .bar(Bar::bits32(0, 0x2000))
            .bar(Bar::bits64(2, 0x4000).memory())
            .power_management()
            .pcie(true)
            .msi(Msi { vectors: 4, per_vector_mask: true })
            .msix(msix);
    }

    fn reset(&mut self) {
        self.log.lock().unwrap().resets += 1;
        self.address = 0;
    }

    fn read(&mut self, _: &mut dyn Bus, _: u8, offset: u64, _: Width) -> u64 {
        offset << 32 | 0x1111_0000 | offset
    }

    fn write(&mut self, bus: &mut dyn Bus, _: u8, offset: u64, width: Width, value: u64) {
        let mut log = self.log.lock().unwrap();
        log.writes.push((offset, width, value));
        match offset {
            register::ADDRESS => self.address = value,
            register::READ => {
                let mut data = vec![0; value as usize];
                let result = bus.dma_read(self.address, &mut data);
                log.results.push(result.map(|()| data));
            }
            register::WRITE => {
                let result = bus.dma_write(self.address, &(value as u32).to_le_bytes());
                log.results.push(result.map(|()| Vec::new()));
            }
            register::MESSAGE => {
                let result = bus.message_write(self.address, value as u32);
                log.results.push(result.map(|()| Vec::new()));
            }
            register::RAISE => bus.raise(value as u16),
            register::PIN => bus.set_intx(value != 0),
            register::LATER => bus.schedule(1_000_000, value),
            _ => {}
        }
    }

    fn event(&mut self, _: &mut dyn Bus, token: u64) {
        self.log.lock().unwrap().events.push(token);
    }

    fn bar_memory(&self, bar: u8) -> Option<SharedMemory> {
        (bar == 2).then(|| self.memory.clone())
    }
}

struct Rig {
    server: Offline,
    log: Arc<Mutex<Log>>,
    memory: SharedMemory,
}

impl Rig {
    fn new() -> Self {
        let (log, memory) = (Arc::<Mutex<Log>>::default(), SharedMemory::new(0x4000));
        let probe = Probe { log: log.clone(), address: 0, memory: memory.clone() };
        Self { server: Offline::new(Box::new(probe), ServerOptions::default()).unwrap(), log, memory }
    }

    fn take_result(&self) -> Result<Vec<u8>, DmaFault> {
        self.log.lock().unwrap().results.pop().expect("the model did something")
    }
}

/// A client that speaks the protocol.
struct Talk<'a> {
    client: Client<'a>,
    id: u16,
}

impl<'a> Talk<'a> {
    /// One that has said nothing yet.
    fn new(rig: &'a Rig) -> Self {
        Self { client: rig.server.client(), id: 0 }
    }

    /// One that has agreed on the version, with memory and bus mastering on.
    fn ready(rig: &'a Rig) -> Self {
        let mut talk = Self::new(rig);
        talk.version().unwrap();
        talk.config_write(COMMAND, &ON.to_le_bytes());
        talk
    }

    fn call(&mut self, command: u16, body: &[u8], fds: Vec<OwnedFd>) -> Result<Vec<u8>, Errno> {
        self.id = self.id.wrapping_add(1);
        let header = Header { command, ..Header::request(self.id, Command::Version, body.len(), true) };
        let replies = self.client.feed(&[&header.to_bytes()[..], body].concat(), fds);
        let [(reply, body)] = &replies[..] else { panic!("{replies:?}") };
        assert_eq!((reply.id, reply.command), (self.id, command));
        reply.failed().map_or_else(|| Ok(body.clone()), Err)
    }

    fn version(&mut self) -> Result<Vec<u8>, Errno> {
        let mut body = Vec::new();
        Version::ours(true).put(&mut body);
        self.call(Command::Version as u16, &body, vec![])
    }

    fn read(&mut self, region: u32, offset: u64, count: u32) -> Result<Vec<u8>, Errno> {
        let mut body = Vec::new();
        Access { offset, region, count }.put(&mut body);
        let answer = self.call(Command::RegionRead as u16, &body, vec![])?;
        assert_eq!(answer[..16], body);
        Ok(answer[16..].to_vec())
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut body = Vec::new();
        Access { offset, region, count: data.len() as u32 }.put(&mut body);
        body.extend_from_slice(data);
        self.call(Command::RegionWrite as u16, &body, vec![]).map(|answer| assert_eq!(answer, body[..16]))
    }

    fn register(&mut self, offset: u64, value: u64) {
        self.write(0, offset, &value.to_le_bytes()).unwrap();
    }

    fn config_read16(&mut self, offset: u64) -> u16 {
        let bytes = self.read(CONFIG, offset, 2).unwrap();
        u16::from_le_bytes([bytes[0], bytes[1]])
    }

    fn config_write(&mut self, offset: u64, data: &[u8]) {
        self.write(CONFIG, offset, data).unwrap();
    }

    /// Offset of a capability.
    fn capability(&mut self, id: u8) -> u64 {
        let mut at = u64::from(self.read(CONFIG, 0x34, 1).unwrap()[0]);
        for _ in 0..16 {
            let bytes = self.read(CONFIG, at, 2).unwrap();
            if bytes[0] == id {
                return at;
            }
            at = bytes[1].into();
        }
        panic!("no capability {id:#x}")
    }

    fn map(&mut self, map: DmaMap, fds: Vec<OwnedFd>) -> Result<(), Errno> {
        let mut body = Vec::new();
        map.put(&mut body);
        self.call(Command::DmaMap as u16, &body, fds).map(|answer| assert!(answer.is_empty()))
    }

    /// Gives back how many bytes were unmapped.
    fn unmap(&mut self, flags: u32, address: u64, size: u64) -> Result<u64, Errno> {
        let mut body = Vec::new();
        DmaUnmap { flags, address, size }.put(&mut body);
        let answer = self.call(Command::DmaUnmap as u16, &body, vec![])?;
        assert_eq!(answer[..16], body[..16]);
        Ok(u64::from_le_bytes(answer[16..24].try_into().unwrap()))
    }

    fn reset(&mut self) {
        assert_eq!(self.call(Command::DeviceReset as u16, &[], vec![]), Ok(vec![]));
    }
}

fn memfd(len: u64) -> File {
    let fd = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, len).unwrap();
    fd.into()
}

fn copy_of(file: &File) -> OwnedFd {
    file.try_clone().unwrap().into()
}
