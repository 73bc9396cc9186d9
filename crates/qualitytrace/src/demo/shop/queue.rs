//! The message queue between the gateway and the worker: a separate broker in a real system, a task here.
//!
//! A frame is a length (four bytes, big endian) and that many bytes of JSON. A connection either publishes (each frame
//! is acknowledged when the message is queued) or consumes (messages are pushed to it).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Stop;

/// Limit on the bytes of a message.
const MAX_FRAME: u32 = 64 * 1024;
/// Limit on the messages of a queue; a full queue refuses the next one.
const MAX_QUEUED: usize = 1_000;
/// Limit on the number of queues.
const MAX_QUEUES: usize = 16;

/// A message of a queue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) id: String,
    /// Carries the trace context, as headers do for HTTP.
    pub(super) attributes: HashMap<String, String>,
    pub(super) body: serde_json::Value,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "op")]
enum Request {
    Publish { queue: String, message: Message },
    Consume { queue: String },
}

#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    refused: Option<String>,
}

/// Publishes a message; returns when the broker has queued it.
pub(super) async fn publish(broker: SocketAddr, queue: &str, message: Message) -> anyhow::Result<()> {
    let mut connection = connect(broker).await?;
    let request = Request::Publish { queue: queue.to_owned(), message };
    write_frame(&mut connection, &request).await?;
    match read_frame(&mut connection).await? {
        Some(Receipt { refused: None }) => Ok(()),
        Some(Receipt { refused: Some(why) }) => bail!("the broker refused the message: {why}"),
        None => bail!("the broker closed the connection"),
    }
}

/// The receiving end of a queue.
#[derive(Debug)]
pub(super) struct Consumer {
    connection: TcpStream,
}

impl Consumer {
    /// Becomes the consumer of `queue`.
    pub(super) async fn attach(broker: SocketAddr, queue: &str) -> anyhow::Result<Self> {
        let mut connection = connect(broker).await?;
        let request = Request::Consume { queue: queue.to_owned() };
        write_frame(&mut connection, &request).await?;
        Ok(Self { connection })
    }

    /// Waits until there is something to read, without taking it.
    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        self.connection.readable().await.context("failed to wait for the broker")
    }

    /// The next message; `None` when the broker closed the connection.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Message>> {
        read_frame(&mut self.connection).await
    }
}

type Queue = (mpsc::Sender<Message>, Option<mpsc::Receiver<Message>>);

/// All queues, created on first use.
#[derive(Debug, Default)]
struct Queues(Mutex<HashMap<String, Queue>>);

impl Queues {
    fn offer(&self, queue: String, message: Message) -> Result<(), String> {
        self.with(queue, |(sender, _)| sender.try_send(message).map_err(|error| error.to_string()))?
    }

    fn take(&self, queue: String) -> Result<mpsc::Receiver<Message>, String> {
        self.with(queue, |(_, receiver)| receiver.take().ok_or_else(|| "it has a consumer".to_owned()))?
    }

    fn with<T>(&self, queue: String, act: impl FnOnce(&mut Queue) -> T) -> Result<T, String> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.len() >= MAX_QUEUES && !queues.contains_key(&queue) {
            return Err("there are too many queues".to_owned());
        }
        let queue = queues.entry(queue).or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(MAX_QUEUED);
            (sender, Some(receiver))
        });
        Ok(act(queue))
    }
}

/// Serves connections until told to stop.
pub(super) async fn broker(listener: TcpListener, mut stop: Stop) -> anyhow::Result<()> {
    let queues = Arc::new(Queues::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.wait() => return Ok(()),
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => {
                let (connection, _) = accepted.context("the broker stopped accepting")?;
                connections.spawn(attend(connection, Arc::clone(&queues)));
            }
        }
    }
}

async fn attend(mut connection: TcpStream, queues: Arc<Queues>) -> anyhow::Result<()> {
    while let Some(request) = read_frame(&mut connection).await? {
        match request {
            Request::Publish { queue, message } => {
                let refused = queues.offer(queue, message).err();
                write_frame(&mut connection, &Receipt { refused }).await?;
            }
            Request::Consume { queue } => {
                let mut messages = queues.take(queue).map_err(anyhow::Error::msg)?;
                while let Some(message) = messages.recv().await {
                    write_frame(&mut connection, &message).await?;
                }
            }
        }
    }
    Ok(())
}

async fn connect(broker: SocketAddr) -> anyhow::Result<TcpStream> {
    TcpStream::connect(broker).await.context("failed to reach the broker")
}

async fn write_frame(connection: &mut TcpStream, value: &(impl Serialize + Sync)) -> anyhow::Result<()> {
    let body = serde_json::to_vec(value).context("failed to encode a frame")?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= MAX_FRAME);
    let Some(length) = length else { bail!("a frame of {} bytes is too large", body.len()) };
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend(body);
    connection.write_all(&frame).await.context("failed to write a frame")
}

async fn read_frame<T: DeserializeOwned>(connection: &mut TcpStream) -> anyhow::Result<Option<T>> {
    let length = match connection.read_u32().await {
        Ok(length) if length <= MAX_FRAME => length,
        Ok(length) => bail!("a frame of {length} bytes is too large"),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error).context("failed to read a frame"),
    };
    let mut body = vec![0; length as usize];
    connection.read_exact(&mut body).await.context("failed to read a frame")?;
    serde_json::from_slice(&body).map(Some).context("failed to decode a frame")
}
