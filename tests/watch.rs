//! Watching: the real binary beside processes that grow, end and come again, and what `--watch` makes
//! of commands and logs.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ringload::observe::watch::{Source, Watch, Zero, kernel_socket_memory};
use ringload::stats::result::{Sample, WatchRow};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use support::ringload;

/// Within this everything has to have happened that is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// `ringload watch`, and the lines that it writes.
struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(arguments: &[&str]) -> Self {
        let mut command = ringload();
        command.arg("watch").args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().expect("ringload starts");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn line(&mut self) -> Value {
        let line = self.lines.next().expect("a line comes").expect("it can be read");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Reads on until a line is as wanted; gives it, and all notes on the way to it.
    #[track_caller]
    fn line_with(&mut self, wanted: impl Fn(&Value) -> bool) -> (Value, Vec<String>) {
        let (deadline, mut all_notes) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let line = self.line();
            let notes = line["notes"].as_array().into_iter().flatten();
            all_notes.extend(notes.map(|note| note.as_str().unwrap().to_owned()));
            if wanted(&line) {
                return (line, all_notes);
            }
            assert!(Instant::now() < deadline, "it never came; the last was {line}");
        }
    }

    fn end(mut self, signal: Signal) -> ExitStatus {
        kill_process(pid(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It has ended where the test came to its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// A shell under a name of its own, which does what is written to it.
struct Server(Child);

impl Server {
    fn start(path: &Path) -> Self {
        Self(Command::new(path).stdin(Stdio::piped()).spawn().unwrap())
    }

    fn grow(&mut self, bytes: u64) {
        let line = format!("x=$(head -c {bytes} /dev/zero | tr '\\0' x)\n");
        self.0.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn process_that_grows_ends_and_comes_again_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("rl-{}", std::process::id());
    let path = directory.path().join(&name);
    symlink("/bin/sh", &path).unwrap();
    let mut watching = Watching::start(&["--name", &name, "--interval", "50ms"]);

    let (first, notes) = watching.line_with(|_| true);
    assert_eq!(first["processes"], Value::Array(Vec::new()));
    assert_eq!(notes, [format!("no process named {name}")]);
    assert!(first["host"].is_string() && first["cpus"].as_u64() >= Some(1), "{first}");
    assert_eq!(first["cpu_user"], Value::Null, "nothing is known of the time before");

    let mut server = Server::start(&path);
    let (line, notes) = watching.line_with(|line| line["processes"][0]["rss"].is_u64());
    let process = &line["processes"][0];
    assert_eq!(process["pid"].as_u64(), Some(u64::from(server.0.id())));
    assert_eq!(process["name"], *name);
    assert_eq!(notes, [format!("{name} (pid {}) came", server.0.id())]);
    assert!(line["cpu_user"].is_number() && process["fds"].as_u64() >= Some(3), "{line}");

    let before = process["rss"].as_u64().unwrap();
    server.grow(20_000_000);
    // A substitution is a second process of the same name, for as long as it runs.
    let has_grown = |line: &Value| {
        let processes = line["processes"].as_array().expect("a list");
        processes.len() == 1 && processes[0]["rss"].as_u64() > Some(before + 15_000_000)
    };
    watching.line_with(has_grown);

    let gone = server.0.id();
    server.end();
    let (_, notes) = watching.line_with(|line| line["processes"] == Value::Array(Vec::new()));
    assert!(notes.contains(&format!("{name} (pid {gone}) went")), "{notes:?}");
    assert!(notes.contains(&format!("no process named {name}")), "{notes:?}");

    let server = Server::start(&path);
    let (line, notes) = watching.line_with(|line| line["processes"][0]["rss"].is_u64());
    assert_ne!(line["processes"][0]["pid"].as_u64(), Some(u64::from(gone)));
    assert!(notes.iter().any(|note| note.ends_with("came")), "{notes:?}");
    server.end();
    assert_eq!(watching.end(Signal::TERM).code(), Some(143));
}

#[test]
fn line_has_the_keys_of_a_sample_and_the_time() {
    let mut watching = Watching::start(&["--interval", "100ms"]);
    let (first, second) = (watching.line(), watching.line());
    let Value::Object(keys) = serde_json::to_value(Sample::default()).unwrap() else { panic!() };
    for key in keys.keys() {
        assert!(second.get(key).is_some(), "{key}");
    }
    let time = |line: &Value, key: &str| line[key].as_f64().unwrap();
    let apart = time(&second, "unix_s") - time(&first, "unix_s");
    let apart_here = time(&second, "t_s") - time(&first, "t_s");
    assert!(apart > 0.05 && (apart - apart_here).abs() < 0.05, "{apart} {apart_here}");
    assert!(second.get("host").is_none(), "the name is in the first line");
    assert_eq!(watching.end(Signal::INT).code(), Some(130));
}

#[test]
fn reader_that_leaves_ends_it() {
    let mut watching = Watching::start(&["--interval", "20ms"]);
    watching.line();
    let Watching { child, lines } = &mut watching;
    *lines = BufReader::new(
        Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.take().unwrap(),
    )
    .lines();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The binary of a debug build touches about twice the code of a release build, where the limit is
/// 4 MiB (docs/watch.md has what was measured); memory of its own is the same in both.
#[test]
fn memory_is_small() {
    let own = std::process::id().to_string();
    let mut watching = Watching::start(&["--pid", &own, "--port", "1", "--interval", "20ms"]);
    for _ in 0..20 {
        watching.line();
    }
    let status = fs::read_to_string(format!("/proc/{}/status", watching.child.id())).unwrap();
    let kib = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).expect(key);
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert!(kib("VmHWM:") <= 8 * 1024, "{status}");
    assert!(kib("RssAnon:") <= 1024, "{status}");
    assert!(kib("Threads:") == 1, "{status}");
}

#[test]
fn group_that_is_not_there_is_wrong_use() {
    let output = ringload().args(["watch", "--cgroup", "/no/such/group"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("/no/such/group") && stderr.contains("/sys/fs/cgroup"), "{stderr}");
}

/// Watches a source until `enough` holds of what it gave, and stops.
#[track_caller]
fn watch_until(source: &str, enough: impl Fn(&Watch) -> bool) -> WatchRow {
    let zero = Zero::now();
    let source: Source = source.parse().unwrap();
    let watch = Watch::start(&[source], Duration::from_millis(50)).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !enough(&watch) {
        assert!(Instant::now() < deadline, "it never came: {:?}", watch.stop(zero));
        thread::sleep(Duration::from_millis(20));
    }
    watch.stop(zero).remove(0)
}

fn has_one(watch: &Watch) -> bool {
    watch.latest(0).is_some()
}

#[test]
fn clock_of_another_machine_is_corrected() {
    let row = watch_until(
        "cmd:while :; do echo \"{\\\"unix_s\\\": $(($(date +%s) + 100)), \\\"run_queue\\\": 3}\"; \
         sleep 0.2; done",
        |watch| watch.latest(0).is_some_and(|sample| sample.t_s > 1.2),
    );
    // The stamps of this test are whole seconds, so that the clock seems up to one less ahead.
    let offset = row.clock_offset_s.unwrap();
    assert!((-100.2..-98.8).contains(&offset), "{offset}");
    assert!(row.gaps[0].contains("s ahead of ours"), "{:?}", row.gaps);
    assert_eq!(row.gaps.len(), 1, "{:?}", row.gaps);
    assert!(row.samples.len() >= 5);
    assert_eq!(row.samples[0].run_queue, Some(3));
    for sample in &row.samples {
        assert!((-1.5..20.0).contains(&sample.t_s), "{}", sample.t_s);
    }
}

#[test]
fn vmstat_of_another_machine_is_read() {
    let row = watch_until(
        "cmd:echo 'procs ---memory--- --cpu--'; \
         echo ' r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st  XYZ'; \
         export TZ=XYZ-5; for i in 1 2 3; do \
         echo \"4 0 0 1000 100 10 0 0 0 0 0 0 60 25 15 0 0 $(date '+%F %T')\"; sleep 0.2; done; sleep 99",
        |watch| watch.latest(0).is_some(),
    );
    let sample = &row.samples[0];
    assert_eq!((sample.cpu_user, sample.cpu_system), (Some(0.6), Some(0.25)));
    assert_eq!((sample.cpus, sample.run_queue), (None, Some(4)));
    assert_eq!(sample.mem_available, Some(1110 * 1024));
    // An hour's zone that nobody knows is no wrong clock.
    assert!(row.clock_offset_s.unwrap().abs() < 1.5, "{:?}", row.clock_offset_s);
    assert!((-1.5..20.0).contains(&sample.t_s), "{}", sample.t_s);
    assert!(row.gaps.is_empty(), "{:?}", row.gaps);
}

#[test]
fn real_binary_is_read_through_a_command() {
    let binary = env!("CARGO_BIN_EXE_ringload");
    let source = format!("cmd:{binary} watch --pid {} --interval 50ms", std::process::id());
    let row = watch_until(&source, |watch| watch.latest(0).is_some_and(|s| s.cpu_user.is_some()));
    assert_eq!(row.source, source);
    let last = row.samples.last().unwrap();
    let own = |process: &&ringload::stats::result::ProcessSample| process.pid == std::process::id();
    assert!(last.processes.iter().find(own).unwrap().rss.unwrap() > 100_000);
    assert!(row.clock_offset_s.unwrap().abs() < 0.5, "{:?}", row.clock_offset_s);
    assert!(row.samples.is_sorted_by(|a, b| a.t_s <= b.t_s));
}

#[test]
fn command_that_ends_is_a_gap_and_says_why() {
    let ended = |command: &str| {
        let zero = Zero::now();
        let source = Source::Command(command.into());
        let watch = Watch::start(&[source], Duration::from_secs(1)).unwrap();
        thread::sleep(Duration::from_millis(500));
        watch.stop(zero).remove(0)
    };
    let row = ended("echo hello; echo 'no route to host' >&2; exit 255");
    assert!(row.samples.is_empty());
    assert!(row.gaps[0].contains("1 line is neither") && row.gaps[0].contains("hello"));
    assert!(row.gaps[1].starts_with("the command ended (exit code 255): no route to host at 0."));
    let row = ended("/no/such/program");
    assert!(row.gaps[0].starts_with("the command ended (not found)"), "{:?}", row.gaps);
    let row = ended("sleep 99");
    assert!(row.gaps[0].starts_with("the command gave no sample"), "{:?}", row.gaps);
}

#[test]
fn command_ends_with_all_that_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let pids: Vec<PathBuf> = ["a", "b"].map(|name| directory.path().join(name)).to_vec();
    let command = format!(
        "trap '' TERM; sleep 98 & echo $! > {}; sleep 99 & echo $! > {}; echo '{{\"unix_s\": 1}}'; wait",
        pids[0].display(),
        pids[1].display()
    );
    watch_until(&format!("cmd:{command}"), has_one);
    for path in pids {
        let pid: i32 = fs::read_to_string(path).unwrap().trim().parse().unwrap();
        // It is a zombie until whoever adopted it looks.
        let is_over = || {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
                || test_kill_process(Pid::from_raw(pid).unwrap()).is_err()
        };
        let deadline = Instant::now() + PATIENCE;
        while !is_over() {
            assert!(Instant::now() < deadline, "{pid} is still there");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn log_is_read_at_the_end_and_only_the_runs_part() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vmstat.log");
    let stamp = |ago_s: u64| {
        let time = jiff::Timestamp::now() - Duration::from_secs(ago_s);
        time.strftime("%Y-%m-%d %H:%M:%S").to_string()
    };
    let row = |ago_s: u64| format!("1 0 0 1 1 1 0 0 0 0 0 0 50 9 41 0 0 {}\n", stamp(ago_s));
    let heading = " r  b swpd free buff cache si so bi bo in cs us sy id wa st UTC\n";
    fs::write(&path, [heading, &row(500), &row(400), &row(300)].concat()).unwrap();
    let source = Source::File(path.clone());
    let zero = Zero::now();
    let watch = Watch::start(std::slice::from_ref(&source), Duration::from_secs(1)).unwrap();
    // A log grows while the load runs.
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(row(0).as_bytes()).unwrap();
    assert_eq!(watch.latest(0), None);
    let rows = watch.stop(zero);
    assert_eq!(rows[0].samples.len(), 1, "{rows:?}");
    assert_eq!(rows[0].samples[0].cpu_user, Some(0.5));
    assert_eq!(rows[0].clock_offset_s, None);
    assert!(rows[0].gaps[0].contains("cannot be compared"), "{:?}", rows[0].gaps);

    fs::remove_file(&path).unwrap();
    let error = Watch::start(&[source], Duration::from_secs(1)).unwrap_err().to_string();
    assert!(error.contains("vmstat.log") && error.contains("before it"), "{error}");
}

#[test]
fn own_process_is_sampled_from_the_start_to_the_end() {
    let zero = Zero::now();
    let sources = [Source::Pid(std::process::id()), Source::System];
    let watch = Watch::start(&sources, Duration::from_millis(100)).unwrap();
    thread::sleep(Duration::from_millis(470));
    let processes = watch.pss_now(0).expect("there is a sample");
    let own = processes.iter().find(|process| process.pid == std::process::id()).unwrap();
    assert!(own.pss.unwrap() > 0 && own.rss.unwrap() > 0, "{own:?}");
    assert_eq!(watch.pss_now(1), Some(Vec::new()), "the machine has no process of its own");
    assert_eq!(watch.pss_now(2), None);
    let rows = watch.stop(zero);
    for row in &rows {
        let (first, last) = (&row.samples[0], row.samples.last().unwrap());
        assert!(first.t_s < 0.4 && last.t_s > 0.4, "{} {}", first.t_s, last.t_s);
        assert!(row.samples.len() >= 3, "{}", row.samples.len());
        assert_eq!((first.cpu_user, last.cpu_user.is_some()), (None, true));
    }
    assert!(rows[0].samples[0].processes.iter().all(|process| process.pss.is_none()));
    assert!(kernel_socket_memory().is_some());
}
