//! The socket, and the clients that come one after the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use tombolo_sim::device::Device;

use super::counters::add;
use super::session::{self, Next, Session};
use super::shared::Shared;
use super::{Error, Running, ServerHandle, ServerOptions};
use crate::stream::Stream;

/// Rest after a client that could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);
/// How often signals that a client has left blocked are freed.
const UNBLOCK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// A model at a socket. It serves one client at a time; others wait until it has gone.
///
/// # Examples
/// ```
/// use tombolo_sim::dw_edma::{DwEdma, Format, presets};
/// use tombolo_vfio_user::server::{Server, ServerOptions};
///
/// let dir = tempfile::tempdir()?;
/// let model = DwEdma::new(presets::edda(Format::Unrolled));
/// let server = Server::bind(dir.path().join("edma.sock"), Box::new(model), ServerOptions::default())?;
/// let running = server.spawn()?;
/// // qemu-system-x86_64 … -device '{"driver":"vfio-user-pci","socket":{"path":"…","type":"unix"}}'
/// running.handle().stop();
/// running.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("path", &self.listener.path).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens at `path`. A socket that an earlier server left there is replaced.
    ///
    /// # Errors
    /// [`Error`] if somebody listens there, or the model makes no sense.
    pub fn bind(
        path: impl AsRef<Path>,
        device: Box<dyn Device>,
        options: ServerOptions,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(device, options)?);
        Ok(Self { listener: Listener::bind(path.as_ref())?, shared })
    }

    /// A handle.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle(self.shared.clone())
    }

    /// Serves on threads of its own.
    ///
    /// # Errors
    /// [`Error::System`] if there can be no threads.
    pub fn spawn(self) -> Result<Running, Error> {
        let (handle, shared) = (self.handle(), self.shared.clone());
        let spawn = std::thread::Builder::new().name(format!("{} events", shared.name));
        let worker = spawn.spawn(move || {
            let _stop = StopAtEnd(&shared);
            shared.work();
        });
        let mut running = Running { handle, dispatcher: None, worker: Some(worker.map_err(Error::System)?) };
        let spawn = std::thread::Builder::new().name(self.shared.name.clone());
        let dispatcher = spawn.spawn(move || self.dispatch());
        match dispatcher {
            Ok(thread) => running.dispatcher = Some(thread),
            Err(error) => {
                running.handle.stop();
                return Err(Error::System(error));
            }
        }
        Ok(running)
    }

    /// Serves on this thread, until a [handle](Self::handle) stops it.
    ///
    /// # Errors
    /// [`Error`] if it ends for another reason.
    pub fn run(self) -> Result<(), Error> {
        self.spawn()?.join()
    }

    fn dispatch(self) -> io::Result<()> {
        let shared = &*self.shared;
        let _stop = StopAtEnd(shared);
        while let Some(client) = self.listener.accept(shared)? {
            add(&shared.counters.clients, 1);
            log::info!("{}: a client came", shared.name);
            match serve(shared, client) {
                Ok(()) => log::info!("{}: the client is gone", shared.name),
                Err(error) => log::warn!("{}: the client is gone: {error}", shared.name),
            }
        }
        Ok(())
    }
}

/// Ends the other thread with this one.
struct StopAtEnd<'a>(&'a Shared);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Serves one client until it goes, and forgets it.
fn serve(shared: &Shared, client: UnixStream) -> io::Result<()> {
    let client = Arc::new(client);
    let over = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    std::thread::scope(|scope| {
        let watch = std::thread::Builder::new().name(format!("{} hang-up", shared.name));
        watch.spawn_scoped(scope, || unblock_after_hang_up(shared, client.as_fd(), over.as_fd()))?;
        let _over = SignalAtEnd(&over);
        let result = answer(shared, client.clone());
        shared.client_gone();
        result
    })
}

/// Answers one client until it goes.
fn answer(shared: &Shared, client: Arc<UnixStream>) -> io::Result<()> {
    shared.link.connect(client.clone());
    if shared.is_stopped() {
        // The stop may have come before there was anything to hang up.
        return Ok(());
    }
    let mut stream = Stream::new(client);
    let mut session = Session::new(shared);
    while let Some(received) = stream.next()? {
        let next = session.handle(received);
        session::send(shared, &mut session)?;
        if next == Next::HangUp {
            return Err(io::Error::other("it speaks another protocol"));
        }
    }
    Ok(())
}

/// A client can make both threads wait in a signal (see [`Irqs::unblock`](super::irqs::Irqs::unblock)).
/// That is its own harm, but not after it has gone.
fn unblock_after_hang_up(shared: &Shared, client: BorrowedFd<'_>, over: BorrowedFd<'_>) {
    let mut gone = false;
    loop {
        // A hang-up is always reported.
        let client = PollFd::from_borrowed_fd(client, PollFlags::empty());
        let mut fds = [PollFd::from_borrowed_fd(over, PollFlags::IN), client];
        let (fds, limit) = if gone { (&mut fds[..1], Some(&UNBLOCK_AGAIN)) } else { (&mut fds[..], None) };
        match poll(fds, limit) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return log::error!("{}: poll: {error}", shared.name),
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        gone |= fds.get(1).is_some_and(|client| !client.revents().is_empty());
        if gone {
            shared.irqs.unblock();
        }
    }
}

/// Makes an eventfd readable at the end of a scope.
struct SignalAtEnd<'a>(&'a OwnedFd);

impl Drop for SignalAtEnd<'_> {
    fn drop(&mut self) {
        let _ = rustix::io::write(self.0, &1u64.to_ne_bytes());
    }
}

/// A socket with a name, which goes with it.
#[derive(Debug)]
struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of our socket, so that another server's is left alone.
    file: Option<(u64, u64)>,
}

impl Listener {
    fn bind(path: &Path) -> Result<Self, Error> {
        remove_left_over(path)?;
        let fail = |source| Error::Listen { path: path.to_owned(), source };
        let socket = UnixListener::bind(path).map_err(fail)?;
        socket.set_nonblocking(true).map_err(fail)?;
        Ok(Self { socket, path: path.to_owned(), file: identity(path) })
    }

    /// The next client; `None` when stopped.
    fn accept(&self, shared: &Shared) -> io::Result<Option<UnixStream>> {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(shared.stop_event.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                result => result?,
            };
            if shared.is_stopped() {
                return Ok(None);
            }
            match self.socket.accept() {
                Ok((client, _)) => {
                    client.set_nonblocking(false)?;
                    return Ok(Some(client));
                }
                // Gone again, or too many files are open: the next one may do better.
                Err(error) => {
                    log::debug!("{}: accept: {error}", self.path.display());
                    std::thread::sleep(ACCEPT_AGAIN);
                }
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.file.is_some() && identity(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let data = std::fs::symlink_metadata(path).ok()?;
    Some((data.dev(), data.ino()))
}

/// A socket to which nobody listens is in the way; anything else is somebody's.
fn remove_left_over(path: &Path) -> Result<(), Error> {
    let Ok(data) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !data.file_type().is_socket() {
        return Err(Error::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| Error::Listen { path: path.to_owned(), source })
        }
        _ => Err(Error::InUse(path.to_owned())),
    }
}
