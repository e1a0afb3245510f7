//! Answers the messages of one client.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use tombolo_sim::memory::SharedMemory;
use vfio_bindings::bindings::vfio::{VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_RESET};

use super::access;
use super::counters::add;
use super::shared::Shared;
use crate::protocol::{
    ACCESS_SIZE, Access, Command, DeviceInfo, DmaMap, DmaUnmap, HEADER_SIZE, Header, Info, Kind, Request,
    Version,
};
use crate::stream::{Fds, Message, Received};

/// Whether the next message can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Yes.
    Message,
    /// The client must go: it speaks another protocol.
    HangUp,
}

/// A client's session, apart from its socket: the answer to the last message is in [`Session::reply`].
pub(super) struct Session<'a> {
    shared: &'a Shared,
    negotiated: bool,
    /// Whether the client was told so.
    told: bool,
    /// Room that is used again and again.
    out: Vec<u8>,
    /// Memory whose file goes with the answer.
    file: Option<&'a SharedMemory>,
}

impl<'a> Session<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        Self { shared, negotiated: false, told: false, out: Vec::new(), file: None }
    }

    /// The bytes and the descriptor to send back; no bytes if nothing is to be sent.
    pub fn reply(&self) -> (&[u8], Option<BorrowedFd<'a>>) {
        (&self.out, self.file.and_then(SharedMemory::as_fd))
    }

    /// Does what a message asks for.
    pub fn handle(&mut self, received: Received<'_>) -> Next {
        self.out.clear();
        self.file = None;
        match received {
            Received::Message(message) => self.message(message),
            Received::TooLarge(header) => {
                self.fail(&header, Errno::MSGSIZE);
                Next::Message
            }
            Received::Broken(header) => {
                self.fail(&header, Errno::INVAL);
                Next::HangUp
            }
        }
    }

    fn message(&mut self, message: Message<'_>) -> Next {
        let header = message.header;
        match header.kind() {
            Some(Kind::Request) => {}
            Some(Kind::Reply) => {
                let refused = !self.shared.link.replied(&header);
                add(&self.shared.counters.refused_messages, refused.into());
                return Next::Message;
            }
            None => {
                self.fail(&header, Errno::INVAL);
                return Next::Message;
            }
        }
        // Room for the header, which is known when the body is.
        self.out.resize(HEADER_SIZE, 0);
        match self.request(&header, message.body, message.fds) {
            Ok(()) if header.wants_reply() => {
                let reply = header.reply(self.out.len() - HEADER_SIZE).to_bytes();
                self.out[..HEADER_SIZE].copy_from_slice(&reply);
            }
            Ok(()) => self.out.clear(),
            Err(error) => self.fail(&header, error),
        }
        Next::Message
    }

    fn fail(&mut self, header: &Header, error: Errno) {
        add(&self.shared.counters.refused_requests, 1);
        log::debug!("{}: request {header:?} refused: {error}", self.shared.name);
        self.out.clear();
        self.file = None;
        if header.kind() != Some(Kind::Reply) && header.wants_reply() {
            header.failure(error).put(&mut self.out);
        }
    }

    fn request(&mut self, header: &Header, body: &[u8], fds: Fds) -> Result<(), Errno> {
        if fds.too_many {
            return Err(Errno::INVAL);
        }
        let is_version = header.command == Command::Version as u16;
        if self.negotiated == is_version {
            // Once, and first.
            return Err(Errno::INVAL);
        }
        let shared = self.shared;
        match Request::parse(header.command, body)? {
            Request::Version(version) => self.version(&version),
            Request::DmaMap(map) => self.map(&map, fds),
            Request::DmaUnmap(unmap) => self.unmap(unmap),
            Request::DeviceInfo(_) => {
                let flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
                let (regions, irqs) = (shared.layout.regions.len(), shared.layout.irqs.len());
                DeviceInfo { flags, regions: regions as u32, irqs: irqs as u32 }.put(&mut self.out);
                Ok(())
            }
            Request::RegionInfo(info) => self.region_info(info),
            Request::IrqInfo(info) => {
                let irq = shared.layout.irqs.get(info.index as usize).ok_or(Errno::INVAL)?;
                irq.put(&mut self.out);
                Ok(())
            }
            Request::SetIrqs(request) => {
                let sent = shared.irqs.set(&request, fds.fds)?;
                add(shared.counters.interrupts(request.index), sent);
                Ok(())
            }
            Request::RegionRead(access) => self.read(access),
            Request::RegionWrite(write) => {
                access::write(shared, &write)?;
                write.access.put(&mut self.out);
                Ok(())
            }
            Request::RegionWriteMulti(writes) => {
                writes.iter().try_for_each(|write| access::write(shared, &write?))
            }
            Request::DeviceReset => {
                add(&shared.counters.resets, 1);
                shared.function.urgent().reset(shared, true);
                Ok(())
            }
        }
    }

    fn version(&mut self, version: &Version) -> Result<(), Errno> {
        if version.major != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        Version::ours(self.shared.options.write_multiple).put(&mut self.out);
        self.negotiated = true;
        Ok(())
    }

    /// The answer is on its way. After the first one, which agrees on the version, the worker may send.
    pub fn sent(&mut self) {
        if self.negotiated && !std::mem::replace(&mut self.told, true) {
            self.shared.link.ready();
        }
    }

    fn map(&mut self, map: &DmaMap, fds: Fds) -> Result<(), Errno> {
        let mut fds = fds.fds.into_iter();
        let fd = fds.next();
        if fds.next().is_some() {
            return Err(Errno::INVAL);
        }
        self.shared.memory.map(map, fd)?;
        add(&self.shared.counters.maps, 1);
        Ok(())
    }

    fn unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno> {
        let (maps, bytes) = self.shared.memory.unmap(&unmap)?;
        add(&self.shared.counters.unmaps, maps);
        DmaUnmap { size: bytes, ..unmap }.put(&mut self.out);
        Ok(())
    }

    fn region_info(&mut self, info: Info) -> Result<(), Errno> {
        let layout = &self.shared.layout;
        let region = layout.regions.get(info.index as usize).ok_or(Errno::INVAL)?;
        region.put(info.room, &mut self.out);
        // A client that has no room for the areas asks again.
        if info.room >= region.answer_size() {
            self.file = layout.mappable(region);
        }
        Ok(())
    }

    fn read(&mut self, access: Access) -> Result<(), Errno> {
        access.put(&mut self.out);
        let start = HEADER_SIZE + ACCESS_SIZE;
        self.out.resize(start + access.count as usize, 0);
        access::read(self.shared, &access, &mut self.out[start..])
    }
}

/// Sends what a session has to say.
pub(super) fn send(shared: &Shared, session: &mut Session<'_>) -> std::io::Result<()> {
    let (bytes, fd) = session.reply();
    if bytes.is_empty() {
        return Ok(());
    }
    shared.link.reply(bytes, fd.as_ref().map(AsFd::as_fd))?;
    session.sent();
    Ok(())
}
