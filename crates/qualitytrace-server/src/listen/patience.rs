//! A connection that must say something before long.
//!
//! Until it is known which HTTP is spoken, nobody else looks at the clock.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose reader gets an error when the other side does not say what it speaks in time.
pub(super) struct Patient<S> {
    stream: S,
    /// `None` once it is known.
    waits: Option<Pin<Box<Sleep>>>,
    /// Bytes of the preface of HTTP/2 that have come.
    begun: usize,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, waits: Some(Box::pin(tokio::time::sleep(patience))), begun: 0 }
    }

    /// Notes what has come.
    fn hear(&mut self, bytes: &[u8]) {
        let left = &PREFACE[self.begun..];
        let is_preface = bytes.len() < left.len() && left.starts_with(bytes);
        self.begun += bytes.len().min(left.len());
        if !is_preface {
            self.waits = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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
            let mut stream = Patient::new(tokio::io::empty(), Duration::from_secs(1));
            for part in bytes {
                stream.hear(part);
            }
            assert_eq!(stream.waits.is_none(), is_known, "{bytes:?}");
        }
    }
}
