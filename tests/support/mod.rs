//! What the tests that run the real binary share.
// Each test file compiles this module for itself and uses a part of it.
#![allow(dead_code)]

pub mod caddy;
pub mod certificates;
pub mod child;
pub mod corpus;
pub mod nginx;
pub mod raw;
pub mod secure;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The binary under test, with nothing on its standard input.
pub fn ringload() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringload"));
    command.stdin(Stdio::null());
    command
}

/// What a run gave.
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// The result, `--json -`.
    pub result: Value,
    /// What it wrote beside the result.
    pub stderr: String,
}

impl Run {
    /// A count out of the result, named by its path: `/counts/completed`.
    ///
    /// # Panics
    /// Where there is no such count.
    #[track_caller]
    pub fn count(&self, path: &str) -> u64 {
        let value = self.result.pointer(path).unwrap_or_else(|| panic!("no {path} in the result"));
        value.as_u64().unwrap_or_else(|| panic!("{path} is no count: {value}"))
    }

    /// Checks what must hold in every result.
    #[track_caller]
    pub fn assert_identities(&self) {
        let count = |name: &str| self.count(&format!("/counts/{name}"));
        assert_eq!(
            count("scheduled"),
            count("started") + count("dropped") + count("unstarted"),
            "{}",
            self.result["counts"]
        );
        assert_eq!(
            count("started"),
            count("completed") + count("failed") + count("unfinished"),
            "{}",
            self.result["counts"]
        );
        let errors = self.result["errors"].as_array().expect("errors is a list");
        let sum: u64 = errors.iter().map(|error| error["count"].as_u64().unwrap()).sum();
        assert_eq!(count("failed"), sum, "{}", self.result["errors"]);
        let status = self.result["status"].as_object().expect("status is a table");
        let answers: u64 = status.values().map(|count| count.as_u64().unwrap()).sum();
        assert!(answers >= count("completed"), "{}", self.result["status"]);
    }
}

/// Runs `ringload run` with these arguments and reads its result.
///
/// # Panics
/// Where it did not start or wrote no result, with what it wrote instead.
#[track_caller]
pub fn run(arguments: &[&str]) -> Run {
    let output = ringload()
        .arg("run")
        .args(arguments)
        .args(["--json", "-", "--progress", "none"])
        .output()
        .expect("ringload starts");
    let Output { status, stdout, stderr } = output;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let result = serde_json::from_slice(&stdout).unwrap_or_else(|error| {
        panic!(
            "no result ({error}) from `ringload run {}`, {status}\nstdout: {}\nstderr: {stderr}",
            arguments.join(" "),
            String::from_utf8_lossy(&stdout)
        )
    });
    Run { code: status.code().expect("no signal ended it"), result, stderr }
}
