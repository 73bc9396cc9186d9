//! The protocol of a call: what its methods are called and what their messages look like.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use qualitytrace_core::definition::trigger::Grpc;
use qualitytrace_core::lang::diagnostic::nearest;

use super::super::failure::Failure;

/// The name that the trigger's own text has in messages: the key that it stands under.
const MAIN: &str = "protobufFile";
/// Details of rich statuses, which servers send whatever their own protocol is.
const ERROR_DETAILS: &str = include_str!("error_details.proto");
const ERROR_DETAILS_FILE: &str = "google/rpc/error_details.proto";

/// Compiles the source texts of a trigger.
pub(super) fn compile(call: &Grpc) -> Result<DescriptorPool, Failure> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(Sources(call.clone()));
    resolver.add(GoogleFileResolver::new());
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file(MAIN).map_err(|error| {
        let help = if error.is_file_not_found() {
            "; put the imported text under the trigger's `imports`, by the name under which it is imported"
        } else {
            ""
        };
        Failure::invalid(format!("the protocol of the trigger cannot be compiled: {error:?}{help}"))
    })?;
    Ok(compiler.descriptor_pool())
}

/// The texts that a trigger brings along.
struct Sources(Grpc);

impl FileResolver for Sources {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if let Some((_, text)) = self.0.imports.iter().find(|(import, _)| import == name) {
            return File::from_source(name, &text.value);
        }
        if name == MAIN {
            return File::from_source(name, &self.0.protobuf_file.value);
        }
        Err(protox::Error::file_not_found(name))
    }
}

/// The standard details of rich statuses. They stand beside the protocol of a call, which may have its own.
pub(super) fn error_details() -> Result<&'static DescriptorPool, Failure> {
    static POOL: LazyLock<Result<DescriptorPool, String>> = LazyLock::new(|| {
        let mut resolver = ChainFileResolver::new();
        resolver.add(ErrorDetails);
        resolver.add(GoogleFileResolver::new());
        let mut compiler = Compiler::with_file_resolver(resolver);
        compiler.include_imports(true);
        compiler.open_file(ERROR_DETAILS_FILE).map_err(|error| format!("{error:?}"))?;
        Ok(compiler.descriptor_pool())
    });
    POOL.as_ref().map_err(|error| {
        Failure::unsupported(format!("this server cannot read the details of statuses: {error}"))
    })
}

struct ErrorDetails;

impl FileResolver for ErrorDetails {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == ERROR_DETAILS_FILE {
            return File::from_source(name, ERROR_DETAILS);
        }
        Err(protox::Error::file_not_found(name))
    }
}

/// The service and the method that a call names: `package.Service/Method` or `package.Service.Method`.
pub(super) fn names(call: &Grpc) -> Result<(String, String), Failure> {
    let written = call.method.value.trim().trim_start_matches('/');
    let split = written.rsplit_once('/').or_else(|| written.rsplit_once('.'));
    let service = call.service.value.trim();
    match split {
        Some((service, method)) if !service.is_empty() && !method.is_empty() => {
            Ok((service.to_owned(), method.to_owned()))
        }
        _ if !written.is_empty() && !service.is_empty() => Ok((service.to_owned(), written.to_owned())),
        _ => Err(Failure::invalid(format!(
            "`{written}` names no method; write the trigger's `method` as `package.Service/Method`"
        ))),
    }
}

/// The method that a call names.
pub(super) fn method(
    pool: &DescriptorPool,
    service: &str,
    method: &str,
) -> Result<MethodDescriptor, Failure> {
    let known: Vec<ServiceDescriptor> = pool.services().collect();
    let Some(found) = known.iter().find(|known| known.full_name() == service) else {
        let names = known.iter().map(ServiceDescriptor::full_name);
        return Err(unknown_service(service, names));
    };
    found.methods().find(|known| known.name() == method).ok_or_else(|| {
        let names: Vec<String> = found.methods().map(|known| known.name().to_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Failure::invalid(format!(
            "the service `{service}` has no method `{method}`; {}",
            guess(method, &names)
        ))
    })
}

/// Says that there is no such service, and which is meant.
pub(super) fn unknown_service<'a>(service: &str, known: impl Iterator<Item = &'a str>) -> Failure {
    let known: Vec<&str> = known.filter(|name| !name.starts_with("grpc.reflection.")).collect();
    Failure::invalid(format!("the protocol has no service `{service}`; {}", guess(service, &known)))
}

/// Which of those that are known is meant.
pub(super) fn guess(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "it has none at all".to_owned(),
        None => format!("it has `{}`", known.join("`, `")),
    }
}
