//! `tombolo serve`, and `tombolo dma` on what it serves: two processes and a socket, no virtual machine.
#![cfg(target_os = "linux")]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{FORMATS, Output, dma, number, tombolo};
use serde_json::Value;
use tempfile::TempDir;

/// Nothing here takes so long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Small enough for a BAR of which each word is a message.
const SMALL: &str = "--size 8K --iterations 3";

/// A process that serves models at sockets `0`, `1`, ... of a directory.
struct Serving {
    child: Child,
    dir: TempDir,
}

impl Serving {
    fn new(models: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
        command.args(["serve", "--json"]);
        for (at, model) in models.iter().enumerate() {
            command.args(["--model", model, "--socket"]).arg(dir.path().join(at.to_string()));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut serving = Self { child: child.expect("the binary starts"), dir };
        // It says so for each model once it is served.
        let mut lines = BufReader::new(serving.child.stderr.as_mut().expect("piped")).lines();
        for (at, model) in models.iter().enumerate() {
            let line = lines.next().expect("it announces the model").expect("it is text");
            assert!(
                line.ends_with(&format!("/{at}: {model} (16c3:edda)")) || line.contains("(10ee:"),
                "{line}"
            );
            assert!(lines.next().is_some_and(|line| line.is_ok_and(|line| line.contains("vfio-user-pci"))));
        }
        drop(lines);
        serving
    }

    fn socket(&self, at: usize) -> PathBuf {
        self.dir.path().join(at.to_string())
    }

    fn device(&self, at: usize) -> String {
        format!("--device vfio-user:{}", self.socket(at).display())
    }

    /// Runs `tombolo dma` on a model.
    fn dma(&self, at: usize, args: &str) -> (i32, Value) {
        dma(&format!("{} --verify {args}", self.device(at)))
    }

    /// Ends it with SIGTERM, and gives back what it counted for each model.
    fn stop(mut self) -> Vec<Value> {
        let kill = Command::new("sh").args(["-c", "kill -TERM $0", &self.child.id().to_string()]).status();
        assert!(kill.expect("there is a shell").success());
        let code = ended(&mut self.child).expect("no signal ended it");
        let mut out = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut out).expect("it is text");
        assert_eq!(code, 0, "{out}");
        assert!(!self.socket(0).exists(), "the socket goes with the server");
        let object: Value = serde_json::from_str(&out).expect("one object");
        object["served"].as_array().expect("a list").clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a process; `None` if a signal ended it.
fn ended(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("its state is known") {
            return status.code();
        }
        assert!(began.elapsed() < LIMIT, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The run was right, by the interrupts that were asked for.
fn assert_right((code, object): (i32, Value), irq: &str) {
    assert_eq!((code, number(&object, "mismatches"), number(&object, "failures")), (0, 0, 0), "{object}");
    assert!(object["error"].is_null() && object["verified"] == Value::Bool(true), "{object}");
    assert_eq!(object["irq_mode"], Value::from(irq), "{object}");
    let interrupts = number(&object, "interrupts");
    assert_eq!(interrupts != 0, irq != "polling", "{object}");
}

#[test]
fn every_format_moves_data_by_msi_x_msi_and_polling() {
    for format in FORMATS {
        let serving = Serving::new(&[&format!("dw-edma:{format}")]);
        for (arg, irq) in [("msix", "msi-x"), ("msi", "msi"), ("polling", "polling")] {
            let (code, object) = serving.dma(0, &format!("--size 100K --sg 3 --iterations 4 --irq {arg}"));
            assert_eq!(object["format"], Value::from(format));
            assert_eq!(number(&object, "transfers"), 16, "{object}");
            assert_right((code, object), irq);
        }
        let served = serving.stop();
        let counters = &served[0]["counters"];
        assert_eq!(number(counters, "clients"), 3);
        assert_eq!((number(counters, "dma_refused"), number(counters, "refused_requests")), (0, 0));
        assert!(number(counters, "message_interrupts") >= 16 && number(counters, "msi_interrupts") >= 16);
    }
}

#[test]
fn every_preset_and_option_is_served_and_driven() {
    let no_list = "--mode non-ll --device-memory 0x5000000000";
    for (model, more, irq) in [
        ("dw-edma:b054", "", "msi-x"),
        ("dw-edma:b00f", "", "msi-x"),
        ("dw-edma:b054,no-list", no_list, "msi-x"),
        ("dw-edma:unroll,trapped", "", "msi-x"),
        ("dw-edma:hdma-native,trapped,irq=msi", "--irq msi", "msi"),
        ("dw-edma:unroll,channels=8,vectors=16,irq=msix", "--channels 8", "msi-x"),
        ("dw-edma:hdma-native,channels=20,vectors=32", "--channels 20 --irq msi", "msi"),
        ("dw-edma:legacy,irq=msix,vectors=3", "--mode cyclic", "msi-x"),
    ] {
        let serving = Serving::new(&[model]);
        println!("{model}");
        assert_right(serving.dma(0, &format!("{SMALL} {more}")), irq);
        serving.stop();
    }
}

#[test]
fn without_a_wish_the_better_messages_of_the_device_are_taken() {
    for (model, irq) in [("dw-edma:unroll", "msi-x"), ("dw-edma:unroll,irq=msi,trapped", "msi")] {
        let serving = Serving::new(&[model]);
        assert_right(serving.dma(0, "--size 100K --iterations 2"), irq);
        serving.stop();
    }
}

#[test]
fn several_models_in_one_process_are_driven_at_once() {
    let serving = Serving::new(&["dw-edma:unroll", "dw-edma:b054", "dw-edma:legacy"]);
    std::thread::scope(|scope| {
        for at in 0..3 {
            let serving = &serving;
            scope.spawn(move || assert_right(serving.dma(at, "--size 64K"), "msi-x"));
        }
    });
    assert_eq!(serving.stop().len(), 3);
}

#[test]
fn what_the_device_cannot_do_is_wrong_usage() {
    let serving = Serving::new(&["dw-edma:unroll"]);
    for args in ["--format legacy", "--channels 3", "--mode non-ll", "--fault lost-interrupt", "--size 1G"] {
        let run = run(&serving, args);
        assert_eq!(run.code, Some(2), "{args}: {run:?}");
        assert!(run.out.is_empty(), "{args}: {run:?}");
    }
}

#[test]
fn what_cannot_be_driven_is_a_failure_with_a_reason() {
    let serving = Serving::new(&["dw-edma:unroll,irq=msi", "dw-edma:b054,no-list"]);
    let (code, object) = serving.dma(0, "--irq msix");
    assert_eq!(code, 1);
    assert!(object["error"].as_str().is_some_and(|error| error.contains("no vectors of msi-x")), "{object}");
    let nobody = dma("--device vfio-user:/nowhere/at/all");
    assert_eq!(nobody.0, 1);
    assert!(
        nobody.1["error"].as_str().is_some_and(|e| e.contains("is a server running there?")),
        "{nobody:?}"
    );
}

#[test]
fn a_server_that_is_killed_under_way_is_a_device_that_is_gone() {
    let mut serving = Serving::new(&["dw-edma:unroll"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["dma", "--json", "--iterations", "1000000", "--size", "64K", "--device"])
        .arg(format!("vfio-user:{}", serving.socket(0).display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("its state is known").is_none(), "it ended before the server did");
    serving.child.kill().expect("it can be stopped");
    assert_eq!(ended(&mut child), Some(1));
    let mut out = String::new();
    child.stdout.take().expect("piped").read_to_string(&mut out).expect("it is text");
    let object: Value = serde_json::from_str(&out).expect("one object");
    assert!(object["error"].as_str().is_some_and(|error| error.contains("gone")), "{object}");
    // What it left behind is in nobody's way.
    let path = serving.socket(0);
    assert!(path.exists());
    let again = Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["serve", "--model", "dw-edma", "--socket"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn();
    let mut again = again.expect("the binary starts");
    let mut line = String::new();
    BufReader::new(again.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is text");
    let (code, object) = dma(&format!("{SMALL} --verify --device vfio-user:{}", path.display()));
    let _ = (again.kill(), again.wait());
    assert_right((code, object), "msi-x");
}

#[test]
fn models_and_sockets_that_do_not_fit_are_refused() {
    let serving = Serving::new(&["dw-edma"]);
    let (taken, file) = (serving.socket(0), serving.dir.path().join("file"));
    std::fs::write(&file, "somebody's").expect("a file");
    let serve = |args: &[&str], path: &Path| {
        let path = path.to_str().expect("it is text");
        let all: Vec<&str> =
            ["serve"].into_iter().chain(args.iter().copied()).chain(["--socket", path]).collect();
        tombolo(&all)
    };
    let free = serving.dir.path().join("free");
    for (args, path, code, says) in [
        (&["--model", "dw-edma"][..], &taken, 1, "another server listens there"),
        (&["--model", "dw-edma"][..], &file, 1, "not a socket"),
        (&["--model", "dw-edma", "--model", "dw-edma"][..], &free, 2, "each model needs its socket"),
        (&["--model", "dw-edma:fast"][..], &free, 2, "no option"),
        (&[][..], &free, 2, "--model"),
    ] {
        let run = serve(args, path);
        assert_eq!(run.code, Some(code), "{run:?}");
        assert!(run.err.contains(says), "{run:?}");
    }
    assert!(!free.exists());
    assert_eq!(std::fs::read_to_string(&file).expect("it is still there"), "somebody's");
    assert_right(serving.dma(0, SMALL), "msi-x");
}

fn run(serving: &Serving, args: &str) -> Output {
    let line = format!("dma {} {args}", serving.device(0));
    tombolo(&line.split_whitespace().collect::<Vec<_>>())
}
