//! SASL authentication with a broker.

use kafka_protocol::ResponseError;
use kafka_protocol::messages::{
    ApiKey, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::StrBytes;
use qualitytrace_core::definition::trigger::{Mechanism, Sasl};
use rsasl::prelude::{Mechname, SASLClient, SASLConfig};

use super::super::super::failure::{Reason, TriggerError};
use super::Broker;

const HANDSHAKE: i16 = 1;
const AUTHENTICATE: i16 = 1;

pub(super) async fn login(broker: &mut Broker, sasl: &Sasl) -> Result<(), TriggerError> {
    let name = match sasl.mechanism {
        Mechanism::Plain => "PLAIN",
        Mechanism::ScramSha256 => "SCRAM-SHA-256",
        Mechanism::ScramSha512 => "SCRAM-SHA-512",
    };
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(name));
    let known: SaslHandshakeResponse = broker.ask(ApiKey::SaslHandshake, HANDSHAKE, &request).await?;
    if let Some(error) = ResponseError::try_from_code(known.error_code) {
        let known: Vec<&str> = known.mechanisms.iter().map(|known| &**known).collect();
        let cause = format!("{name} is not possible ({error}); it knows {}", known.join(", "));
        return Err(TriggerError::at(&broker.endpoint, Reason::Credentials, &cause));
    }
    let unfit = |error: &dyn std::fmt::Display| {
        TriggerError::invalid(format!("the trigger's `authentication` cannot be used for {name}: {error}"))
    };
    let config = SASLConfig::with_credentials(None, sasl.username.value.clone(), sasl.password.value.clone());
    let client = SASLClient::new(config.map_err(|error| unfit(&error))?);
    let mechanism = Mechname::parse(name.as_bytes()).map_err(|error| unfit(&error))?;
    let mut session = client.start_suggested(&[mechanism]).map_err(|error| unfit(&error))?;
    let mut told: Option<Vec<u8>> = None;
    loop {
        let mut say = Vec::new();
        // The broker's last message proves that it knows the password too; a wrong proof fails here.
        let state = session
            .step(told.as_deref(), &mut say)
            .map_err(|error| TriggerError::at(&broker.endpoint, Reason::Credentials, &error.to_string()))?;
        if state.has_sent_message() {
            let request = SaslAuthenticateRequest::default().with_auth_bytes(say.into());
            let answer: SaslAuthenticateResponse =
                broker.ask(ApiKey::SaslAuthenticate, AUTHENTICATE, &request).await?;
            if let Some(error) = ResponseError::try_from_code(answer.error_code) {
                let cause = answer.error_message.map_or_else(|| error.to_string(), |text| text.to_string());
                return Err(TriggerError::at(&broker.endpoint, Reason::Credentials, &cause));
            }
            told = Some(answer.auth_bytes.to_vec());
        }
        if state.is_finished() {
            return Ok(());
        }
    }
}
