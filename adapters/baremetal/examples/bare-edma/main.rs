//! The `dw-edma` driver on bare metal: finds an engine, opens every channel, and moves random data host → device →
//! host with scatter-gather lists, with interrupts that the engine writes itself.
//!
//! The last line but one on the serial port is a JSON object; the exit status is 0 only if all data arrived, and by
//! interrupts unless polling was asked for. Options on the command line (`-append "key=value ..."`):
//!
//! | key | value | default |
//! |---|---|---|
//! | `irq` | `best`, `msi-x`, `msi`, `polling` | `best` |
//! | `vectors` | at most this many | one a channel |
//! | `rounds` | transfers a channel | 100 |
//! | `seed` | of lengths, cuts and data | 1 |
//! | `memory-bar` | BAR of lists and data | 2 |
//! | `device-memory` | where the engine finds that BAR, if its function does not say | |
//! | `requester-alias` | requester ID with which messages arrive as well | |
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod bring_up;
#[cfg(target_os = "none")]
mod options;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod transfers;

#[cfg(target_os = "none")]
mod bare {
    use tombolo_baremetal::println;
    use tombolo_baremetal::rt::Machine;

    tombolo_baremetal::entry!(main);

    fn main(machine: &'static Machine) -> u8 {
        let result = crate::options::Options::read(machine)
            .and_then(|options| crate::bring_up::run(machine, &options).map(|report| (options, report)));
        match result {
            Ok((options, report)) => {
                let verdict = report.verdict(&options);
                println!("{}", report.json(verdict.err()));
                u8::from(verdict.is_err())
            }
            Err(error) => {
                println!("{{\"error\":\"{error}\"}}");
                2
            }
        }
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("build this for x86_64-unknown-none or aarch64-unknown-none and boot it; see the README");
    std::process::exit(2);
}
