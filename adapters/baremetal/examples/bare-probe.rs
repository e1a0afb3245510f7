//! Prints the PCI tree, with what was assigned, on the serial port.
//!
//! `crash=panic`, `crash=null`, `crash=stack` and `crash=undefined` on the command line show how such things end.
//!
//! `cargo build -p tombolo-baremetal --release --target x86_64-unknown-none --example bare-probe`
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod bare {
    use tombolo_baremetal::pci::FunctionKind;
    use tombolo_baremetal::println;
    use tombolo_baremetal::rt::Machine;
    use tombolo_hal::pci::{BarKind, capabilities};

    tombolo_baremetal::entry!(main);

    fn main(machine: &'static Machine) -> u8 {
        if let Some(how) = machine.option("crash") {
            crash(how);
        }
        let (ecam, tree) = match machine.enumerate() {
            Ok(found) => found,
            Err(error) => {
                println!("{error}");
                return 1;
            }
        };
        println!("{:x?}", machine.apertures());
        for function in tree.functions() {
            let id = function.identity;
            println!("{} {:04x}:{:04x} class {:06x}", function.address, id.vendor, id.device, id.class);
            if let FunctionKind::Bridge { secondary, subordinate, .. } = function.kind {
                println!("    bridge to buses {secondary:02x} to {subordinate:02x}");
            }
            for bar in function.bars.iter().flatten().filter(|bar| bar.kind != BarKind::Io) {
                println!("    BAR {} {:?} {:#x} bytes at {:#x}", bar.index, bar.kind, bar.size, bar.address);
            }
            for capability in capabilities(&ecam.function(function.address)) {
                match capability {
                    Ok(capability) => {
                        println!("    capability {} at {:#x}", capability.id, capability.offset)
                    }
                    Err(error) => println!("    {error}"),
                }
            }
        }
        let (faults, more) = tree.faults();
        faults.iter().for_each(|fault| println!("fault: {fault}"));
        println!("{} functions, {} faults", tree.functions().len(), faults.len() as u32 + more);
        u8::from(!faults.is_empty())
    }

    fn crash(how: &str) {
        match how {
            "panic" => panic!("as asked for"),
            // SAFETY: none; this is what is asked for.
            "null" => unsafe { core::hint::black_box(core::ptr::null_mut::<u32>()).write_volatile(1) },
            "stack" => println!("{}", deeper(core::hint::black_box(u64::MAX))),
            // SAFETY: none.
            "undefined" => unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!("ud2");
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!("udf #0");
            },
            _ => println!("crash={how} is not known"),
        }
    }

    /// Needs more stack than there is.
    fn deeper(depth: u64) -> u64 {
        let room = core::hint::black_box([depth; 128]);
        if depth == 0 { room.iter().sum() } else { deeper(depth - 1).wrapping_add(room[7]) }
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("build this for x86_64-unknown-none or aarch64-unknown-none and boot it; see the README");
    std::process::exit(2);
}
