//! Bodies of HTTP requests.

use qualitytrace_core::definition::trigger::{Body, FileUse, Part};
use reqwest::RequestBuilder;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::multipart;

use super::super::failure::TriggerError;

/// Adds the body to a request. A `Content-Type` of the user overrides the default of the body.
pub(super) fn attach(
    request: RequestBuilder,
    body: &Body,
    headers: &HeaderMap,
) -> Result<RequestBuilder, TriggerError> {
    Ok(match body {
        Body::Text(text) if text.is_empty() => request,
        Body::Text(text) => request.body(text.value.clone()),
        Body::File(file) => request.body(bytes(&file.value, "bodyFile")?),
        Body::Form(fields) => {
            let mut encoded = url::form_urlencoded::Serializer::new(String::new());
            for field in fields {
                encoded.append_pair(&field.key.value, &field.value.value);
            }
            let request = request.body(encoded.finish());
            if headers.contains_key(CONTENT_TYPE) {
                request
            } else {
                request.header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            }
        }
        Body::Multipart(_) if headers.contains_key(CONTENT_TYPE) => {
            return Err(TriggerError::invalid(
                "a multipart body has a `Content-Type` of its own, with the mark between its parts; remove the \
                 header from the trigger",
            ));
        }
        Body::Multipart(parts) => {
            let mut form = multipart::Form::new();
            for part in parts {
                form = form.part(part.name.value.clone(), encode(part)?);
            }
            request.multipart(form)
        }
    })
}

fn encode(part: &Part) -> Result<multipart::Part, TriggerError> {
    let mut encoded = if part.file.is_empty() {
        multipart::Part::text(part.value.value.clone())
    } else {
        multipart::Part::bytes(bytes(&part.file.value, "multipart")?)
    };
    let file_name = match part.filename.value.as_str() {
        "" => FileUse::name(&part.file.value),
        given => given.to_owned(),
    };
    if !file_name.is_empty() {
        encoded = encoded.file_name(file_name);
    }
    if !part.content_type.is_empty() {
        let kind = &part.content_type.value;
        encoded = encoded.mime_str(kind).map_err(|_| {
            TriggerError::invalid(format!("`{kind}` is not a `contentType`; write it like `image/png`"))
        })?;
    }
    Ok(encoded)
}

/// Returns the bytes of a file. They are part of the test: the server opens no files on behalf of tests.
fn bytes(text: &str, key: &str) -> Result<Vec<u8>, TriggerError> {
    FileUse::bytes(text).ok_or_else(|| {
        TriggerError::invalid(format!(
            "the file `{text}` of the trigger's `{key}` did not come along; start the test with the command line, \
             which reads it, or write its bytes as `data:;base64,...`"
        ))
    })
}
