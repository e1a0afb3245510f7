//! A client that can say anything.

use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tombolo_vfio_user::protocol::{
    Access, Command, DmaMap, DmaUnmap, Errno, HEADER_SIZE, Header, Kind, MAP_READ, MAP_WRITE, Version,
};

use super::LIMIT;

/// Region of configuration space.
pub const CONFIG: u32 = 7;

/// What the server says to a request.
pub type Answer = Result<Vec<u8>, Errno>;

pub struct Raw {
    pub socket: UnixStream,
    id: u16,
}

impl Raw {
    /// One that has said nothing yet.
    pub fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.set_write_timeout(Some(LIMIT)).unwrap();
        Self { socket, id: 0 }
    }

    /// One that has agreed on the version.
    pub fn ready(path: &Path) -> Self {
        let mut raw = Self::connect(path);
        raw.agree();
        raw
    }

    /// Agrees on the version.
    pub fn agree(&mut self) {
        let mut body = Vec::new();
        Version::ours(true).put(&mut body);
        self.call(Command::Version as u16, &body, &[]).unwrap();
    }

    /// Sends bytes, with descriptors if there are any.
    pub fn send(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let sent = sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        self.socket.write_all(&bytes[sent..])
    }

    /// A request with an identifier of its own.
    pub fn request(&mut self, command: u16, body: &[u8]) -> (Header, Vec<u8>) {
        self.id = self.id.wrapping_add(1);
        let header = Header { command, ..Header::request(self.id, Command::Version, body.len(), true) };
        (header, [&header.to_bytes()[..], body].concat())
    }

    /// The next message of the server; `None` if it hung up.
    pub fn hear(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut head = [0; HEADER_SIZE];
        match self.socket.read_exact(&mut head) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer comes"),
            result => result.ok()?,
        }
        let header = Header::parse(&head);
        let mut body = vec![0; (header.size as usize).checked_sub(HEADER_SIZE).expect("a header")];
        self.socket.read_exact(&mut body).ok()?;
        Some((header, body))
    }

    /// Asks, and checks that the answer is the answer to that.
    pub fn call(&mut self, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> Answer {
        let (header, message) = self.request(command, body);
        self.send(&message, fds).unwrap();
        self.answer(&header)
    }

    /// The answer to a request. What the server asks in between is left alone.
    pub fn answer(&mut self, header: &Header) -> Answer {
        let (reply, body) = loop {
            let (reply, body) = self.hear().expect("the server is there");
            if reply.kind() == Some(Kind::Reply) {
                break (reply, body);
            }
            assert_eq!(reply.command, Command::DmaWrite as u16);
        };
        assert_eq!((reply.id, reply.command), (header.id, header.command));
        reply.failed().map_or(Ok(body), Err)
    }

    pub fn read(&mut self, region: u32, offset: u64, count: u32) -> Answer {
        let mut body = Vec::new();
        Access { offset, region, count }.put(&mut body);
        self.call(Command::RegionRead as u16, &body, &[]).map(|answer| answer[16..].to_vec())
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Answer {
        let mut body = Vec::new();
        Access { offset, region, count: data.len() as u32 }.put(&mut body);
        body.extend_from_slice(data);
        self.call(Command::RegionWrite as u16, &body, &[])
    }

    pub fn map(&mut self, map: DmaMap, fds: &[BorrowedFd<'_>]) -> Answer {
        let mut body = Vec::new();
        map.put(&mut body);
        self.call(Command::DmaMap as u16, &body, fds)
    }

    pub fn unmap(&mut self, unmap: DmaUnmap) -> Answer {
        let mut body = Vec::new();
        unmap.put(&mut body);
        self.call(Command::DmaUnmap as u16, &body, &[])
    }

    /// The device answers as it should.
    pub fn works(&mut self) {
        assert_eq!(self.read(CONFIG, 0, 4), Ok(vec![0xc3, 0x16, 0xda, 0xed]));
    }
}

/// For reading and writing, from the file's beginning.
pub fn map_of(address: u64, size: u64) -> DmaMap {
    DmaMap { flags: MAP_READ | MAP_WRITE, offset: 0, address, size }
}

pub fn memfd(len: u64) -> File {
    let fd = memfd_create("guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, len).unwrap();
    fd.into()
}

pub fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}
