//! A forwarding proxy: tunnels for TLS, requests with absolute URLs for the rest.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// A running proxy that forwards everything to one server, whatever host is requested.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    /// The request lines of all requests, and their credentials.
    pub(super) seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub(super) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), seen: Arc::default() };
        let seen = proxy.seen.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(forward(client, server, seen.clone()));
            }
        });
        proxy
    }

    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn forward(client: TcpStream, server: SocketAddr, seen: Arc<Mutex<Vec<String>>>) {
    let mut client = BufReader::new(client);
    let mut first = String::new();
    client.read_line(&mut first).await.unwrap();
    let mut head = String::new();
    let mut noted = first.trim_end().to_owned();
    loop {
        let mut line = String::new();
        client.read_line(&mut line).await.unwrap();
        if let Some(credentials) = line.to_lowercase().strip_prefix("proxy-authorization: ") {
            noted = format!("{noted} ({})", credentials.trim());
        } else {
            head.push_str(&line);
        }
        if line.trim_end().is_empty() {
            break;
        }
    }
    seen.lock().unwrap().push(noted);
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    if target.contains("forbidden") {
        client.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        return;
    }
    let mut server = TcpStream::connect(server).await.unwrap();
    if method == "CONNECT" {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    } else {
        let path =
            target.strip_prefix("http://").and_then(|rest| rest.find('/').map(|at| &rest[at..])).unwrap();
        server.write_all(format!("{method} {path} HTTP/1.1\r\n{head}").as_bytes()).await.unwrap();
    }
    let _ = copy_bidirectional(&mut client, &mut server).await;
}
