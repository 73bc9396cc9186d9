//! Query parameters of the API.

use std::collections::HashSet;
use std::error::Error as _;

use axum::extract::{FromRequestParts, Query as Strict};
use http::Uri;
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// An extractor of query parameters. Of a repeated one, the first counts.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let asked = parts.uri.query().map(firsts).unwrap_or_default();
        let uri = Uri::try_from(format!("/?{asked}")).unwrap_or_default();
        Strict::try_from_uri(&uri).map(|Strict(parameters)| Self(parameters)).map_err(|rejection| {
            let why = rejection.source().map(ToString::to_string).unwrap_or_default();
            ApiError::bad_request(format!("the parameters behind `?` cannot be read: {why}"))
        })
    }
}

fn firsts(query: &str) -> String {
    let mut seen = HashSet::new();
    let name = |pair: &&str| pair.split('=').next().unwrap_or_default().to_owned();
    let kept: Vec<&str> = query.split('&').filter(|pair| seen.insert(name(pair))).collect();
    kept.join("&")
}
