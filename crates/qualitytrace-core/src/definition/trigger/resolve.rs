//! Resolution of the expressions in a trigger.

use std::convert::Infallible;

use super::{
    Auth, Body, Command, Exec, Graphql, Grpc, Header, Http, Integration, Kafka, OAuth2, Part,
    PlaywrightEngine, Sasl, Tls, TraceId, Trigger,
};
use crate::definition::Text;

impl Trigger {
    /// Returns the trigger with every text that may hold expressions replaced by the result of `resolve`.
    ///
    /// Stops at the first text that cannot be resolved. Source texts (`.proto` files, schemas, scripts) stay as
    /// they are.
    pub fn resolved<E>(&self, mut resolve: impl FnMut(&str) -> Result<String, E>) -> Result<Self, E> {
        self.mapped(|text| Ok(Text { value: resolve(&text.value)?, origin: text.origin.clone() }))
    }

    /// Calls `look` for every text that may hold expressions.
    pub fn each_text(&self, mut look: impl FnMut(&Text)) {
        if let Self::Integration(_) = self {
            look(&Text::from(Integration::TRACE));
        }
        let Ok(_) = self.mapped(|text| {
            look(text);
            Ok::<Text, Infallible>(Text::default())
        });
    }

    fn mapped<E>(&self, mut text: impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(match self {
            Self::Http(http) => Self::Http(Http {
                url: text(&http.url)?,
                method: text(&http.method)?,
                headers: headers(&http.headers, &mut text)?,
                body: body(&http.body, &mut text)?,
                auth: auth(http.auth.as_ref(), &mut text)?,
                tls: tls(http.tls.as_ref(), &mut text)?,
                proxy: text(&http.proxy)?,
                ..http.clone()
            }),
            Self::Grpc(grpc) => Self::Grpc(Grpc {
                address: text(&grpc.address)?,
                service: text(&grpc.service)?,
                method: text(&grpc.method)?,
                request: text(&grpc.request)?,
                metadata: headers(&grpc.metadata, &mut text)?,
                auth: auth(grpc.auth.as_ref(), &mut text)?,
                tls: tls(grpc.tls.as_ref(), &mut text)?,
                ..grpc.clone()
            }),
            Self::Kafka(kafka) => Self::Kafka(Kafka {
                broker_urls: kafka.broker_urls.iter().map(&mut text).collect::<Result<_, _>>()?,
                topic: text(&kafka.topic)?,
                headers: headers(&kafka.headers, &mut text)?,
                message_key: text(&kafka.message_key)?,
                message_value: text(&kafka.message_value)?,
                authentication: match &kafka.authentication {
                    Some(Sasl { mechanism, username, password }) => {
                        let (username, password) = (text(username)?, text(password)?);
                        Some(Sasl { mechanism: *mechanism, username, password })
                    }
                    None => None,
                },
                tls: tls(kafka.tls.as_ref(), &mut text)?,
                ssl_verification: kafka.ssl_verification,
                timeout: kafka.timeout.clone(),
            }),
            Self::TraceId(trace) => Self::TraceId(TraceId { id: text(&trace.id)? }),
            Self::Graphql(graphql) => Self::Graphql(Graphql {
                url: text(&graphql.url)?,
                headers: headers(&graphql.headers, &mut text)?,
                auth: auth(graphql.auth.as_ref(), &mut text)?,
                tls: tls(graphql.tls.as_ref(), &mut text)?,
                proxy: text(&graphql.proxy)?,
                query: text(&graphql.query)?,
                variables: graphql
                    .variables
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), text(value)?)))
                    .collect::<Result<_, _>>()?,
                operation_name: text(&graphql.operation_name)?,
                ..graphql.clone()
            }),
            Self::Exec(exec) => Self::Exec(Exec {
                command: match &exec.command {
                    Command::Words(words) => {
                        Command::Words(words.iter().map(&mut text).collect::<Result<_, _>>()?)
                    }
                    Command::Line(line) => Command::Line(text(line)?),
                },
                env: exec
                    .env
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), text(value)?)))
                    .collect::<Result<_, _>>()?,
                working_directory: text(&exec.working_directory)?,
                timeout: exec.timeout.clone(),
            }),
            Self::PlaywrightEngine(engine) => Self::PlaywrightEngine(PlaywrightEngine {
                target: text(&engine.target)?,
                method: text(&engine.method)?,
                ..engine.clone()
            }),
            Self::Integration(tool) => Self::Integration(*tool),
        })
    }
}

fn headers<E>(headers: &[Header], text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Vec<Header>, E> {
    headers.iter().map(|header| Ok(Header { key: text(&header.key)?, value: text(&header.value)? })).collect()
}

/// Maps a body. The content of files is not searched for expressions.
fn body<E>(body: &Body, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Body, E> {
    Ok(match body {
        Body::Text(body) => Body::Text(text(body)?),
        Body::File(file) => Body::File(file.clone()),
        Body::Form(fields) => Body::Form(headers(fields, text)?),
        Body::Multipart(parts) => Body::Multipart(
            parts
                .iter()
                .map(|part| {
                    Ok(Part {
                        name: text(&part.name)?,
                        value: text(&part.value)?,
                        file: part.file.clone(),
                        filename: text(&part.filename)?,
                        content_type: text(&part.content_type)?,
                    })
                })
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn tls<E>(tls: Option<&Tls>, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Option<Tls>, E> {
    let Some(Tls { ca, certificate, key }) = tls else { return Ok(None) };
    Ok(Some(Tls { ca: text(ca)?, certificate: text(certificate)?, key: text(key)? }))
}

fn auth<E>(auth: Option<&Auth>, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Option<Auth>, E> {
    let Some(auth) = auth else { return Ok(None) };
    Ok(Some(match auth {
        Auth::Basic { username, password } => {
            Auth::Basic { username: text(username)?, password: text(password)? }
        }
        Auth::Bearer { token } => Auth::Bearer { token: text(token)? },
        Auth::ApiKey { key, value, place } => {
            Auth::ApiKey { key: text(key)?, value: text(value)?, place: *place }
        }
        Auth::OAuth2(oauth2) => Auth::OAuth2(Box::new(OAuth2 {
            token_url: text(&oauth2.token_url)?,
            client_id: text(&oauth2.client_id)?,
            client_secret: text(&oauth2.client_secret)?,
            scopes: oauth2.scopes.iter().map(&mut *text).collect::<Result<_, _>>()?,
            audience: text(&oauth2.audience)?,
            place: oauth2.place,
        })),
    }))
}
