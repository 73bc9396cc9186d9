//! A raw HTTP/1.1 client, for requests that no client library would send.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of a response that are kept; the rest is read and counted.
const KEPT: usize = 1 << 20;

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// The beginning of head and body.
    pub text: String,
    /// Its total size.
    pub bytes: u64,
}

/// Sends one request and reads the response until the server closes the connection.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    limit: Duration,
) -> io::Result<Answer> {
    let mut stream = begin(address, method, path, headers, body.len(), limit)?;
    // A server that refuses may close before it has read everything; its response counts.
    let _ = stream.write_all(body);
    answer(&mut stream, limit)
}

/// A connection on which the head of a request was sent.
pub fn begin(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    length: usize,
    limit: Duration,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    write!(stream, "{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n")?;
    if !headers.iter().any(|(name, _)| *name == "host") {
        write!(stream, "host: {address}\r\n")?;
    }
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    stream.write_all(b"\r\n")?;
    Ok(stream)
}

/// Reads a response until the server closes the connection.
pub fn answer(stream: &mut TcpStream, limit: Duration) -> io::Result<Answer> {
    let deadline = Instant::now() + limit;
    let (mut kept, mut bytes, mut buffer) = (Vec::new(), 0, vec![0; 64 * 1024]);
    loop {
        let read = match stream.read(&mut buffer) {
            Ok(read) => read,
            // What was received before a reset counts.
            Err(_) if !kept.is_empty() && status(&kept).is_some() => 0,
            Err(error) => return Err(error),
        };
        if read == 0 {
            break;
        }
        bytes += read as u64;
        let room = KEPT.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(&buffer[..room]);
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    let status = status(&kept).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Answer { status, text: String::from_utf8_lossy(&kept).into_owned(), bytes })
}

fn status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()
}
