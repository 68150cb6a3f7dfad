//! What each path asks for.

use crate::clock::Nanos;
use crate::units::{parse_duration, parse_size};

/// The paths of the embedded server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// `/`: two bytes.
    Root,
    /// `/bytes/N`
    Bytes(u64),
    /// `/chunked/N`
    Chunked(u64),
    /// `/status/CODE`, a final status.
    Status(u16),
    /// `/delay/T` or `/delay/T..T`, nanoseconds, both ends included.
    Delay(Nanos, Nanos),
    /// `/cpu/T`, nanoseconds.
    Cpu(Nanos),
    /// `/close`: the answer, and the connection closed.
    Close,
    /// `/reset`: RST in place of an answer.
    Reset,
    /// `/truncate/N`: fewer bytes than the head promises, at least 1.
    Truncate(u64),
    /// `/never`: no answer.
    Never,
    /// `/slow/N/T`: N bytes spread over T nanoseconds.
    Slow(u64, Nanos),
    /// `/stats`
    Stats,
    /// `/stats/reset`
    StatsReset,
    /// Any other.
    Unknown,
}

impl Path {
    /// The path of a request's target: a query is ignored, an absolute URL is taken too.
    #[must_use]
    pub fn of(target: &str) -> Self {
        let path = target.find(['?', '#']).map_or(target, |end| &target[..end]);
        let Some(path) = without_origin(path) else { return Self::Unknown };
        let mut parts = path.split('/');
        let parts = (parts.next(), parts.next(), parts.next(), parts.next());
        match parts {
            (Some(""), None, None, None) => Some(Self::Root),
            (Some("bytes"), Some(n), None, None) => size(n).map(Self::Bytes),
            (Some("chunked"), Some(n), None, None) => size(n).map(Self::Chunked),
            (Some("status"), Some(code), None, None) => status(code).map(Self::Status),
            (Some("delay"), Some(range), None, None) => delay(range),
            (Some("cpu"), Some(time), None, None) => duration(time).map(Self::Cpu),
            (Some("close"), None, None, None) => Some(Self::Close),
            (Some("reset"), None, None, None) => Some(Self::Reset),
            (Some("truncate"), Some(n), None, None) => {
                size(n).filter(|&n| n > 0).map(Self::Truncate)
            }
            (Some("never"), None, None, None) => Some(Self::Never),
            (Some("slow"), Some(n), Some(time), None) => {
                size(n).zip(duration(time)).map(|(n, time)| Self::Slow(n, time))
            }
            (Some("stats"), None, None, None) => Some(Self::Stats),
            (Some("stats"), Some("reset"), None, None) => Some(Self::StatsReset),
            _ => None,
        }
        .unwrap_or(Self::Unknown)
    }
}

/// What follows the first slash of the path; of an absolute URL, behind its authority.
fn without_origin(path: &str) -> Option<&str> {
    if let Some(path) = path.strip_prefix('/') {
        return Some(path);
    }
    let (_, rest) = path.split_once("://")?;
    Some(rest.split_once('/').map_or("", |(_, path)| path))
}

fn size(text: &str) -> Option<u64> {
    parse_size(text).ok()
}

fn duration(text: &str) -> Option<Nanos> {
    parse_duration(text).ok()
}

/// A final status: an interim one is no answer.
fn status(text: &str) -> Option<u16> {
    text.parse().ok().filter(|code| text.len() == 3 && (200..600).contains(code))
}

fn delay(text: &str) -> Option<Path> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = duration(from).zip(duration(to))?;
    (from <= to).then_some(Path::Delay(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_path() {
        for (target, path) in [
            ("/", Path::Root),
            ("/?a=/b", Path::Root),
            ("http://host:1/", Path::Root),
            ("http://host", Path::Root),
            ("http://host?a/b", Path::Root),
            ("/bytes/700", Path::Bytes(700)),
            ("/bytes/25KiB#x", Path::Bytes(25 * 1024)),
            ("http://host/chunked/1MB", Path::Chunked(1_000_000)),
            ("/status/404", Path::Status(404)),
            ("/delay/1ms", Path::Delay(1_000_000, 1_000_000)),
            ("/delay/1ms..20ms", Path::Delay(1_000_000, 20_000_000)),
            ("/cpu/500us", Path::Cpu(500_000)),
            ("/close", Path::Close),
            ("/reset", Path::Reset),
            ("/truncate/10", Path::Truncate(10)),
            ("/never", Path::Never),
            ("/slow/10/1s", Path::Slow(10, 1_000_000_000)),
            ("/stats", Path::Stats),
            ("/stats/reset", Path::StatsReset),
        ] {
            assert_eq!(Path::of(target), path, "{target}");
        }
    }

    #[test]
    fn any_other_is_unknown() {
        for target in [
            "",
            "*",
            "host:443",
            "//",
            "/bytes",
            "/bytes/",
            "/bytes/x",
            "/bytes/1/2",
            "/status/100",
            "/status/600",
            "/status/+200",
            "/delay/2ms..1ms",
            "/delay/1",
            "/truncate/0",
            "/slow/1",
            "/slow/1/1s/1",
            "/stats/",
            "/stat",
            "/close/",
        ] {
            assert_eq!(Path::of(target), Path::Unknown, "{target}");
        }
    }
}
