//! The protocol of a call: what its methods are called and what their messages look like.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use qualitytrace_core::definition::trigger::Grpc;
use qualitytrace_core::lang::diagnostic::nearest;
use qualitytrace_core::lang::limits::MAX_DEPTH;

use super::super::failure::Failure;

/// The name that the trigger's own text has in messages: the key that it stands under.
const MAIN: &str = "protobufFile";
/// Details of rich statuses, which servers send whatever their own protocol is.
const ERROR_DETAILS: &str = include_str!("error_details.proto");
const ERROR_DETAILS_FILE: &str = "google/rpc/error_details.proto";

/// How many texts a trigger may import: the compiler calls itself for each that imports the next.
const MAX_IMPORTS: usize = 256;

/// Compiles the source texts of a trigger.
pub(super) fn compile(call: &Grpc) -> Result<DescriptorPool, Failure> {
    if call.imports.len() > MAX_IMPORTS {
        return Err(Failure::invalid(format!(
            "the protocol of the trigger imports {} texts; merge them into at most {MAX_IMPORTS}",
            call.imports.len()
        )));
    }
    let own = std::iter::once((MAIN, &call.protobuf_file));
    let imported = call.imports.iter().map(|(name, text)| (name.as_str(), text));
    if let Some((name, _)) = own.chain(imported).find(|(_, text)| is_too_deep(&text.value)) {
        return Err(Failure::invalid(format!(
            "the protocol of the trigger cannot be compiled: `{name}` nests more than {MAX_DEPTH} levels deep; \
             declare its messages side by side"
        )));
    }
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

/// Whether brackets of a protocol stand too deep inside each other: the compiler calls itself for each level.
fn is_too_deep(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b'{' | b'[' | b'(' | b'<' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
                1
            }
            b'}' | b']' | b')' | b'>' => {
                depth = depth.saturating_sub(1);
                1
            }
            b'/' if rest.starts_with(b"//") => text[at..].find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => text[at..].find("*/").map_or(rest.len(), |end| end + 2),
            quote @ (b'"' | b'\'') => string_length(rest, *quote),
            _ => 1,
        };
    }
    false
}

/// The bytes of the text in quotes that begins here.
fn string_length(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            // A text ends with its line, closed or not.
            b'\n' => return at,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(protobuf_file: &str) -> Result<DescriptorPool, Failure> {
        let call = Grpc { protobuf_file: protobuf_file.into(), ..Grpc::default() };
        // Less than a thread of the server has: what is too deep shows.
        let small = std::thread::Builder::new().stack_size(512 * 1024);
        small.spawn(move || compile(&call)).unwrap().join().unwrap()
    }

    fn nested(levels: usize) -> String {
        let open: String =
            (0..levels).map(|level| format!("message M{level} {{ ")).collect::<Vec<_>>().concat();
        format!("syntax = \"proto3\"; {open}{}", "}".repeat(levels))
    }

    #[test]
    fn a_protocol_that_nests_a_thousand_times_is_refused() {
        for text in [
            nested(1_000),
            format!("syntax = \"proto3\"; option x = {}{};", "{ a: ".repeat(5_000), "}".repeat(5_000)),
            format!("syntax = \"proto3\"; option x = {}{};", "[".repeat(5_000), "]".repeat(5_000)),
        ] {
            let refused = compiled(&text).err().map(|failure| failure.to_string()).unwrap_or_default();
            assert!(refused.contains("levels deep"), "{refused}");
        }
    }

    #[test]
    fn a_protocol_that_nests_as_people_do_is_compiled() {
        let brackets = "// {{{{\n/* [[[[ */ message A { string a = 1 [json_name = \"{{{{'\"]; }";
        assert!(compiled(&format!("{} {brackets}", nested(20))).is_ok());
        assert!(!is_too_deep(&"\"{\"".repeat(100)));
    }
}
