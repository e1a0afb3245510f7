//! A virtual machine: starting it, reading its console, answering it, and its end.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command;
use crate::setup::Folder;

/// The most that a console line has; a guest may print anything.
const LINE_MAX: usize = 64 << 10;

/// What a kernel says when something in it is wrong.
const COMPLAINTS: [&str; 14] = [
    "BUG:",
    "BUG ",
    "WARNING:",
    "Oops",
    "Call Trace",
    "general protection",
    "unable to handle",
    "use-after-free",
    "KFENCE",
    "Redzone overwritten",
    "Object corrupt",
    "refcount_t",
    "hung_task",
    "Kernel panic",
];

/// Which machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// A q35.
    X86,
    /// The virt machine with a GICv3 and its ITS.
    Arm,
}

/// A machine to start.
pub struct Spec {
    /// Which machine.
    pub arch: Arch,
    /// What it boots.
    pub kernel: PathBuf,
    /// Its files, if it boots Linux.
    pub initrd: Option<PathBuf>,
    /// Its command line.
    pub append: String,
    /// Processors.
    pub cpus: u32,
    /// More arguments of QEMU, devices among them.
    pub arguments: Vec<String>,
    /// Whether it may reboot; otherwise a reboot ends it.
    pub reboots: bool,
    /// How long it may take.
    pub limit: Duration,
}

impl Spec {
    /// A Linux guest of one processor. A kernel that oopses stops.
    pub fn linux(kernel: &Path, initrd: PathBuf) -> Self {
        Self {
            arch: Arch::X86,
            kernel: kernel.to_owned(),
            initrd: Some(initrd),
            append: "console=ttyS0 loglevel=1 panic=-1 oops=panic cryptomgr.notests=1".into(),
            cpus: 1,
            arguments: Vec::new(),
            reboots: false,
            limit: Duration::from_secs(180),
        }
    }
}

/// A machine that runs. Dropping it ends it.
pub struct Guest {
    child: Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    deadline: Instant,
    log: PathBuf,
}

impl Guest {
    /// Starts a machine; its console goes to `log`.
    ///
    /// # Errors
    /// If QEMU cannot be started.
    pub fn start(folder: &Folder, spec: &Spec, log: &Path) -> Result<Self> {
        let (program, machine) = match spec.arch {
            Arch::X86 => (
                "usr/bin/qemu-system-x86_64",
                "-M q35,memory-backend=mem,kernel-irqchip=split -cpu max -device isa-debug-exit,iobase=0xf4,iosize=4",
            ),
            Arch::Arm => (
                "usr/bin/qemu-system-aarch64",
                "-M virt,gic-version=3,its=on,memory-backend=mem -cpu cortex-a57 -semihosting-config enable=on,target=native",
            ),
        };
        let mut qemu = folder.debian_program(program, spec.limit);
        qemu.arg("-L").arg(folder.debian("usr/share/qemu")).arg("-L").arg(folder.debian("usr/share/seabios"));
        qemu.args(machine.split(' ')).args("-accel tcg -m 512 -nographic -nodefaults".split(' '));
        if !spec.reboots {
            qemu.arg("-no-reboot");
        }
        qemu.args("-serial stdio -vga none -net none".split(' '));
        qemu.args(["-object", "memory-backend-memfd,id=mem,size=512M,share=on"]);
        qemu.args(["-smp", &spec.cpus.to_string()]).arg("-kernel").arg(&spec.kernel);
        if let Some(initrd) = &spec.initrd {
            qemu.arg("-initrd").arg(initrd);
        }
        qemu.args(["-append", &spec.append]).args(&spec.arguments);
        let mut file = command::append(log)?;
        writeln!(file, "+ {qemu:?}")?;
        let mut child = qemu
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file.try_clone()?)
            .spawn()
            .context("QEMU cannot be started")?;
        let output = child.stdout.take().context("QEMU has a console")?;
        let (sender, lines) = channel();
        let reader = std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = std::io::Read::take(&mut output, LINE_MAX as u64).read_until(b'\n', &mut line)
            {
                let text = clean(&line);
                line.clear();
                let _ = writeln!(file, "{text}");
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        let deadline = Instant::now() + spec.limit;
        Ok(Self { child, lines, reader: Some(reader), deadline, log: log.to_owned() })
    }

    /// The next line of the console; `None` at its end.
    ///
    /// # Errors
    /// If the machine ran out of time.
    pub fn line(&mut self) -> Result<Option<String>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => bail!(
                "the guest ran out of time; the end of {}:\n{}",
                self.log.display(),
                command::tail(&self.log, 0)
            ),
        }
    }

    /// Types a line.
    ///
    /// # Errors
    /// If the machine is gone.
    pub fn answer(&mut self, text: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("the guest has a console")?;
        Ok(writeln!(stdin, "{text}").and_then(|()| stdin.flush())?)
    }

    /// Reads a Linux guest of ours to its end; `asked` does what it asks for and gives the answer.
    ///
    /// # Errors
    /// If it ran out of time, or ended without saying how.
    pub fn talk(mut self, mut asked: impl FnMut(&str) -> Result<String>) -> Result<Transcript> {
        let mut transcript = Transcript::default();
        let mut dmesg = false;
        while let Some(line) = self.line()? {
            if dmesg {
                dmesg = line != "TOMBOLO-DMESG-END";
                if dmesg {
                    transcript.dmesg.push(line);
                }
                continue;
            }
            // What the kernel printed last may have no line end.
            let Some((_, said)) = line.split_once("TOMBOLO-") else { continue };
            let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
            match word {
                "DMESG" => dmesg = true,
                "ASK" => match asked(rest) {
                    Ok(answer) => self.answer(&answer)?,
                    Err(error) => {
                        transcript.failures.push(format!("{rest}: {error:#}"));
                        self.answer("failed")?;
                    }
                },
                "RESULT" => {
                    let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                    transcript.results.push((name.to_owned(), text.to_owned()));
                }
                "FACT" => transcript.facts.push(rest.to_owned()),
                "FAIL" => transcript.failures.push(rest.to_owned()),
                "EXIT" => transcript.ended = true,
                _ => {}
            }
        }
        self.child.wait()?;
        if !transcript.ended {
            bail!("the guest died; the end of {}:\n{}", self.log.display(), command::tail(&self.log, 0));
        }
        Ok(transcript)
    }

    /// Waits for the machine's end and gives QEMU's exit status.
    ///
    /// # Errors
    /// If it ran out of time.
    pub fn wait(mut self) -> Result<(Vec<String>, Option<i32>)> {
        let mut lines = Vec::new();
        while let Some(line) = self.line()? {
            lines.push(line);
        }
        Ok((lines, self.child.wait()?.code()))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The child is `timeout`, which passes the signal on to QEMU.
        if let Ok(None) = self.child.try_wait() {
            if let Some(pid) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let _ = self.child.wait();
        }
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// A console line without line end and terminal codes.
fn clean(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut cleaned = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                if characters.next() == Some('[') {
                    let _ = characters.by_ref().find(|code| code.is_ascii_alphabetic());
                }
            }
            '\r' | '\n' => {}
            other => cleaned.push(other),
        }
    }
    cleaned
}

/// What a Linux guest of ours said.
#[derive(Debug, Default)]
pub struct Transcript {
    /// Results by name.
    pub results: Vec<(String, String)>,
    /// Facts for the report.
    pub facts: Vec<String>,
    /// What went wrong.
    pub failures: Vec<String>,
    /// The kernel's log.
    pub dmesg: Vec<String>,
    ended: bool,
}

impl Transcript {
    /// Results of this name, as JSON.
    ///
    /// # Errors
    /// If one is none.
    pub fn json(&self, name: &str) -> Result<Vec<Value>> {
        let texts = self.results.iter().filter(|(found, _)| found == name).map(|(_, text)| text);
        let parse =
            |text: &String| serde_json::from_str(text).with_context(|| format!("{name}: not JSON: {text}"));
        texts.map(parse).collect()
    }

    /// The one result of this name, as JSON.
    ///
    /// # Errors
    /// If there is none, or several.
    pub fn one(&self, name: &str) -> Result<Value> {
        let mut all = self.json(name)?;
        match (all.pop(), all.is_empty()) {
            (Some(one), true) => Ok(one),
            (_, _) => bail!("the guest gave not one result {name}"),
        }
    }

    /// Takes failures and complaints of the kernel as an error.
    ///
    /// # Errors
    /// If there are any.
    pub fn check(&self) -> Result<()> {
        let mut wrong = self.failures.clone();
        wrong.extend(self.complaints().into_iter().map(|line| format!("the kernel said: {line}")));
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
    }

    /// Lines of the kernel's log that tell of a fault in the kernel.
    pub fn complaints(&self) -> Vec<String> {
        let bad = |line: &&String| COMPLAINTS.iter().any(|complaint| line.contains(complaint));
        self.dmesg.iter().filter(bad).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_codes_and_line_ends_are_no_part_of_a_line() {
        assert_eq!(clean(b"\x1b[2J\x1b[0;31mTOMBOLO-EXIT 0\x1b[m\r\n"), "TOMBOLO-EXIT 0");
        assert_eq!(clean(b"\xff\x1b"), "\u{fffd}");
    }

    #[test]
    fn a_fault_in_the_kernels_log_fails_the_guest() {
        let mut transcript = Transcript { dmesg: vec!["[1.0] all is well".into()], ..Transcript::default() };
        assert!(transcript.check().is_ok());
        transcript.dmesg.push("[2.0] BUG: KFENCE: use-after-free read".into());
        assert!(transcript.check().unwrap_err().to_string().contains("KFENCE"));
    }

    #[test]
    fn a_result_that_is_missing_doubled_or_no_json_is_an_error() {
        let mut transcript = Transcript::default();
        assert!(transcript.one("dma").is_err());
        transcript.results.push(("dma".into(), "{\"passed\":true}".into()));
        assert_eq!(transcript.one("dma").unwrap()["passed"], true);
        transcript.results.push(("dma".into(), "{}".into()));
        assert!(transcript.one("dma").is_err());
        transcript.results.push(("other".into(), "nonsense".into()));
        assert!(transcript.one("other").is_err());
    }
}
