//! Whole messages over a stream socket, with the file descriptors that belong to them.
//!
//! As few system calls as can be: one `recvmsg` takes all that has arrived, one `sendmsg` sends header,
//! body and descriptors.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::protocol::{HEADER_SIZE, Header, MAX_FDS, MAX_MESSAGE};

/// Room for what arrives, unless a message is larger.
const BUFFER: usize = 64 << 10;

/// A message that arrived.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    /// A whole one.
    Message(Message<'a>),
    /// One that is larger than any that exists. It is left out; the next one is read as usual.
    TooLarge(Header),
    /// One that is shorter than its own header: nothing after it can be understood.
    Broken(Header),
}

/// A whole message.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub header: Header,
    pub body: &'a [u8],
    pub fds: Fds,
}

/// What came with a message.
#[derive(Debug, Default)]
pub(crate) struct Fds {
    pub fds: Vec<OwnedFd>,
    /// There were more than we take; they are closed.
    pub too_many: bool,
}

impl Fds {
    fn add(&mut self, more: Fds) {
        self.too_many |= more.too_many || self.fds.len() + more.fds.len() > MAX_FDS;
        self.fds.extend(more.fds);
        self.fds.truncate(MAX_FDS);
    }
}

/// Cuts a stream into messages. Knows nothing of sockets.
///
/// The kernel gives descriptors with the first bytes of what they were sent with, and gives nothing after
/// that in the same call. So they belong to the last message that has begun.
#[derive(Debug)]
pub(crate) struct Framer {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position of `start` in the stream.
    position: u64,
    /// Bytes still to be left out.
    skip: u64,
    /// Descriptors, and the positions of the messages to which they belong.
    fds: VecDeque<(u64, Fds)>,
}

impl Framer {
    pub fn new() -> Self {
        Self { buffer: vec![0; BUFFER], start: 0, end: 0, position: 0, skip: 0, fds: VecDeque::new() }
    }

    /// Room for the next bytes, never empty; say [`filled`](Self::filled) afterwards. Only after
    /// [`next`](Self::next) has found no message.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            // A large message is over.
            self.buffer.truncate(BUFFER);
            self.buffer.shrink_to(BUFFER);
        }
        let wanted = self.header_at(self.start).map_or(HEADER_SIZE, |header| header.size as usize);
        let wanted = wanted.min(MAX_MESSAGE as usize).max(BUFFER);
        if self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            self.buffer.resize(wanted.max(self.end + 1), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// `count` bytes were put into the room.
    pub fn filled(&mut self, count: usize, fds: Fds) {
        self.end = (self.end + count).min(self.buffer.len());
        self.leave_out();
        if fds.fds.is_empty() && !fds.too_many {
            return;
        }
        if self.start == self.end {
            // They belong to something that is left out.
            return;
        }
        let position = self.position + (self.last_begun() - self.start) as u64;
        match self.fds.back_mut() {
            Some((at, earlier)) if *at == position => earlier.add(fds),
            _ => self.fds.push_back((position, fds)),
        }
    }

    /// The next message, if it has arrived.
    pub fn next(&mut self) -> Option<Received<'_>> {
        let header = self.header_at(self.start)?;
        let size = header.size as usize;
        if size < HEADER_SIZE {
            self.consume(HEADER_SIZE);
            return Some(Received::Broken(header));
        }
        if header.size > MAX_MESSAGE {
            self.skip = u64::from(header.size);
            self.leave_out();
            return Some(Received::TooLarge(header));
        }
        if self.end - self.start < size {
            return None;
        }
        let fds = self.take_fds();
        let start = self.start;
        self.consume(size);
        let body = &self.buffer[start + HEADER_SIZE..start + size];
        Some(Received::Message(Message { header, body, fds }))
    }

    fn header_at(&self, at: usize) -> Option<Header> {
        self.buffer.get(at..self.end)?.first_chunk().map(Header::parse)
    }

    /// Where the last message begins of which there is at least a byte.
    fn last_begun(&self) -> usize {
        let mut at = self.start;
        while let Some(header) = self.header_at(at) {
            let size = header.size as usize;
            let next = at.saturating_add(size);
            if size < HEADER_SIZE || next >= self.end {
                break;
            }
            at = next;
        }
        at
    }

    fn take_fds(&mut self) -> Fds {
        // Those of a message that was left out go with it.
        while self.fds.front().is_some_and(|(at, _)| *at < self.position) {
            self.fds.pop_front();
        }
        match self.fds.front() {
            Some((at, _)) if *at == self.position => {
                self.fds.pop_front().map(|(_, fds)| fds).unwrap_or_default()
            }
            _ => Fds::default(),
        }
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        self.position += count as u64;
    }

    fn leave_out(&mut self) {
        let count = self.skip.min((self.end - self.start) as u64);
        self.skip -= count;
        self.consume(count as usize);
    }
}

/// Receives bytes and descriptors. 0 bytes: the other side is gone.
///
/// # Errors
/// The system's; `EAGAIN` after the socket's time limit.
pub(crate) fn receive(socket: BorrowedFd<'_>, framer: &mut Framer) -> io::Result<usize> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut iov = [IoSliceMut::new(framer.room())];
        let result = match recvmsg(socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => continue,
            Err(Errno::CONNRESET) => return Ok(0),
            result => result?,
        };
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fds = rights.flatten().collect();
        let too_many = result.flags.contains(ReturnFlags::CTRUNC);
        framer.filled(result.bytes, Fds { fds, too_many });
        return Ok(result.bytes);
    }
}

/// Sends a message in pieces, with descriptors. What has begun is finished or fails; after a failure
/// the other side cannot understand what follows, so the connection must be closed.
///
/// # Errors
/// The system's; `ETIMEDOUT` if the other side has not taken it all in `limit`.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    pieces: &[&[u8]],
    fds: &[BorrowedFd<'_>],
    limit: Duration,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut left = &mut slices[..];
    let mut deadline = None;
    loop {
        let sent = match sendmsg(socket, left, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {
                wait_for_room(socket, *deadline.get_or_insert_with(|| Instant::now() + limit))?;
                continue;
            }
            result => result?,
        };
        IoSlice::advance_slices(&mut left, sent);
        if left.iter().all(|slice| slice.is_empty()) {
            return Ok(());
        }
        // The descriptors are through.
        control.clear();
    }
}

/// Waits until the other side has read something.
fn wait_for_room(socket: BorrowedFd<'_>, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Errno::TIMEDOUT.into());
    }
    let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    match poll(&mut fds, Some(&left)) {
        Ok(0) => Err(Errno::TIMEDOUT.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A connection whose messages are cut.
#[derive(Debug)]
pub(crate) struct Stream<S> {
    socket: S,
    framer: Framer,
}

impl<S: AsFd> Stream<S> {
    pub fn new(socket: S) -> Self {
        Self { socket, framer: Framer::new() }
    }

    /// Waits for the next message. `None`: the other side is gone.
    pub fn next(&mut self) -> io::Result<Option<Received<'_>>> {
        loop {
            // The borrow checker does not see that a message that is returned ends the loop.
            if self.framer.has_next() {
                return Ok(self.framer.next());
            }
            if receive(self.socket.as_fd(), &mut self.framer)? == 0 {
                return Ok(None);
            }
        }
    }
}

impl Framer {
    /// Whether [`next`](Self::next) would give something.
    fn has_next(&self) -> bool {
        self.header_at(self.start).is_some_and(|header| {
            let size = header.size as usize;
            size < HEADER_SIZE || header.size > MAX_MESSAGE || self.end - self.start >= size
        })
    }
}
