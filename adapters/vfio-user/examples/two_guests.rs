//! Two virtual machines that talk: one process serves both sides of a
//! [bridge](tombolo_sim::bridge), with shared memory (BAR 2), doorbells and scratch registers (BAR 0).
//!
//! ```text
//! cargo run -p tombolo-vfio-user --example two_guests -- /tmp/one.sock /tmp/two.sock [trapped]
//! ```
//!
//! It prints what each QEMU needs, and serves until it is interrupted. `trapped` keeps the memory out of
//! the guests: each access then comes here.

#[cfg(target_os = "linux")]
/// The example itself.
pub mod linux {
    use std::error::Error;
    use std::path::Path;
    use std::sync::{Arc, OnceLock};

    use tombolo_sim::bridge;
    use tombolo_vfio_user::server::{Running, Server, ServerHandle, ServerOptions};

    const MEMORY_BYTES: usize = 1 << 20;

    /// Serves both sides. Ringing a bell posts an event to the other side's server, whose worker then
    /// raises the vector: the ringing machine waits for nothing.
    ///
    /// # Errors
    /// If a side cannot be served.
    pub fn serve(paths: [&Path; 2], options: ServerOptions) -> Result<[Running; 2], Box<dyn Error>> {
        // A server exists only after its model does.
        let handles: [Arc<OnceLock<ServerHandle>>; 2] = Default::default();
        let tell = |number: usize| {
            let handle = handles[number].clone();
            move |bells| {
                // A bell at a side whose events overflow stays in its STATUS register.
                let _ = handle.get().is_some_and(|handle| handle.post_event(bells));
            }
        };
        let (one, two) = bridge::pair(MEMORY_BYTES, tell(1), tell(0));
        let one = Server::bind(paths[0], Box::new(one), options)?;
        let two = Server::bind(paths[1], Box::new(two), options)?;
        let _ = (handles[0].set(one.handle()), handles[1].set(two.handle()));
        Ok([one.spawn()?, two.spawn()?])
    }

    /// Arguments that are none.
    #[derive(Debug, thiserror::Error)]
    #[error("two sockets, please\nusage: two_guests SOCKET SOCKET [trapped]")]
    pub struct Usage;

    /// Does what the arguments say.
    ///
    /// # Errors
    /// If it cannot.
    pub fn run() -> Result<(), Box<dyn Error>> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let (one, two, map_bars) = match &args[..] {
            [one, two] => (one, two, true),
            [one, two, trapped] if trapped == "trapped" => (one, two, false),
            _ => return Err(Box::new(Usage)),
        };
        let options = ServerOptions { map_bars, ..ServerOptions::default() };
        let running = serve([Path::new(one), Path::new(two)], options)?;
        for path in [one, two] {
            println!(
                "-object memory-backend-memfd,id=ram,size=1G,share=on -machine memory-backend=ram \
                 -device '{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"path\":\"{path}\",\"type\":\"unix\"}}}}'"
            );
        }
        for side in running {
            side.join()?;
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match linux::run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::from(if error.is::<linux::Usage>() { 2 } else { 1 })
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!("error: the server exists on Linux only");
    std::process::ExitCode::FAILURE
}
