//! Servers of a few lines that speak TLS: rustls, buffered, over [`Raw`].

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::SockRef;

use super::raw::Raw;

/// One connection's session over its socket.
pub type Session = StreamOwned<ServerConnection, TcpStream>;

/// A server that hands each connection to a function once the handshake is made; one whose
/// handshake fails hears why, and is closed.
pub fn start(config: Arc<ServerConfig>, answer: impl Fn(Session) + Send + Sync + 'static) -> Raw {
    Raw::start(move |stream| {
        let conn = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut session = StreamOwned::new(conn, stream);
        if shake_hands(&mut session).is_ok() {
            answer(session);
        } else {
            end(&mut session);
        }
    })
}

/// Where a server is asked over TLS.
pub fn url(address: SocketAddr) -> String {
    format!("https://{address}/")
}

fn shake_hands(session: &mut Session) -> io::Result<()> {
    while session.conn.is_handshaking() {
        session.conn.complete_io(&mut session.sock)?;
    }
    Ok(())
}

/// Reads what is still on its way before it closes, so that the close is no RST, which would take
/// what was sent last with it.
fn end(session: &mut Session) {
    let _ = session.sock.shutdown(std::net::Shutdown::Write);
    let _ = io::copy(&mut session.sock, &mut io::sink());
}

/// Reads one request without a body; `false` at the end of the stream.
pub fn read_request(session: &mut Session) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        match session.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// Sends plaintext at once.
pub fn send(session: &mut Session, bytes: &[u8]) -> bool {
    session.write_all(bytes).and_then(|()| session.flush()).is_ok()
}

/// Says the end before it closes.
pub fn say_end(mut session: Session) {
    session.conn.send_close_notify();
    let _ = session.flush();
}

/// Closes with an RST.
pub fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
}

/// Reads the first record a client sends: its ClientHello.
pub fn read_hello(stream: &mut TcpStream) -> Vec<u8> {
    let mut record = vec![0; 5];
    stream.read_exact(&mut record).unwrap();
    let len = u16::from_be_bytes([record[3], record[4]]);
    record.resize(5 + usize::from(len), 0);
    stream.read_exact(&mut record[5..]).unwrap();
    record
}
