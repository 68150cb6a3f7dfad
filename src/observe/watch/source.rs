//! What is watched, as `--watch` names it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One source of samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `name:N`: all processes of that name on this machine.
    Name(String),
    /// `pid:N`: a process of this machine and its descendants.
    Pid(u32),
    /// `port:N`: whoever listens there on this machine, and their descendants.
    Port(u16),
    /// `cgroup:PATH`: a control group of this machine.
    Cgroup(PathBuf),
    /// `system`: this machine, no process.
    System,
    /// `file:PATH`: a log of `vmstat -n -t` or of `ringload watch`, read at the end.
    File(PathBuf),
    /// `cmd:COMMAND`: a command that writes such a log.
    Command(String),
}

/// A source that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError(String);

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SourceError {}

/// What can be written.
const FORMS: &str = "write name:nginx, pid:N, port:8080, cgroup:PATH, system, file:vmstat.log or \
                     cmd:'ssh host ringload watch --name nginx'";

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        if text == "system" {
            return Ok(Self::System);
        }
        let Some((kind, value)) = text.split_once(':') else {
            return Err(SourceError(format!("it has no kind; {FORMS}")));
        };
        // A command's blanks are its own.
        let bare = value.trim();
        let wants = |what: &str| Err(SourceError(format!("{kind}: is followed by {what}")));
        match kind {
            "name" if bare.is_empty() => wants("a process's name, as in name:nginx"),
            "name" if bare.contains('/') => {
                wants("a name without a path, as `ps -e` shows it: name:nginx")
            }
            "name" => Ok(Self::Name(bare.to_owned())),
            "pid" => match bare.parse() {
                Ok(pid) if pid > 0 => Ok(Self::Pid(pid)),
                _ => wants("a process's number, as in pid:1234"),
            },
            "port" => match bare.parse() {
                Ok(port) if port > 0 => Ok(Self::Port(port)),
                _ => wants("a port from 1 to 65535, as in port:8080"),
            },
            "cgroup" if bare.is_empty() => {
                wants("a control group, as in cgroup:/system.slice/nginx.service")
            }
            "cgroup" => Ok(Self::Cgroup(bare.into())),
            "file" if value.is_empty() => wants("a log's name, as in file:vmstat.log"),
            "file" => Ok(Self::File(value.into())),
            "cmd" if bare.is_empty() => wants("a command, as in cmd:'ssh host vmstat -n -t 1'"),
            "cmd" => Ok(Self::Command(value.to_owned())),
            _ => Err(SourceError(format!("there is no kind \"{kind}\"; {FORMS}"))),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "name:{name}"),
            Self::Pid(pid) => write!(f, "pid:{pid}"),
            Self::Port(port) => write!(f, "port:{port}"),
            Self::Cgroup(path) => write!(f, "cgroup:{}", path.display()),
            Self::System => f.write_str("system"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Command(command) => write!(f, "cmd:{command}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_is_read_and_shown_as_typed() {
        let cases = [
            ("name:nginx", Source::Name("nginx".into())),
            ("name:php-fpm: master", Source::Name("php-fpm: master".into())),
            ("pid:12", Source::Pid(12)),
            ("port:8080", Source::Port(8080)),
            ("cgroup:/a/b", Source::Cgroup("/a/b".into())),
            ("system", Source::System),
            ("file:logs/vmstat.log", Source::File("logs/vmstat.log".into())),
            ("cmd:ssh h 'vmstat -n -t 1'", Source::Command("ssh h 'vmstat -n -t 1'".into())),
        ];
        for (text, source) in cases {
            assert_eq!(text.parse(), Ok(source.clone()), "{text}");
            assert_eq!(source.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_remedy() {
        let cases = [
            ("nginx", "name:nginx"),
            ("proc:nginx", "no kind \"proc\""),
            ("name:", "name:nginx"),
            ("name:/usr/sbin/nginx", "without a path"),
            ("pid:0", "pid:1234"),
            ("pid:nginx", "pid:1234"),
            ("port:70000", "65535"),
            ("cgroup:", "cgroup:/"),
            ("file:", "file:vmstat.log"),
            ("cmd: ", "ssh host"),
        ];
        for (text, part) in cases {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_was_read_can_be_read_again(text in "(name|pid|port|cgroup|file|cmd|x)?:?.{0,20}") {
            if let Ok(source) = text.parse::<Source>() {
                prop_assert_eq!(source.to_string().parse::<Source>(), Ok(source));
            }
        }
    }
}
