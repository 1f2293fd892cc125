//! Starts and stops the real program for a test, and keeps what it printed.
//!
//! Each test has a process of its own, on free loopback ports, with an environment that holds only what the test sets.
//! A process that is still there when its test ends is killed; when the test failed, its stderr is printed. Nothing
//! here sleeps: start lines and exits are waited for on the stderr pipe.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a start may take on a loaded machine.
const START: Duration = Duration::from_secs(30);

/// Settings of a process beyond the defaults of its kind.
pub type Env<'a> = [(&'a str, &'a str)];

/// Runs the program to its end, without input: its exit code, and what it printed on stdout and on stderr.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    run_with(arguments, &[])
}

/// The same with variables, whose values need not be text.
pub fn run_with(arguments: &[&str], env: &[(&str, &OsStr)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bunqueue-mcp"));
    command.args(arguments).stdin(Stdio::null());
    command.env_clear().envs(env.iter().copied());
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A running `bunqueue-mcp`.
pub struct Process {
    child: Child,
    stderr: Arc<Stderr>,
}

#[derive(Default)]
struct Stderr {
    printed: Mutex<Printed>,
    changed: Condvar,
}

impl Stderr {
    /// A test that has failed while it held the lock still wants to show what is inside.
    fn lock(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Printed {
    lines: Vec<String>,
    ended: bool,
}

impl Process {
    /// Starts the program; stdin and stdout are pipes.
    pub fn start(arguments: &[&str], env: &Env) -> Self {
        Self::start_from(arguments, env, Stdio::piped())
    }

    /// Starts the program with this stdin.
    pub fn start_from(arguments: &[&str], env: &Env, stdin: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bunqueue-mcp"));
        command.args(arguments);
        Self::run(command, env, stdin)
    }

    fn run(mut command: Command, env: &Env, stdin: Stdio) -> Self {
        let mut child = command
            .env_clear()
            .envs(env.iter().copied())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let stderr = Arc::new(Stderr::default());
        let shared = Arc::clone(&stderr);
        std::thread::spawn(move || {
            for line in pipe.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                shared.lock().lines.push(line);
                shared.changed.notify_all();
            }
            shared.lock().ended = true;
            shared.changed.notify_all();
        });
        Self { child, stderr }
    }

    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("stdin is taken once")
    }

    pub fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("stdout is taken once")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The first line on stderr that contains `part`.
    pub fn line(&self, part: &str) -> String {
        let line = self.line_if_any(part);
        line.unwrap_or_else(|| panic!("no line `{part}` on stderr"))
    }

    /// The same; `None` when the process ends without it.
    pub fn line_if_any(&self, part: &str) -> Option<String> {
        let deadline = Instant::now() + START;
        let mut printed = self.stderr.lock();
        loop {
            if let Some(line) = printed.lines.iter().find(|line| line.contains(part)) {
                return Some(line.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "neither `{part}` on stderr nor its end");
            if printed.ended {
                return None;
            }
            printed = self.stderr.changed.wait_timeout(printed, left).unwrap().0;
        }
    }

    /// Everything printed on stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().lines.join("\n")
    }

    /// Waits for the process to end by itself; `None` when it is still there after `limit`.
    pub fn exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        let mut printed = self.stderr.lock();
        while !printed.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            printed = self.stderr.changed.wait_timeout(printed, left).unwrap().0;
        }
        drop(printed);
        Some(self.child.wait().unwrap())
    }

    /// Kills the process (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        // Fails only when it has ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Resident memory in bytes.
    #[cfg(target_os = "linux")]
    pub fn resident(&self) -> u64 {
        const PAGE: u64 = 4096;
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).unwrap();
        let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        pages * PAGE
    }

    /// The most that was ever resident, in bytes.
    #[cfg(target_os = "linux")]
    pub fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.unwrap().parse::<u64>().unwrap() * 1_024
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "shown with the failed test")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("stderr of the program:\n{}", self.stderr());
        }
    }
}

/// What the line contains that tells where a broker listens.
pub const STARTED: &str = "bunqueue server started (";

const FREE_PORTS: [(&str, &str); 2] = [("TCP_PORT", "0"), ("HTTP_PORT", "0")];

/// A running `bunqueue-mcp serve`.
pub struct Serve {
    pub process: Process,
    /// The worker door.
    pub tcp: SocketAddr,
    /// The agent door.
    pub http: SocketAddr,
}

impl Serve {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(env: &Env) -> Self {
        Self::of(Self::begin(env))
    }

    /// A process that may end before it listens.
    pub fn begin(env: &Env) -> Process {
        Process::start(&["serve"], &[&FREE_PORTS, env].concat())
    }

    /// One that may open only so many files, connections included.
    #[cfg(unix)]
    pub fn start_with_files(most: u32) -> Self {
        let mut command = Command::new("/bin/sh");
        let program = env!("CARGO_BIN_EXE_bunqueue-mcp");
        let limited = format!("ulimit -n {most} && exec \"$0\" serve");
        command.args(["-c", &limited, program]);
        Self::of(Process::run(command, &FREE_PORTS, Stdio::piped()))
    }

    /// Asks the program to end, and waits until it has.
    #[cfg(unix)]
    pub fn end(&mut self) {
        let status = self.stop();
        assert_eq!(status.code(), Some(0), "{}", self.process.stderr());
    }

    /// The same, however it ends.
    #[cfg(unix)]
    pub fn stop(&mut self) -> ExitStatus {
        let pid = self.process.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(sent.expect("kill runs").success());
        self.process.exit(START).expect("the program ends")
    }

    fn of(mut process: Process) -> Self {
        drop(process.stdin());
        let line = process.line(STARTED);
        let secure = line.contains("url: https://");
        let url = ["url: http://", "url: https://"][usize::from(secure)];
        Self {
            tcp: address(&line, "tcp: "),
            http: address(&line, url),
            process,
        }
    }
}

/// The `host:port` after `label` in a start line.
pub fn address(line: &str, label: &str) -> SocketAddr {
    let (_, rest) = line
        .split_once(label)
        .unwrap_or_else(|| panic!("no `{label}` in `{line}`"));
    let end = rest.find([',', '/', ')']).unwrap_or(rest.len());
    rest[..end].parse().unwrap()
}
