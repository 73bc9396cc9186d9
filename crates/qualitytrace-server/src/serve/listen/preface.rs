//! Timeouts of a connection: for the first bytes of the client, and for reading responses.
//!
//! Until the version of HTTP is known, hyper applies no timeout; nor does it when the socket accepts no more bytes.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The connection preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes that a client must read within the timeout while data is waiting for it.
const LEAST_PROGRESS: usize = 64 * 1024;

/// A stream whose reads time out until the client has shown which version of HTTP it speaks, and whose writes time out
/// when the client stops reading.
pub(super) struct PrefaceTimeout<S> {
    stream: S,
    /// The timeout for the version of HTTP; `None` once it is known.
    waits: Option<Pin<Box<Sleep>>>,
    /// Bytes of the HTTP/2 preface received so far.
    begun: usize,
    /// How long a client may read less than `LEAST_PROGRESS`.
    write_timeout: Duration,
    /// The timeout of a blocked write, if one is blocked.
    blocked: Option<Pin<Box<Sleep>>>,
    /// Bytes written since the write was blocked.
    written: usize,
}

impl<S> PrefaceTimeout<S> {
    pub(super) fn new(stream: S, timeout: Duration, write_timeout: Duration) -> Self {
        let waits = Some(Box::pin(tokio::time::sleep(timeout)));
        Self { stream, waits, begun: 0, write_timeout, blocked: None, written: 0 }
    }

    /// Applies the write timeout when a write is pending.
    fn check_progress<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            return outcome;
        }
        loop {
            let timeout = self.write_timeout;
            let blocked = self.blocked.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
            ready!(blocked.as_mut().poll(context));
            if self.written < LEAST_PROGRESS {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            (self.blocked, self.written) = (None, 0);
        }
    }

    /// Counts written bytes; a complete write ends the timeout.
    fn note_written(&mut self, outcome: &Poll<io::Result<usize>>, waiting: usize) {
        if let Poll::Ready(Ok(written)) = outcome {
            self.written += written;
            if *written == waiting {
                (self.blocked, self.written) = (None, 0);
            }
        }
    }

    /// Compares received bytes with the preface; ends the timeout when the version is known.
    fn hear(&mut self, bytes: &[u8]) {
        let left = &PREFACE[self.begun..];
        let is_preface = bytes.len() < left.len() && left.starts_with(bytes);
        self.begun += bytes.len().min(left.len());
        if !is_preface {
            self.waits = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefaceTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(waits) = &mut self.waits else { return read };
        if read.is_pending() {
            ready!(waits.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        self.hear(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefaceTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_written(&outcome, bytes.len());
        self.check_progress(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.note_written(&outcome, bytes.iter().map(|part| part.len()).sum());
        self.check_progress(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.check_progress(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check_progress(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_spoken_is_known_by_the_first_byte_that_fits_nothing_else() {
        for (bytes, is_known) in [
            (&[b"G".as_slice()][..], true),
            (&[b"P"], false),
            (&[b"PR", b"I * HT"], false),
            (&[b"P", b"OST"], true),
            (&[PREFACE], true),
            (&[&PREFACE[..10], &PREFACE[10..]], true),
        ] {
            let mut stream = PrefaceTimeout::new(tokio::io::empty(), Duration::from_secs(1), Duration::MAX);
            for part in bytes {
                stream.hear(part);
            }
            assert_eq!(stream.waits.is_none(), is_known, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_given_up_and_a_slow_one_is_not() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

        let timeout = Duration::from_millis(500);
        let (server, mut client) = tokio::io::duplex(1024);
        let mut server = PrefaceTimeout::new(server, timeout, timeout);
        let answer = vec![0; 1 << 20];
        let (written, ()) = tokio::join!(server.write_all(&answer), async {
            let mut piece = vec![0; LEAST_PROGRESS];
            for _ in 0..8 {
                tokio::time::sleep(timeout / 4).await;
                client.read_exact(&mut piece).await.unwrap();
            }
            // Then it reads nothing more.
            tokio::time::sleep(3 * timeout).await;
        });
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
