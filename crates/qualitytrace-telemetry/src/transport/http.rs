//! OTLP over HTTP with protobuf bodies.

use std::{collections::BTreeMap, io::Write as _};

use bytes::{Bytes, BytesMut};
use reqwest::{Client, Url, header};

use super::{Answer, answer, chain, tls, user_agent};
use crate::config::{self, Compression, Signal, Sink};

/// Limit on a response, which is normally a few bytes.
const MAX_ANSWER: usize = 1 << 20;

pub(crate) struct Http {
    client: Client,
    urls: BTreeMap<Signal, Url>,
    compression: Compression,
}

impl Http {
    pub(crate) fn new(sink: &Sink) -> Result<Self, String> {
        let mut headers = header::HeaderMap::new();
        for header in &sink.headers {
            let name = header::HeaderName::try_from(&header.name);
            let value = header::HeaderValue::try_from(&header.value);
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(format!("the header `{}` cannot be sent", header.name));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let urls = sink
            .endpoints
            .iter()
            .map(|(signal, url)| {
                Ok((
                    *signal,
                    Url::parse(url)
                        .map_err(|error| format!("`{}` is not a URL: {error}", config::shown(url)))?,
                ))
            })
            .collect::<Result<BTreeMap<_, _>, String>>()?;
        // Reading the system's authorities takes time that plain connections need not spend.
        let mut tls_settings = sink.tls.clone();
        tls_settings.skip_verify |= urls.values().all(|url| url.scheme() == "http");
        let tls = tls::client(&tls_settings, &[b"h2", b"http/1.1"])?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .default_headers(headers)
            .user_agent(user_agent())
            .timeout(sink.delivery.timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| chain(&error))?;
        Ok(Self { client, urls, compression: sink.compression })
    }

    pub(crate) async fn send(&self, signal: Signal, request: Bytes) -> Result<Answer, String> {
        let Some(url) = self.urls.get(&signal) else {
            return Ok(Answer::Refused { reason: format!("this sink sends no {}", signal.name()) });
        };
        let (body, encoding) = match compress(self.compression, &request) {
            Some((body, encoding)) => (body, Some(encoding)),
            None => (request, None),
        };
        let mut post =
            self.client.post(url.clone()).header(header::CONTENT_TYPE, "application/x-protobuf").body(body);
        if let Some(encoding) = encoding {
            post = post.header(header::CONTENT_ENCODING, encoding);
        }
        self.exchange(post).await.map_err(|error| chain(&error.without_url()))
    }

    async fn exchange(&self, post: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        let mut response = post.send().await?;
        let status = response.status().as_u16();
        let text = |name: header::HeaderName, headers: &header::HeaderMap| {
            headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let content_type = text(header::CONTENT_TYPE, response.headers()).unwrap_or_default();
        let retry_after = text(header::RETRY_AFTER, response.headers());
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MAX_ANSWER {
                break;
            }
            body.extend_from_slice(&chunk);
        }
        Ok(answer::http(status, &content_type, retry_after.as_deref(), &body))
    }
}

fn compress(compression: Compression, bytes: &[u8]) -> Option<(Bytes, &'static str)> {
    match compression {
        Compression::None => None,
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).ok()?;
            Some((encoder.finish().ok()?.into(), "gzip"))
        }
        Compression::Zstd => Some((zstd::bulk::compress(bytes, 1).ok()?.into(), "zstd")),
    }
}
