//! A server without socket and threads, for tests and fuzzing.

use std::os::fd::OwnedFd;

use tombolo_sim::device::Device;

use super::session::{Next, Session};
use super::shared::Shared;
use super::{Counters, Error, ServerOptions};
use crate::protocol::{HEADER_SIZE, Header};
use crate::stream::{Fds, Framer};

/// The model and all that a server keeps for it.
pub struct Offline {
    pub(super) shared: Shared,
}

impl Offline {
    /// Nothing is served yet.
    pub fn new(device: Box<dyn Device>, options: ServerOptions) -> Result<Self, Error> {
        Ok(Self { shared: Shared::new(device, options)? })
    }

    /// A client comes.
    pub fn client(&self) -> Client<'_> {
        Client {
            shared: &self.shared,
            session: Session::new(&self.shared),
            framer: Framer::new(),
            gone: false,
        }
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.shared.counters.read()
    }

    /// Runs up to `most` of the model's events, whether their time has come or not.
    pub fn run_events(&self, most: usize) {
        for _ in 0..most {
            let Some(event) = self.shared.queue.take() else { return };
            self.shared.run(event);
        }
    }
}

/// A client of it.
pub struct Client<'a> {
    shared: &'a Shared,
    session: Session<'a>,
    framer: Framer,
    gone: bool,
}

impl Client<'_> {
    /// Bytes of the client, and descriptors that come with them. Gives back the replies, each checked to
    /// be a message; nothing more comes after the server hung up.
    ///
    /// # Panics
    /// If a reply is no message, which is a bug.
    pub fn feed(&mut self, mut bytes: &[u8], fds: Vec<OwnedFd>) -> Vec<(Header, Vec<u8>)> {
        let mut replies = Vec::new();
        let mut fds = Fds { fds, too_many: false };
        while !self.gone && !bytes.is_empty() {
            let room = self.framer.room();
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            self.framer.filled(now.len(), std::mem::take(&mut fds));
            bytes = later;
            while let Some(received) = self.framer.next() {
                self.gone = self.session.handle(received) == Next::HangUp;
                let (reply, _) = self.session.reply();
                if let Some((head, body)) = reply.split_first_chunk::<HEADER_SIZE>() {
                    let header = Header::parse(head);
                    assert_eq!(header.size as usize, reply.len(), "the size of a reply is wrong");
                    replies.push((header, body.to_vec()));
                } else {
                    assert!(reply.is_empty(), "a reply without a header");
                }
                if self.gone {
                    break;
                }
            }
        }
        replies
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.shared.client_gone();
    }
}
