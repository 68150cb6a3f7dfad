//! What is no answer, or no longer one.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::tls::ClientSession;

/// A client that trusts a server, and that server.
static PAIR: LazyLock<(Client, TestServer)> = LazyLock::new(|| {
    let authority = Authority::named("The Authority");
    let shown = authority.signs(localhost()).followed_by(&authority.certificate);
    let settings = trusting(&[&authority.certificate]);
    let client = Client::new(&settings, &Roots::for_settings(&settings).unwrap()).unwrap();
    (client, shown.server())
});

fn begun(client: &Client) -> (ClientSession, Vec<u8>) {
    let (mut session, mut hello) = (client.session(false).unwrap(), Vec::new());
    session.advance(&mut [], &mut hello, |_| {}).unwrap();
    (session, hello)
}

/// The session ends with a failure that has a name and words, or waits for more.
fn ends_well(session: &mut ClientSession, mut answer: Vec<u8>) -> Option<Failure> {
    let error = session.advance(&mut answer, &mut Vec::new(), |_| {}).err()?;
    let failure = failure::of(&error, false);
    assert!(!failure.detail.is_empty() && !failure.example.is_empty(), "{failure:?}");
    assert!(!failure.example.contains(char::is_control), "{failure:?}");
    Some(failure)
}

#[test]
fn what_is_not_tls_is_told_so() {
    for answer in
        ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "220 mail ready\r\n"]
    {
        let (mut session, _) = begun(&PAIR.0);
        let failure = ends_well(&mut session, answer.into()).expect("it is no TLS");
        assert_eq!((failure.kind, failure.detail), (FaultKind::Handshake, "not-tls"));
        assert!(failure.example.contains("http://"), "{}", failure.example);
    }
}

#[test]
fn every_alert_has_a_name() {
    for code in 0..=u8::MAX {
        let (mut session, _) = begun(&PAIR.0);
        let failure = ends_well(&mut session, vec![21, 3, 3, 0, 2, 2, code]);
        let failure = failure.expect("a fatal alert ends the session");
        let named = failure.detail != "unknown_alert";
        assert!(named || failure.example.contains(&code.to_string()), "{failure:?}");
    }
}

proptest! {
    #[test]
    fn any_bytes_end_in_a_named_failure(
        content in prop_oneof![20_u8..25, any::<u8>()],
        minor in prop_oneof![Just(3_u8), any::<u8>()],
        body in prop::collection::vec(any::<u8>(), 0..200),
        whole in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let (mut session, _) = begun(&PAIR.0);
        ends_well(&mut session, whole);
        let (mut session, _) = begun(&PAIR.0);
        let mut record = vec![content, 3, minor];
        record.extend((body.len() as u16).to_be_bytes());
        record.extend(body);
        ends_well(&mut session, record);
    }

    /// The certificate is in clear in TLS 1.2, so that what is changed reaches its readers.
    #[test]
    fn changed_answers_end_in_a_named_failure(
        tls12 in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (client, server) = &*PAIR;
        let settings = Settings { versions: Versions::Tls12, ..trusting(&[]) };
        let tls12_client = Client::new(&settings, &Roots::none()).unwrap();
        let (mut session, mut hello) = begun(if tls12 { &tls12_client } else { client });
        let mut answer = Vec::new();
        server.session().advance(&mut hello, &mut answer, |_| {}).unwrap();
        for (place, byte) in changes {
            let place = place.index(answer.len());
            answer[place] = byte;
        }
        ends_well(&mut session, answer);
    }
}
