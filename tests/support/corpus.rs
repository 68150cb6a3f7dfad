//! The corpus of HTTP/1.x messages that nobody on this project wrote, with what independent
//! references say of them. It lies outside the repository: in `corpus/` under the directory that
//! `RINGLOAD_SHARED` names, or under `../shared`.
#![allow(dead_code, reason = "each test that shares this uses its own part")]

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The files of responses.
const RESPONSES: [&str; 3] =
    ["llhttp_responses.jsonl", "curl_responses.jsonl", "other_responses.jsonl"];

/// Where the corpus is, or `None` where this machine has none.
pub fn directory() -> Option<PathBuf> {
    let shared = std::env::var_os("RINGLOAD_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let corpus = shared.join("corpus");
    corpus.is_dir().then_some(corpus)
}

/// One response.
pub struct ResponseCase {
    /// Unique, and the same on every reading.
    pub id: String,
    /// Whether it answers a HEAD request.
    pub head_request: bool,
    /// What the server sends.
    pub bytes: Vec<u8>,
    /// The same with CRLF for the line ends of its head, where the source has bare LF.
    pub crlf: Option<Vec<u8>>,
    /// Whether the server closes the connection after it.
    pub server_closes: bool,
    /// What the reference says.
    pub summary: Summary,
}

/// What a reference says of a response.
#[derive(Deserialize)]
pub struct Summary {
    pub verdict: Verdict,
    /// Statuses of the interim responses.
    pub interim: Vec<u16>,
    pub status: Option<u16>,
    /// After de-chunking.
    pub body_len: Option<u64>,
    /// Of the final head.
    pub headers_count: Option<usize>,
    pub keep_alive: Option<bool>,
}

/// How a response ends, to a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Complete by its own framing.
    Accept,
    /// Complete when the server closes.
    AcceptAtEof,
    /// Only the head was judged.
    AcceptHead,
    /// Cut short.
    Incomplete,
    /// Malformed.
    Reject,
    /// Not judged: the client must survive it.
    None,
}

/// One stream of requests, for a server.
pub struct RequestCase {
    /// Unique, and the same on every reading.
    pub id: String,
    /// What the client sends.
    pub bytes: Vec<u8>,
    /// Requests that are complete.
    pub complete: usize,
    /// Whether the reference refuses what follows those.
    pub refused: bool,
}

/// All responses but those for parsers that were asked to forgive.
pub fn responses(corpus: &Path) -> Vec<ResponseCase> {
    let rows = RESPONSES.iter().flat_map(|name| read::<ResponseRow>(&corpus.join(name)));
    rows.filter(|row| is_strict(row.mode.as_deref()))
        .map(|row| ResponseCase {
            head_request: row.request_method == "HEAD",
            bytes: decode(&row.response_b64),
            crlf: row.response_crlf_b64.as_deref().map(decode),
            server_closes: row.server_closes_after_reply.unwrap_or(true),
            summary: row.summary,
            id: row.id,
        })
        .collect()
}

/// All streams of requests but those for parsers that were asked to forgive.
pub fn requests(corpus: &Path) -> Vec<RequestCase> {
    read::<RequestRow>(&corpus.join("requests.jsonl"))
        .into_iter()
        .filter(|row| is_strict(row.mode.as_deref()))
        .map(|row| RequestCase {
            id: row.id,
            bytes: decode(&row.request_b64),
            complete: row.expect.messages.iter().filter(|message| message.complete).count(),
            refused: row.expect.error.is_some(),
        })
        .collect()
}

#[derive(Deserialize)]
struct ResponseRow {
    id: String,
    mode: Option<String>,
    request_method: String,
    response_b64: String,
    response_crlf_b64: Option<String>,
    server_closes_after_reply: Option<bool>,
    summary: Summary,
}

#[derive(Deserialize)]
struct RequestRow {
    id: String,
    mode: Option<String>,
    request_b64: String,
    expect: RequestExpect,
}

#[derive(Deserialize)]
struct RequestExpect {
    messages: Vec<RequestMessage>,
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct RequestMessage {
    complete: bool,
}

fn is_strict(mode: Option<&str>) -> bool {
    mode.is_none_or(|mode| mode == "strict")
}

fn decode(text: &str) -> Vec<u8> {
    STANDARD.decode(text).expect("the corpus is base64")
}

fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
    text.lines()
        .map(|line| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("a row of {}: {error}", path.display()))
        })
        .collect()
}
