//! The command `tombolo`. Everything is in the library, where it can be tested.

fn main() -> std::process::ExitCode {
    tombolo::main()
}
