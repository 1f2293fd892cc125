//! What the system says of this process. Linux tells through `/proc`; elsewhere everything is absent.

use std::fs;

/// Ticks of the processor clock in a second, as `/proc` counts them on every Linux in use.
const TICKS_PER_SECOND: f64 = 100.0;

/// Figures of the process, where the system tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    /// Bytes in RAM.
    pub resident: Option<u64>,
    /// Those of them that stand for no file: heap and stacks.
    pub heap: Option<u64>,
    /// Seconds of processor time that it has used.
    pub cpu_seconds: Option<f64>,
}

impl Process {
    /// The figures of this moment.
    pub fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self {
            resident: bytes(&status, "VmRSS:"),
            heap: bytes(&status, "RssAnon:"),
            cpu_seconds: cpu_seconds(&stat),
        }
    }
}

/// A line such as `VmRSS:   1234 kB`.
fn bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

/// User and system time are the 14th and 15th field; the second one, in parentheses, may hold blanks.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read() {
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nRssAnon:\t 1 kB\n";
        assert_eq!(bytes(status, "VmRSS:"), Some(2_097_152));
        assert_eq!(bytes(status, "RssAnon:"), Some(1_024));
        assert_eq!(bytes(status, "VmSwap:"), None);
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 100";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_tells_everything() {
        let process = Process::now();
        assert!(process.resident > process.heap && process.heap > Some(0));
        assert!(process.cpu_seconds.is_some());
    }
}
