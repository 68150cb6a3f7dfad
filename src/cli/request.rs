//! What is asked: method, headers, credentials, body.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::input;
use super::mistake::{Mistake, wrong};
use super::typed::RequestArgs;
use super::values::is_token;
use crate::plan::Header;

/// Sent where the user names none.
const USER_AGENT: &str = concat!("ringload/", env!("CARGO_PKG_VERSION"));

/// What the names of headers contain whose values are nobody's business.
const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "token", "secret", "passw", "key", "session", "signature"];

/// The part of a plan that every request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) headers: Vec<Header>,
    pub(super) body: Option<Vec<u8>>,
    /// Whether the headers say `Connection: close`.
    pub(super) closes: bool,
}

/// One `-H`, read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Typed {
    /// `K: V` and `K;`
    Set(Header),
    /// `K:`
    Remove(String),
}

/// What the flags mean. `host` is the value of the `Host` header; `url_user` are credentials in
/// the URL, as `USER:PASS`.
pub(super) fn asked(
    args: &RequestArgs,
    host: &str,
    url_user: Option<Vec<u8>>,
) -> Result<Asked, Mistake> {
    let typed = args.header.iter().map(|text| header(text)).collect::<Result<Vec<_>, _>>()?;
    let names = |wanted: &str| {
        typed.iter().any(|header| match header {
            Typed::Set(header) => header.name.eq_ignore_ascii_case(wanted),
            Typed::Remove(name) => name.eq_ignore_ascii_case(wanted),
        })
    };
    if args.user_agent.is_some() && names("user-agent") {
        wrong!("--user-agent and -H name the header User-Agent; leave one of them out");
    }
    let user = match &args.user {
        Some(_) if names("authorization") => {
            wrong!("-u and -H name the header Authorization; leave one of them out")
        }
        Some(user) => Some(credentials(user)?),
        None => url_user.filter(|_| !names("authorization")),
    };

    let mut headers = vec![plain("Host", host.as_bytes())];
    let agent = args.user_agent.as_deref().unwrap_or(USER_AGENT);
    // As curl does it, an empty name is none.
    if !agent.is_empty() {
        headers.push(plain("User-Agent", agent.as_bytes()));
    }
    if let Some(user) = user {
        let value = format!("Basic {}", STANDARD.encode(user)).into_bytes();
        headers.push(Header { name: "Authorization".into(), value, secret: true });
    }
    apply(&mut headers, typed)?;
    if let Some(header) = headers.iter().find(|header| !is_value(&header.value)) {
        // The value may be a secret: only the name is shown.
        wrong!(
            "the value of header {} has a line end or a NUL, which would end the header; give one \
             header per -H",
            header.name
        );
    }
    let closes = headers.iter().any(closes);
    let body = args.data.as_deref().map(body).transpose()?;
    let method = args
        .method
        .clone()
        .unwrap_or_else(|| if body.is_some() { "POST".into() } else { "GET".into() });
    Ok(Asked { method, headers, body, closes })
}

/// The name that a `-H` is about, where it can be read.
pub(super) fn name_of(text: &str) -> Option<&str> {
    match text.split_once(':') {
        Some((name, _)) => Some(name.trim()),
        None => text.trim().strip_suffix(';'),
    }
}

/// Puts what was typed in the place of the defaults, or behind them.
fn apply(headers: &mut Vec<Header>, typed: Vec<Typed>) -> Result<(), Mistake> {
    let defaults = headers.len();
    let mut replaced = vec![false; defaults];
    for one in typed {
        let name = match &one {
            Typed::Set(header) => &header.name,
            Typed::Remove(name) => name,
        };
        let default =
            headers[..defaults].iter().position(|header| header.name.eq_ignore_ascii_case(name));
        match (one, default) {
            (Typed::Set(header), Some(index)) if !replaced[index] => {
                headers[index] = header;
                replaced[index] = true;
            }
            (Typed::Set(header), Some(_)) => {
                wrong!("-H names {} twice; a request has one", header.name)
            }
            (Typed::Set(header), None) => headers.push(header),
            (Typed::Remove(_), Some(index)) => {
                // Kept until all are read, so that the places of the defaults stay.
                headers[index].name.clear();
            }
            (Typed::Remove(_), None) => {}
        }
    }
    headers.retain(|header| !header.name.is_empty());
    Ok(())
}

/// Reads one `-H`.
fn header(text: &str) -> Result<Typed, Mistake> {
    let Some((name, value)) = text.split_once(':') else {
        let Some(name) = text.trim_end().strip_suffix(';') else {
            // What follows the first word may be a secret.
            let word = text.split_whitespace().next().unwrap_or_default();
            wrong!(
                "-H \"{}\" has no colon; write 'Name: value', 'Name;' to send it empty, or 'Name:' \
                 to remove a default one",
                word.escape_debug()
            );
        };
        return Ok(Typed::Set(Header {
            name: checked_name(name)?,
            value: Vec::new(),
            secret: false,
        }));
    };
    let name = checked_name(name)?;
    let value = value.trim();
    if value.is_empty() {
        return Ok(Typed::Remove(name));
    }
    let kept = input::kept_elsewhere(&format!("-H {name}"), value)?;
    let secret = kept.is_some() || is_secret(&name);
    let value = kept.unwrap_or_else(|| value.as_bytes().to_vec());
    Ok(Typed::Set(Header { name, value, secret }))
}

/// A header's name, or what is wrong with it.
fn checked_name(name: &str) -> Result<String, Mistake> {
    if is_token(name) {
        return Ok(name.to_owned());
    }
    // What follows the first word may be a secret with a colon in it.
    let mut words = name.split_whitespace();
    let first = words.next().unwrap_or_default().escape_debug();
    let more = if name.contains(char::is_whitespace) {
        " and what follows it before the colon"
    } else {
        ""
    };
    wrong!(
        "-H: \"{first}\"{more} is not the name of a header, which is letters, digits and hyphens \
         without blanks; write 'Name: value'"
    )
}

/// Whether a header of this name carries a credential.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// A header that anyone may see.
fn plain(name: &str, value: &[u8]) -> Header {
    Header { name: name.into(), value: value.to_vec(), secret: false }
}

/// Whether the bytes can stand in a header.
fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0))
}

/// Whether it is a `Connection` with `close` in it.
fn closes(header: &Header) -> bool {
    header.name.eq_ignore_ascii_case("connection")
        && header
            .value
            .split(|&b| b == b',')
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// `USER:PASS`, of which all or the password may stand elsewhere.
fn credentials(text: &str) -> Result<Vec<u8>, Mistake> {
    if let Some(all) = input::kept_elsewhere("-u", text)? {
        if all.contains(&b':') {
            return Ok(all);
        }
        // Neither it nor its name is shown: one who forgot the form may have typed the password.
        wrong!("-u: what was read there has no colon; it must be USER:PASS");
    }
    let Some((user, password)) = text.split_once(':') else {
        wrong!("-u has no colon; write USER:PASS, USER:env:NAME, @FILE or env:NAME");
    };
    if !password.starts_with("env:") {
        return Ok(text.as_bytes().to_vec());
    }
    let password = input::kept_elsewhere("-u", password)?.unwrap_or_default();
    Ok([user.as_bytes(), b":", &password].concat())
}

/// The body, typed or in a file.
fn body(text: &str) -> Result<Vec<u8>, Mistake> {
    match text.strip_prefix('@') {
        Some(path) => input::read("--data", Path::new(path), input::MAX_BODY),
        None => Ok(text.as_bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn read(headers: &[&str], change: impl FnOnce(&mut RequestArgs)) -> Result<Asked, Mistake> {
        let mut args = RequestArgs {
            method: None,
            header: headers.iter().map(|&h| h.to_owned()).collect(),
            user: None,
            data: None,
            user_agent: None,
        };
        change(&mut args);
        asked(&args, "h:8080", None)
    }

    fn lines(asked: &Asked) -> Vec<String> {
        let line = |h: &Header| format!("{}: {}", h.name, String::from_utf8_lossy(&h.value));
        asked.headers.iter().map(line).collect()
    }

    #[test]
    fn nothing_but_host_and_user_agent_by_default() {
        let plain = read(&[], |_| {}).unwrap();
        assert_eq!(lines(&plain), ["Host: h:8080", &format!("User-Agent: {USER_AGENT}")]);
        assert_eq!((plain.method.as_str(), plain.body, plain.closes), ("GET", None, false));
    }

    #[test]
    fn headers_are_set_emptied_and_removed() {
        let all = read(&["X-A: 1", "X-B;", "user-agent:", "host: other", "X-A:2"], |_| {}).unwrap();
        assert_eq!(lines(&all), ["host: other", "X-A: 1", "X-B: ", "X-A: 2"]);
        let agent = read(&[], |args| args.user_agent = Some("me".into())).unwrap();
        assert_eq!(lines(&agent)[1], "User-Agent: me");
        let none = read(&[], |args| args.user_agent = Some(String::new())).unwrap();
        assert_eq!(lines(&none), ["Host: h:8080"]);
    }

    #[test]
    fn data_makes_it_post() {
        let post = read(&[], |args| args.data = Some("a=b".into())).unwrap();
        assert_eq!((post.method.as_str(), post.body.as_deref()), ("POST", Some(&b"a=b"[..])));
        let put = read(&[], |args| {
            args.data = Some("a=b".into());
            args.method = Some("PUT".into());
        });
        assert_eq!(put.unwrap().method, "PUT");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\0\xff\n").unwrap();
        let from_file = read(&[], |args| args.data = Some(format!("@{}", file.path().display())));
        assert_eq!(from_file.unwrap().body.unwrap(), b"\0\xff\n");
    }

    #[test]
    fn connection_close_is_noticed() {
        for (header, expected) in [
            ("Connection: close", true),
            ("connection: keep-alive, CLOSE", true),
            ("Connection: keep-alive", false),
            ("Connection: closed", false),
            ("X-Connection: close", false),
        ] {
            assert_eq!(read(&[header], |_| {}).unwrap().closes, expected, "{header}");
        }
    }

    #[test]
    fn credentials_are_secret() {
        let with = |user: &str| read(&[], |args| args.user = Some(user.into()));
        let basic = with("bob:pa:ss").unwrap();
        let header = &basic.headers[2];
        assert_eq!((header.name.as_str(), header.secret), ("Authorization", true));
        assert_eq!(header.value, b"Basic Ym9iOnBhOnNz");
        let path = std::env::var("PATH").unwrap();
        let expected = format!("Basic {}", STANDARD.encode(format!("bob:{path}")));
        assert_eq!(with("bob:env:PATH").unwrap().headers[2].value, expected.as_bytes());
        for (name, secret) in [
            ("Cookie", true),
            ("X-Api-Key", true),
            ("proxy-authorization", true),
            ("X-CSRF-Token", true),
            ("Accept", false),
            ("X-Env", false),
        ] {
            let header = read(&[&format!("{name}: v")], |_| {}).unwrap().headers.pop().unwrap();
            assert_eq!(header.secret, secret, "{name}");
        }
        assert!(read(&["X-Plain: env:PATH"], |_| {}).unwrap().headers[2].secret);
    }

    #[test]
    fn credentials_in_the_url_give_way() {
        let args = read(&[], |_| {}).map(|_| ());
        assert_eq!(args, Ok(()));
        let mut typed = RequestArgs {
            method: None,
            header: vec!["Authorization: Bearer x".into()],
            user: None,
            data: None,
            user_agent: None,
        };
        let both = asked(&typed, "h", Some(b"bob:pw".to_vec())).unwrap();
        assert_eq!(lines(&both).last().unwrap(), "Authorization: Bearer x");
        typed.header.clear();
        let url = asked(&typed, "h", Some(b"bob:pw".to_vec())).unwrap();
        assert_eq!(lines(&url).last().unwrap(), "Authorization: Basic Ym9iOnB3");
        assert!(url.headers.last().unwrap().secret);
    }

    #[test]
    fn mistakes_are_told_without_the_secret() {
        let wrong_headers = [
            (&["Authorization s3cret"][..], &["Authorization", "no colon", "Name: value"][..]),
            (&["X Y: s3cret"], &["\"X\"", "without blanks"]),
            (&["Authorization s3cret:x"], &["\"Authorization\"", "before the colon"]),
            (&[": s3cret"], &["name of a header"]),
            (&["Host: a", "Host: b"], &["Host", "twice"]),
            (&["X-Key: a\r\ns3cret"], &["X-Key", "line end"]),
            (&["X-Key: @/no/such"], &["-H X-Key", "/no/such"]),
        ];
        for (headers, parts) in wrong_headers {
            let error = read(headers, |_| {}).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{headers:?}: no \"{part}\" in: {error}");
            }
            assert!(!error.contains("s3cret"), "{error}");
        }
        let error = read(&[], |args| args.user = Some("s3cret".into())).unwrap_err().to_string();
        assert!(error.contains("USER:PASS") && !error.contains("s3cret"), "{error}");
        let twice = read(&["authorization: x"], |args| args.user = Some("a:s3cret".into()));
        assert!(twice.unwrap_err().to_string().contains("-u and -H"));
        let twice = read(&["User-Agent:"], |args| args.user_agent = Some("x".into()));
        assert!(twice.unwrap_err().to_string().contains("--user-agent and -H"));
    }

    proptest! {
        #[test]
        fn no_header_gets_past_its_line(text in "[^@]*") {
            if let Ok(asked) = read(&[&text], |_| {}) {
                for header in asked.headers {
                    prop_assert!(is_token(&header.name));
                    prop_assert!(is_value(&header.value));
                }
            }
        }
    }
}
