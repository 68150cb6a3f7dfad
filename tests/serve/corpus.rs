//! Requests that nobody on this project wrote, where the corpus is present.

use std::path::Path;

use base64::Engine;
use ringload::serve::Server;
use serde_json::Value;

use super::client::{Client, start};

/// Says where the corpus is, if not at [`CORPUS`].
const VARIABLE: &str = "RINGLOAD_CORPUS";
const CORPUS: &str = "/work/shared/corpus";

/// Rows where this server differs on purpose, by the end of their id, with the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    ("connection:542", "Upgrade is ignored (RFC 9110, 7.8); what follows is read as a request"),
];

struct Case {
    id: String,
    bytes: Vec<u8>,
    /// Requests that are complete, before any error.
    complete: usize,
    error: bool,
}

fn cases() -> Option<Vec<Case>> {
    let folder = std::env::var(VARIABLE).unwrap_or_else(|_| CORPUS.to_owned());
    let text = std::fs::read_to_string(Path::new(&folder).join("requests.jsonl")).ok()?;
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let strict = rows.filter(|row| row["mode"] == "strict");
    Some(strict.map(|row| case(&row)).collect())
}

fn case(row: &Value) -> Case {
    let base64 = base64::engine::general_purpose::STANDARD;
    let messages = row["expect"]["messages"].as_array().expect("messages");
    Case {
        id: row["id"].as_str().expect("an id").to_owned(),
        bytes: base64.decode(row["request_b64"].as_str().expect("text")).expect("base64"),
        complete: messages.iter().filter(|message| message["complete"] == true).count(),
        error: !row["expect"]["error"].is_null(),
    }
}

/// The statuses of the answers to bytes that are sent in these parts, then the client's end.
fn statuses<'a>(server: &Server, parts: impl Iterator<Item = &'a [u8]>) -> Vec<u16> {
    let mut client = Client::connect(server);
    for part in parts {
        // A server that has refused may have closed already.
        if std::io::Write::write_all(&mut client.stream, part).is_err() {
            break;
        }
    }
    let _ = client.stream.shutdown(std::net::Shutdown::Write);
    let rest = client.rest().expect("an orderly end");
    let text = String::from_utf8(rest).expect("text");
    let heads = text.match_indices("HTTP/1.1 ");
    heads.map(|(at, _)| text[at + 9..at + 12].parse().expect("a status")).collect()
}

/// Whether the answers are what the corpus asks for: one for each complete request, and after an
/// error 400 or the end of the connection.
fn holds(case: &Case, statuses: &[u16]) -> bool {
    let answered = statuses.iter().filter(|&&status| status != 400).count();
    let refused = statuses.len() - answered;
    let refused_last = refused == 0 || (refused == 1 && statuses.last() == Some(&400));
    answered == case.complete && refused_last && (case.error || refused == 0)
}

#[test]
fn requests_of_the_corpus() {
    let Some(cases) = cases() else {
        println!("skipped: no corpus; {VARIABLE} says where it is");
        return;
    };
    let server = start();
    let (mut passed, mut differing, mut wrong) = (0, 0, Vec::new());
    for case in &cases {
        let whole = statuses(&server, std::iter::once(&case.bytes[..]));
        let bytewise = statuses(&server, case.bytes.chunks(1));
        assert_eq!(whole, bytewise, "{}: the split changes the answer", case.id);
        let listed = DIFFERENCES.iter().any(|(id, _)| case.id.ends_with(&format!("/{id}")));
        match (holds(case, &whole), listed) {
            (true, false) => passed += 1,
            (false, true) => differing += 1,
            _ => wrong.push(format!("{} {whole:?} {:?}", case.id, case.bytes.escape_ascii().to_string())),
        }
    }
    println!("{passed} of {} requests hold, {differing} differ on purpose", cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
