//! A TCP line to a database that can be cut and restored.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of connections while a line is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// They are closed.
    Closed,
    /// They stay open, and nothing passes, not even later: a firewall has forgotten them.
    Silent,
    /// They stay open, and what was sent arrives when the line is restored: a network that was away for a while.
    Held,
}

/// A line to a database.
#[derive(Debug)]
pub struct Line {
    /// The address of the database at this end of the line.
    pub url: String,
    is_cut: watch::Sender<bool>,
    sent: CutAt,
    answered: CutAt,
}

/// A text that cuts the line when it passes.
type CutAt = Arc<Mutex<Option<&'static str>>>;

impl Line {
    /// A line to the database with this URL.
    ///
    /// # Panics
    /// If the URL has no host, or no port is free.
    pub async fn to(database: &str, outage: Outage) -> Self {
        let (before, far, after) = parts(database).expect("the URL has a host");
        let far = if far.contains(':') { far.to_owned() } else { format!("{far}:5432") };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let near = listener.local_addr().expect("it is bound");
        let (is_cut, sent, answered) = (watch::Sender::new(false), CutAt::default(), CutAt::default());
        let (shared, texts) = (is_cut.clone(), [Arc::clone(&sent), Arc::clone(&answered)]);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(connection(near, far.clone(), outage, shared.clone(), texts.clone()));
            }
        });
        Self { url: format!("{before}{near}{after}"), is_cut, sent, answered }
    }

    /// Cuts the line.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Cuts the line as soon as a client has sent this text, which still arrives.
    pub fn cut_after(&self, text: &'static str) {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Cuts the line as soon as the database answers with this text, which does not arrive.
    pub fn cut_before_answer(&self, text: &'static str) {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Waits until the line is cut.
    pub async fn is_cut(&self) {
        // The sender is in `self`.
        let _ = self.is_cut.subscribe().wait_for(|is_cut| *is_cut).await;
    }

    /// Restores the line.
    pub fn restore(&self) {
        self.is_cut.send_replace(false);
    }
}

/// What is before `HOST:PORT` in a URL, itself, and what is after it.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let authority = url.find("://")? + 3;
    let end = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
    let host = url[authority..end].rfind('@').map_or(authority, |at| authority + at + 1);
    Some((&url[..host], &url[host..end], &url[end..]))
}

async fn connection(
    near: TcpStream,
    far: String,
    outage: Outage,
    is_cut: watch::Sender<bool>,
    [sent, answered]: [CutAt; 2],
) {
    let Ok(far) = TcpStream::connect(far).await else { return };
    let ((from_client, to_client), (from_database, to_database)) = (near.into_split(), far.into_split());
    let there = pass(from_client, to_database, outage, is_cut.clone(), (sent, true));
    let back = pass(from_database, to_client, outage, is_cut, (answered, false));
    tokio::join!(there, back);
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    outage: Outage,
    is_cut: watch::Sender<bool>,
    (text, arrives): (CutAt, bool),
) {
    let (mut buffer, mut cut) = (vec![0; 16 * 1024], is_cut.subscribe());
    loop {
        let read = tokio::select! {
            biased;
            () = async { drop(cut.wait_for(|is_cut| *is_cut).await) }, if outage != Outage::Held => {
                if outage == Outage::Silent {
                    // The connection stays open at both ends.
                    std::future::pending::<()>().await;
                }
                return;
            }
            read = from.read(&mut buffer) => read,
        };
        let Ok(read @ 1..) = read else { return };
        if outage == Outage::Held && cut.wait_for(|is_cut| !is_cut).await.is_err() {
            return;
        }
        let has_text = {
            let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
            let is_there =
                |text: &str| buffer[..read].windows(text.len()).any(|part| part == text.as_bytes());
            text.take_if(|text| is_there(text)).is_some()
        };
        if (arrives || !has_text) && to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
        if has_text {
            is_cut.send_replace(true);
            // The line may be restored before this connection sees that it was cut.
            if outage == Outage::Closed {
                return;
            }
        }
    }
}
