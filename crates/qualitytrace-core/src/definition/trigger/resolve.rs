//! Putting values into the texts of a trigger.

use std::convert::Infallible;

use super::{
    Auth, Command, Exec, Graphql, Grpc, Header, Http, Integration, Kafka, Plain, PlaywrightEngine, TraceId,
    Trigger,
};
use crate::definition::Text;

impl Trigger {
    /// The trigger with every text that may hold expressions replaced by what `resolve` makes of it.
    ///
    /// Stops at the first text that cannot be resolved. Source texts (protocols, schemas, scripts) stay as they are.
    pub fn resolved<E>(&self, mut resolve: impl FnMut(&str) -> Result<String, E>) -> Result<Self, E> {
        self.mapped(|text| Ok(Text { value: resolve(&text.value)?, origin: text.origin.clone() }))
    }

    /// Shows `look` every text that may hold expressions.
    pub fn each_text(&self, mut look: impl FnMut(&Text)) {
        if let Self::Integration(_) = self {
            look(&Text::from(Integration::TRACE));
        }
        let Ok(_) = self.mapped(|text| {
            look(text);
            Ok::<Text, Infallible>(Text::default())
        });
    }

    /// Lets `change` replace every text that may be the path of a file by the file's content: bodies, protocols,
    /// queries, schemas and scripts.
    pub fn each_file<E>(&mut self, mut change: impl FnMut(&mut Text) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Http(http) => change(&mut http.body),
            Self::Grpc(grpc) => {
                change(&mut grpc.protobuf_file)?;
                grpc.imports.iter_mut().try_for_each(|(_, text)| change(text))
            }
            Self::Graphql(graphql) => {
                change(&mut graphql.query)?;
                change(&mut graphql.schema)
            }
            Self::PlaywrightEngine(engine) => change(&mut engine.script),
            Self::Kafka(_) | Self::TraceId(_) | Self::Exec(_) | Self::Integration(_) => Ok(()),
        }
    }

    fn mapped<E>(&self, mut text: impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(match self {
            Self::Http(http) => Self::Http(Http {
                url: text(&http.url)?,
                method: text(&http.method)?,
                headers: headers(&http.headers, &mut text)?,
                body: text(&http.body)?,
                auth: auth(http.auth.as_ref(), &mut text)?,
                ..http.clone()
            }),
            Self::Grpc(grpc) => Self::Grpc(Grpc {
                address: text(&grpc.address)?,
                service: text(&grpc.service)?,
                method: text(&grpc.method)?,
                request: text(&grpc.request)?,
                metadata: headers(&grpc.metadata, &mut text)?,
                auth: auth(grpc.auth.as_ref(), &mut text)?,
                ..grpc.clone()
            }),
            Self::Kafka(kafka) => Self::Kafka(Kafka {
                broker_urls: kafka.broker_urls.iter().map(&mut text).collect::<Result<_, _>>()?,
                topic: text(&kafka.topic)?,
                headers: headers(&kafka.headers, &mut text)?,
                message_key: text(&kafka.message_key)?,
                message_value: text(&kafka.message_value)?,
                authentication: match &kafka.authentication {
                    Some(plain) => {
                        Some(Plain { username: text(&plain.username)?, password: text(&plain.password)? })
                    }
                    None => None,
                },
                ssl_verification: kafka.ssl_verification,
            }),
            Self::TraceId(trace) => Self::TraceId(TraceId { id: text(&trace.id)? }),
            Self::Graphql(graphql) => Self::Graphql(Graphql {
                url: text(&graphql.url)?,
                headers: headers(&graphql.headers, &mut text)?,
                auth: auth(graphql.auth.as_ref(), &mut text)?,
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
    }))
}
