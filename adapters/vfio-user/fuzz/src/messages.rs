//! A client that knows the protocol and keeps to nothing, and an engine that it drives anyhow: maps of
//! files that shrink, descriptors of any kind, registers and lists with arbitrary words, resets, replies
//! to questions that nobody asked, clients that come and go, the device pulled out.
//!
//! Whatever happens: no panic, one answer to each question that wants one, and the next client finds the
//! device as after power-on.

use std::fs::File;
use std::os::fd::OwnedFd;

use arbitrary::{Arbitrary, Unstructured};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use tombolo_sim::dw_edma::{DwEdma, Format, Params, presets};
use tombolo_vfio_user::protocol::{
    Access, Command, DmaMap, DmaUnmap, HEADER_SIZE, Header, IrqAction, IrqData, Kind, RegionInfo, SetIrqs,
    Version,
};
use tombolo_vfio_user::server::ServerOptions;
use tombolo_vfio_user::server::offline::{Client, Offline};

/// Most operations of one input.
const OPERATIONS: usize = 60;
/// Bytes of a file that the client shares.
const FILE: u64 = 64 << 10;
/// Where the client likes to have its memory and the BARs.
const PLACES: [u64; 6] = [0, 0x1000, 0x10_0000, 0xfee0_0000, 0xd000_0000, u64::MAX - 0xfff];

/// A number that is often near something.
#[derive(Clone, Copy, Debug)]
struct Near(u64);

impl<'a> Arbitrary<'a> for Near {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Self(match input.int_in_range(0..=5)? {
            0 => input.arbitrary()?,
            1 => input.arbitrary::<u32>()?.into(),
            2 => *input.choose(&PLACES)?,
            3 => input.choose(&PLACES)?.wrapping_add(u64::from(input.arbitrary::<u16>()?)),
            _ => input.arbitrary::<u8>()?.into(),
        }))
    }
}

/// A descriptor that comes with a message.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Fd {
    Sealable,
    Shrinking,
    ReadOnly,
    Event,
    Device,
}

#[derive(Arbitrary, Debug)]
enum Op {
    Raw {
        command: u8,
        body: Vec<u8>,
        fds: Vec<Fd>,
        quiet: bool,
    },
    Version,
    Map {
        flags: u8,
        offset: Near,
        address: Near,
        size: Near,
        fd: Option<Fd>,
    },
    /// A map that is right, at one of a few places.
    GoodMap {
        place: u8,
        fd: Fd,
    },
    Unmap {
        flags: u8,
        address: Near,
        size: Near,
    },
    Region {
        index: u8,
        room: u16,
    },
    Irqs {
        action: u8,
        index: u8,
        start: u8,
        count: u8,
        bools: Option<Vec<u8>>,
        fds: Vec<Fd>,
    },
    Read {
        region: u8,
        offset: Near,
        count: u16,
    },
    Write {
        region: u8,
        offset: Near,
        data: Vec<u8>,
    },
    /// A word of a register, in the range where they are.
    Register {
        word: u16,
        value: Near,
    },
    /// An element of a list.
    Element {
        at: u8,
        control: u8,
        size: u16,
        from: Near,
        to: Near,
    },
    /// Points the engine's first channel at the list and starts it.
    Go {
        read: bool,
        control: u8,
    },
    Config {
        word: u8,
        value: u32,
    },
    Multi {
        writes: Vec<(u8, u16, u8, u64)>,
        count: Option<u64>,
    },
    Reset,
    Reply {
        id: u16,
        error: u32,
    },
    /// Bytes that need not be a message.
    Bytes(Vec<u8>),
    Shrink(u16),
    Events(u8),
    NextClient,
}

/// What the client has.
struct Files {
    sealable: File,
    shrinking: File,
    read_only: File,
    event: OwnedFd,
}

fn memfd(flags: MemfdFlags) -> File {
    let fd = memfd_create("guest", flags | MemfdFlags::CLOEXEC).expect("an anonymous file");
    ftruncate(&fd, FILE).expect("it has a length");
    fd.into()
}

impl Files {
    fn new() -> Self {
        use std::os::fd::AsRawFd;
        let (sealable, shrinking) = (memfd(MemfdFlags::ALLOW_SEALING), memfd(MemfdFlags::empty()));
        let read_only = memfd(MemfdFlags::ALLOW_SEALING);
        let read_only = File::open(format!("/proc/self/fd/{}", read_only.as_raw_fd())).expect("it is there");
        let event = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        Self { sealable, shrinking, read_only, event }
    }

    fn give(&self, fd: Fd) -> OwnedFd {
        let copy = |file: &File| file.try_clone().expect("a descriptor").into();
        match fd {
            Fd::Sealable => copy(&self.sealable),
            Fd::Shrinking => copy(&self.shrinking),
            Fd::ReadOnly => copy(&self.read_only),
            Fd::Event => self.event.try_clone().expect("a descriptor"),
            Fd::Device => File::open("/dev/null").expect("it is always there").into(),
        }
    }
}

struct World<'a> {
    server: &'a Offline,
    client: Client<'a>,
    files: Files,
    id: u16,
    native: bool,
    /// Bytes that are no message may be the beginning of one: after them nothing is known.
    lost: bool,
}

impl World<'_> {
    /// Asks something.
    fn ask(&mut self, command: u16, body: &[u8], fds: &[Fd], quiet: bool) {
        self.id = self.id.wrapping_add(1);
        let header = Header { command, ..Header::request(self.id, Command::Version, body.len(), !quiet) };
        let fds = fds.iter().map(|fd| self.files.give(*fd)).collect();
        let replies = self.client.feed(&[&header.to_bytes()[..], body].concat(), fds);
        assert!(replies.iter().all(|(header, _)| header.kind() == Some(Kind::Reply)));
        if self.lost {
            return;
        }
        assert_eq!(replies.len(), usize::from(!quiet), "{command}");
        for (reply, body) in &replies {
            assert_eq!((reply.id, reply.command), (self.id, command));
            assert!(reply.failed().is_none() || body.is_empty());
        }
    }

    fn say(&mut self, command: Command, put: impl FnOnce(&mut Vec<u8>), fds: &[Fd]) {
        let mut body = Vec::new();
        put(&mut body);
        self.ask(command as u16, &body, fds, false);
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        let access = Access { offset, region, count: data.len() as u32 };
        self.say(
            Command::RegionWrite,
            |body| {
                access.put(body);
                body.extend_from_slice(data);
            },
            &[],
        );
    }

    fn agree(&mut self) {
        self.say(Command::Version, |body| Version::ours(true).put(body), &[]);
    }

    /// Offsets and words: linux's drivers/dma/dw-edma, as the model's register files.
    fn go(&mut self, read: bool, control: u8) {
        let list = PLACES[4] as u32;
        let native = [(0x00, 1), (0x34, 1), (0x10, list), (0x14, 0), (0x18, 3), (0x88, 0x28), (0x04, 1)];
        let (engine, doorbell) = if read { (0x2c, 0x30) } else { (0x0c, 0x10) };
        let channel = if read { 0x300 } else { 0x200 };
        let v0 = [
            (engine, 1),
            (0xfc, u32::from(read) << 31),
            (channel, 0x300 | u32::from(control)),
            (channel + 0x1c, list),
            (channel + 0x20, 0),
            (doorbell, 0),
        ];
        let words = if self.native { &native[..] } else { &v0 };
        let block = if self.native && read { 0x100 } else { 0 };
        for (offset, value) in words {
            self.write(0, block + offset, &value.to_le_bytes());
        }
    }

    /// Another client, with all switched on and the BARs at their places.
    fn next_client(&mut self) {
        self.client = self.server.client();
        self.lost = false;
        self.agree();
        self.write(7, 4, &[6, 0]);
        self.write(7, 0x18, &(PLACES[4] as u32).to_le_bytes());
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Raw { command, body, fds, quiet } => self.ask(command.into(), &body, &fds, quiet),
            Op::Version => self.agree(),
            Op::Map { flags, offset, address, size, fd } => {
                let map = DmaMap { flags: flags.into(), offset: offset.0, address: address.0, size: size.0 };
                self.say(Command::DmaMap, |body| map.put(body), fd.as_slice());
            }
            Op::GoodMap { place, fd } => {
                let address = u64::from(place % 8) * FILE;
                let map = DmaMap { flags: 3, offset: 0, address, size: FILE };
                self.say(Command::DmaMap, |body| map.put(body), &[fd]);
            }
            Op::Unmap { flags, address, size } => {
                let unmap = DmaUnmap { flags: flags.into(), address: address.0, size: size.0 };
                self.say(Command::DmaUnmap, |body| unmap.put(body), &[]);
            }
            Op::Region { index, room } => {
                let put = |body: &mut Vec<u8>| RegionInfo::put_request(index.into(), room.into(), body);
                self.say(Command::RegionInfo, put, &[]);
            }
            Op::Irqs { action, index, start, count, bools, fds } => {
                let action =
                    [IrqAction::Trigger, IrqAction::Mask, IrqAction::Unmask][usize::from(action % 3)];
                let data = match &bools {
                    Some(bytes) => IrqData::Bool(bytes),
                    None if fds.is_empty() => IrqData::None,
                    None => IrqData::EventFd,
                };
                let (index, start, count) = (index.into(), start.into(), count.into());
                self.say(
                    Command::SetIrqs,
                    |body| SetIrqs { action, data, index, start, count }.put(body),
                    &fds,
                );
            }
            Op::Read { region, offset, count } => {
                let access = Access { offset: offset.0, region: region.into(), count: count.into() };
                self.say(Command::RegionRead, |body| access.put(body), &[]);
            }
            Op::Write { region, offset, data } => self.write(region.into(), offset.0, &data),
            Op::Register { word, value } => {
                self.write(0, u64::from(word % 1024) * 4, &(value.0 as u32).to_le_bytes())
            }
            Op::Element { at, control, size, from, to } => {
                let mut bytes = [u32::from(control), size.into()].map(u32::to_le_bytes).concat();
                bytes.extend_from_slice(&from.0.to_le_bytes());
                bytes.extend_from_slice(&to.0.to_le_bytes());
                self.write(2, u64::from(at % 16) * 24, &bytes);
            }
            Op::Go { read, control } => self.go(read, control),
            Op::Config { word, value } => self.write(7, u64::from(word) * 4, &value.to_le_bytes()),
            Op::Multi { writes, count } => {
                let mut body = count.unwrap_or(writes.len() as u64).to_le_bytes().to_vec();
                for (region, offset, count, value) in writes {
                    Access { offset: offset.into(), region: region.into(), count: count.into() }
                        .put(&mut body);
                    body.extend_from_slice(&value.to_le_bytes());
                }
                self.ask(Command::RegionWriteMulti as u16, &body, &[], false);
            }
            Op::Reset => self.ask(Command::DeviceReset as u16, &[], &[], false),
            Op::Reply { id, error } => {
                let flags = if error == 0 { 1 } else { 0x21 };
                let reply =
                    Header { id, command: Command::DmaWrite as u16, size: HEADER_SIZE as u32, flags, error };
                let replies = self.client.feed(&reply.to_bytes(), Vec::new());
                assert!(self.lost || replies.is_empty());
            }
            Op::Bytes(bytes) => {
                self.lost |= !bytes.is_empty();
                self.client.feed(&bytes, Vec::new());
            }
            Op::Shrink(len) => ftruncate(&self.files.shrinking, len.into()).expect("it is not sealed"),
            Op::Events(most) => self.server.run_events(most.into()),
            Op::NextClient => self.next_client(),
        }
    }
}

fn params(which: u8) -> Params {
    let params = match which % 5 {
        0 => presets::edda(Format::Legacy),
        1 => presets::edda(Format::HdmaCompatible),
        2 => presets::remote(Format::HdmaNative, 3, 5),
        3 => presets::mdb_b054(),
        _ => presets::edda(Format::Unrolled),
    };
    Params { memory_bytes: 1 << 20, ..params }
}

/// One input of the fuzzer.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let (which, map_bars) = (input.arbitrary().unwrap_or(0), input.arbitrary().unwrap_or(true));
    let options = ServerOptions { map_bars, ..ServerOptions::default() };
    let Ok(server) = Offline::new(Box::new(DwEdma::new(params(which))), options) else {
        unreachable!("the models are sound")
    };
    let client = server.client();
    let mut world = World {
        server: &server,
        client,
        files: Files::new(),
        id: 0,
        native: which % 5 == 2 || which % 5 == 3,
        lost: false,
    };
    world.next_client();
    for _ in 0..OPERATIONS {
        let Ok(op) = Op::arbitrary(&mut input) else { break };
        if input.is_empty() {
            break;
        }
        world.run(op);
    }
    let World { client, .. } = world;
    drop(client);
    // Power-on: nothing is decoded, nothing mapped.
    let mut next = World {
        server: &server,
        client: server.client(),
        files: Files::new(),
        id: 0,
        native: which % 5 == 2 || which % 5 == 3,
        lost: false,
    };
    next.agree();
    let mut body = Vec::new();
    Access { offset: 4, region: 7, count: 2 }.put(&mut body);
    let message = [&Header::request(9, Command::RegionRead, body.len(), true).to_bytes()[..], &body].concat();
    let replies = next.client.feed(&message, Vec::new());
    assert_eq!(replies[0].1[16..], [0, 0], "the command register");
    let counters = server.counters();
    assert!(counters.unmaps <= counters.maps);
}
