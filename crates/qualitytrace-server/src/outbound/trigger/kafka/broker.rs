//! A connection to a broker, with one request at a time.

mod login;
mod shape;

use std::io::{self, ErrorKind};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{
    Decodable, Encodable, HeaderVersion, StrBytes, encode_request_header_into_buffer,
};
use qualitytrace_core::definition::trigger::Sasl;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use self::shape::Shaped;
use super::super::connect::{Connection, Gate, Security};
use super::super::failure::{Endpoint, Reason, Role, TriggerError, tls_cause};

/// The largest response. It lists the partitions of one topic, which is far smaller.
const MAX_ANSWER: usize = 4 << 20;

pub(super) struct Broker {
    pub(super) endpoint: Endpoint,
    connection: Box<dyn Connection>,
    /// The correlation id of the last request.
    count: i32,
}

impl Broker {
    /// Connects and logs in.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        security: &Security,
        sasl: Option<&Sasl>,
        gate: &Gate,
    ) -> Result<Self, TriggerError> {
        let connection = gate.connect(endpoint, security, &[]).await?;
        let mut broker = Self { endpoint: endpoint.clone(), connection, count: 0 };
        if let Some(sasl) = sasl {
            login::login(&mut broker, sasl).await?;
        }
        Ok(broker)
    }

    pub(super) async fn ask<Q, A>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<A, TriggerError>
    where
        Q: Encodable,
        A: Decodable + HeaderVersion + Shaped,
    {
        self.count += 1;
        let header = RequestHeader::default()
            .with_request_api_key(key as i16)
            .with_request_api_version(version)
            .with_correlation_id(self.count)
            .with_client_id(Some(StrBytes::from_static_str("qualitytrace")));
        let mut body = BytesMut::new();
        encode_request_header_into_buffer(&mut body, &header)
            .and_then(|()| request.encode(&mut body, version))
            .map_err(|error| TriggerError::invalid(format!("the trigger makes no request: {error}")))?;
        let mut bytes = self.exchange(body).await?;
        // Measured: a header has no lists, and those of the answer are checked below.
        let header = ResponseHeader::decode(&mut bytes, A::header_version(version));
        let header = header.map_err(|error| self.odd(&error.to_string()))?;
        if header.correlation_id != self.count {
            return Err(self.odd("it answers another request"));
        }
        shape::check(&bytes, A::SHAPE).map_err(|cause| self.odd(cause))?;
        // Measured: by its shape.
        A::decode(&mut bytes, version).map_err(|error| self.odd(&error.to_string()))
    }

    async fn exchange(&mut self, body: BytesMut) -> Result<Bytes, TriggerError> {
        let length =
            i32::try_from(body.len()).map_err(|_| TriggerError::invalid("the message is too large"))?;
        let mut frame = BytesMut::with_capacity(body.len() + 4);
        frame.put_i32(length);
        frame.extend_from_slice(&body);
        let sent = self.connection.write_all(&frame).await;
        sent.map_err(|error| self.cut(&error))?;
        self.connection.flush().await.map_err(|error| self.cut(&error))?;
        let mut length = [0; 4];
        let read = self.connection.read_exact(&mut length).await;
        read.map_err(|error| self.cut(&error))?;
        let length = usize::try_from((&length[..]).get_i32()).unwrap_or(usize::MAX);
        if length > MAX_ANSWER {
            return Err(self.odd("its answer has no sensible length"));
        }
        let mut answer = vec![0; length];
        let read = self.connection.read_exact(&mut answer).await;
        read.map_err(|error| self.cut(&error))?;
        Ok(answer.into())
    }

    /// Describes a closed connection: brokers close it without a response when the client uses the wrong listener.
    fn cut(&self, error: &io::Error) -> TriggerError {
        let cause = tls_cause(error, Role::System);
        if error.kind() == ErrorKind::InvalidData {
            return TriggerError::at(&self.endpoint, Reason::Tls, &cause);
        }
        let help = "if it is a Kafka broker that wants TLS or credentials, give the trigger `tls` or \
                    `authentication`";
        TriggerError::at(&self.endpoint, Reason::Cut, &format!("{cause}; {help}"))
    }

    /// Describes a response that is not from a Kafka broker.
    pub(super) fn odd(&self, cause: &str) -> TriggerError {
        TriggerError::at(
            &self.endpoint,
            Reason::Protocol,
            &format!("it does not seem to be a Kafka broker: {cause}"),
        )
    }
}
