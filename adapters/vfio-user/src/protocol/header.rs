//! The 16 bytes before every message.

use super::fields::{Fields, Put};
use super::{Command, Errno};

/// Bytes of a header.
pub const HEADER_SIZE: usize = 16;

const TYPE_MASK: u32 = 0xf;
const TYPE_REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

/// Which of both kinds a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The other side wants something.
    Request,
    /// The answer to something that we wanted.
    Reply,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Chosen by who asks, repeated by who answers.
    pub id: u16,
    /// Number of the [`Command`], perhaps one that is not known.
    pub command: u16,
    /// Bytes of the whole message, this header included.
    pub size: u32,
    /// Kind, and whether no reply is wanted or an error happened.
    pub flags: u32,
    /// errno of a reply whose flags say that an error happened.
    pub error: u32,
}

impl Header {
    /// Of a request with `body` bytes after the header.
    pub fn request(id: u16, command: Command, body: usize, reply: bool) -> Self {
        let flags = if reply { 0 } else { NO_REPLY };
        Self { id, command: command as u16, size: size(body), flags, error: 0 }
    }

    /// Of the answer to this request, with `body` bytes after the header.
    pub fn reply(&self, body: usize) -> Self {
        Self { size: size(body), flags: TYPE_REPLY, error: 0, ..*self }
    }

    /// Of the answer that this request failed; nothing follows it.
    pub fn failure(&self, error: Errno) -> Self {
        Self { size: size(0), flags: TYPE_REPLY | ERROR, error: error.raw_os_error().unsigned_abs(), ..*self }
    }

    /// Reads a header.
    pub fn parse(bytes: &[u8; HEADER_SIZE]) -> Self {
        let mut fields = Fields::new(bytes);
        let mut read = || {
            Ok::<_, Errno>(Self {
                id: fields.u16()?,
                command: fields.u16()?,
                size: fields.u32()?,
                flags: fields.u32()?,
                error: fields.u32()?,
            })
        };
        // Sixteen bytes are there, so nothing is missing.
        read().unwrap_or(Self { id: 0, command: 0, size: 0, flags: 0, error: 0 })
    }

    /// Appends the header.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put16(self.id);
        out.put16(self.command);
        out.put32(self.size);
        out.put32(self.flags);
        out.put32(self.error);
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_SIZE);
        self.put(&mut bytes);
        bytes
    }

    /// Which kind of message it is; `None` for one that does not exist.
    pub fn kind(&self) -> Option<Kind> {
        match self.flags & TYPE_MASK {
            0 => Some(Kind::Request),
            TYPE_REPLY => Some(Kind::Reply),
            _ => None,
        }
    }

    /// Whether the sender of a request waits for the answer.
    pub fn wants_reply(&self) -> bool {
        self.flags & NO_REPLY == 0
    }

    /// The error of a reply, if it tells of one. One without a number is `EIO`.
    pub fn failed(&self) -> Option<Errno> {
        let number = i32::try_from(self.error).ok().filter(|number| (1..4096).contains(number));
        (self.flags & ERROR != 0).then(|| number.map_or(Errno::IO, Errno::from_raw_os_error))
    }
}

/// Bodies are far smaller than 4 GiB; one that is not is cut by whoever checks sizes.
fn size(body: usize) -> u32 {
    u32::try_from(HEADER_SIZE + body).unwrap_or(u32::MAX)
}
