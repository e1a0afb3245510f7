//! Requests and their answers, on a connection that a thread reads.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::Error;
use super::machine::Machine;
use crate::protocol::{Command, Errno, Header, Kind};
use crate::stream::{self, Fds, Message, Received, Stream};

/// An answer, or the error that it told.
type Answer = Result<(Vec<u8>, Fds), Errno>;

#[derive(Debug, Default)]
struct Calls {
    id: u16,
    /// Who waits, and the answers that have come.
    waiting: HashMap<u16, Option<Answer>>,
}

/// The connection to a server. A server that does not answer in time, or answers nonsense, is gone: from
/// then on everything fails at once.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Arc<UnixStream>,
    calls: Mutex<Calls>,
    answered: Condvar,
    /// Held while something is sent.
    sending: Mutex<()>,
    gone: AtomicBool,
    limit: Duration,
    /// What the server reaches on our side.
    pub machine: Machine,
}

impl Connection {
    /// Connects, and reads from then on.
    pub fn open(path: &Path, limit: Duration) -> Result<Arc<Self>, Error> {
        let fail = |source| Error::Connect { path: path.to_owned(), source };
        let socket = UnixStream::connect(path).map_err(fail)?;
        let connection = Arc::new(Self {
            socket: Arc::new(socket),
            calls: Mutex::default(),
            answered: Condvar::new(),
            sending: Mutex::new(()),
            gone: AtomicBool::new(false),
            limit,
            machine: Machine::default(),
        });
        let (socket, weak) = (connection.socket.clone(), Arc::downgrade(&connection));
        let reader = std::thread::Builder::new().name("vfio-user client".into());
        reader
            .spawn(move || read(socket, &weak))
            .map_err(|source| Error::System { call: "thread::spawn", source })?;
        Ok(connection)
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The server is gone: whoever waits is told.
    pub fn lose(&self) {
        if !self.gone.swap(true, Ordering::Relaxed) {
            log::warn!("the vfio-user server is gone");
        }
        let _ = self.socket.shutdown(Shutdown::Both);
        // Under the lock, so that nobody looks before and sleeps after.
        let _calls = self.lock();
        self.answered.notify_all();
    }

    /// Sends a request and waits for its answer. `what` says in errors what was asked for.
    pub fn call(
        &self,
        what: &'static str,
        command: Command,
        body: &[&[u8]],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Vec<u8>, Fds), Error> {
        if self.is_gone() {
            return Err(Error::Gone { what });
        }
        let id = self.enter().ok_or(Error::Gone { what })?;
        let size = body.iter().map(|piece| piece.len()).sum();
        let sent = self.send(&Header::request(id, command, size, true), body, fds);
        let answer = if sent { self.wait(id) } else { None };
        self.lock().waiting.remove(&id);
        match answer {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(errno)) => Err(Error::Refused { what, errno }),
            None => {
                self.lose();
                Err(Error::Gone { what })
            }
        }
    }

    /// Takes an identifier.
    fn enter(&self) -> Option<u16> {
        let mut calls = self.lock();
        // More callers than identifiers: there are no machines with so many threads.
        let next = (1..=u16::MAX).map(|more| calls.id.wrapping_add(more));
        let id = { next }.find(|id| !calls.waiting.contains_key(id))?;
        calls.id = id;
        calls.waiting.insert(id, None);
        Some(id)
    }

    fn wait(&self, id: u16) -> Option<Answer> {
        let deadline = Instant::now() + self.limit;
        let mut calls = self.lock();
        loop {
            if let Some(answer) = calls.waiting.get_mut(&id)?.take() {
                return Some(answer);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_gone() || left.is_zero() {
                return None;
            }
            calls = self.answered.wait_timeout(calls, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn send(&self, header: &Header, body: &[&[u8]], fds: &[BorrowedFd<'_>]) -> bool {
        let header = header.to_bytes();
        let mut pieces = vec![&header[..]];
        pieces.extend(body);
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        stream::send(self.socket.as_fd(), &pieces, fds, self.limit).is_ok()
    }

    /// A message of the server.
    fn handle(&self, message: Message<'_>) -> bool {
        let Message { header, body, fds } = message;
        match header.kind() {
            Some(Kind::Reply) => {
                let mut calls = self.lock();
                // An answer to a question that nobody asked is dropped.
                if let Some(place) = calls.waiting.get_mut(&header.id) {
                    let answer = header.failed().map_or_else(|| Ok((body.to_vec(), fds)), Err);
                    *place = Some(answer);
                    self.answered.notify_all();
                }
                true
            }
            Some(Kind::Request) => {
                let result = self.machine.request(header.command, body);
                if !header.wants_reply() {
                    return true;
                }
                match result {
                    Ok(answer) => self.send(&header.reply(answer.len()), &[&answer], &[]),
                    Err(errno) => self.send(&header.failure(errno), &[], &[]),
                }
            }
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Ends the thread that reads.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Reads until the connection ends or nobody needs it.
fn read(socket: Arc<UnixStream>, connection: &Weak<Connection>) {
    let mut stream = Stream::new(socket);
    while let Ok(Some(Received::Message(message))) = stream.next() {
        let Some(connection) = connection.upgrade() else { return };
        if !connection.handle(message) {
            break;
        }
    }
    if let Some(connection) = connection.upgrade() {
        connection.lose();
    }
}
