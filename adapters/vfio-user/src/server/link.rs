//! The way to the client: replies of the dispatcher and messages of the worker, one at a time and whole.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::protocol::{Command, HEADER_SIZE, Header};
use crate::stream;

/// Messages that the client may leave undone: it carries them out only when its main loop comes to it,
/// and keeps the rest in its memory.
const MOST_UNDONE: u64 = 1024;
/// Every so many messages the client is asked to say when it is done.
const ASK_EVERY: u64 = 64;

#[derive(Debug)]
struct Peer {
    socket: Arc<UnixStream>,
    /// Versions are agreed on.
    ready: bool,
    sent: u64,
    done: u64,
    /// Messages that will be answered: identifier, and how many were sent up to it.
    asked: VecDeque<(u16, u64)>,
}

/// The connection to the client, if there is one.
#[derive(Debug)]
pub(super) struct Link {
    /// Held while something is sent.
    peer: Mutex<Option<Peer>>,
    /// The same socket, for those who must not wait.
    socket: Mutex<Option<Arc<UnixStream>>>,
    limit: Duration,
}

impl Link {
    /// A client that does not read for `limit` is disconnected.
    pub fn new(limit: Duration) -> Self {
        Self { peer: Mutex::new(None), socket: Mutex::new(None), limit }
    }

    /// A client came.
    pub fn connect(&self, socket: Arc<UnixStream>) {
        *lock(&self.socket) = Some(socket.clone());
        let asked = VecDeque::new();
        *lock(&self.peer) = Some(Peer { socket, ready: false, sent: 0, done: 0, asked });
    }

    /// The client is gone.
    pub fn disconnect(&self) {
        *lock(&self.peer) = None;
        *lock(&self.socket) = None;
    }

    pub fn is_connected(&self) -> bool {
        lock(&self.socket).is_some()
    }

    /// Ends the connection; whoever sends or receives notices.
    pub fn hang_up(&self) {
        if let Some(socket) = &*lock(&self.socket) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// From now on messages can be sent.
    pub fn ready(&self) {
        if let Some(peer) = &mut *lock(&self.peer) {
            peer.ready = true;
        }
    }

    /// Sends a reply.
    pub fn reply(&self, message: &[u8], fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        match &mut *lock(&self.peer) {
            Some(peer) => peer.send(message, fd.as_slice(), self.limit),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Has the client write `data` at `address` of its memory. It is not waited for: the client's
    /// processor may be waiting for us.
    pub fn write_memory(&self, address: u64, data: u32) -> bool {
        match &mut *lock(&self.peer) {
            Some(peer) if peer.ready && peer.sent - peer.done < MOST_UNDONE => {
                let message = peer.message(address, data);
                peer.send(&message, &[], self.limit).is_ok()
            }
            _ => false,
        }
    }

    /// A reply of the client. False if it says that a message was refused.
    pub fn replied(&self, header: &Header) -> bool {
        if let Some(peer) = &mut *lock(&self.peer)
            && let Some(at) = peer.asked.iter().position(|(id, _)| *id == header.id)
        {
            // They are carried out in their order.
            peer.done = peer.asked.drain(..=at).next_back().map_or(peer.done, |(_, sent)| sent);
        }
        // QEMU tells of an error whether asked or not.
        header.failed().is_none()
    }
}

impl Peer {
    /// A `DMA_WRITE`: address, count, data. QEMU 11.1 and the specification have a 64-bit count.
    fn message(&mut self, address: u64, data: u32) -> Vec<u8> {
        self.sent += 1;
        let id = self.sent as u16;
        let ask = self.sent.is_multiple_of(ASK_EVERY);
        if ask {
            self.asked.push_back((id, self.sent));
        }
        let mut message = Vec::with_capacity(HEADER_SIZE + 20);
        Header::request(id, Command::DmaWrite, 20, ask).put(&mut message);
        message.extend_from_slice(&address.to_le_bytes());
        message.extend_from_slice(&4u64.to_le_bytes());
        message.extend_from_slice(&data.to_le_bytes());
        message
    }

    fn send(&mut self, message: &[u8], fds: &[BorrowedFd<'_>], limit: Duration) -> io::Result<()> {
        let result = stream::send(self.socket.as_fd(), &[message], fds, limit);
        if result.is_err() {
            // A part may have been sent: nothing after it could be understood.
            let _ = self.socket.shutdown(Shutdown::Both);
            self.ready = false;
        }
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
