//! The protocol definition of a call: its services, methods and messages.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use qualitytrace_core::definition::trigger::Grpc;
use qualitytrace_core::lang::diagnostic::nearest;
use qualitytrace_core::lang::limits::MAX_DEPTH;

use super::super::failure::TriggerError;

/// The file name of the trigger's own text in messages: its key.
const MAIN: &str = "protobufFile";
/// The standard details of rich statuses, which servers send with any protocol.
const ERROR_DETAILS: &str = include_str!("error_details.proto");
const ERROR_DETAILS_FILE: &str = "google/rpc/error_details.proto";

/// Limit of imported texts: the compiler recurses through imports.
const MAX_IMPORTS: usize = 256;

/// Compiles the protocol definition of a trigger.
pub(super) fn compile(call: &Grpc) -> Result<DescriptorPool, TriggerError> {
    if call.imports.len() > MAX_IMPORTS {
        return Err(TriggerError::invalid(format!(
            "the protocol of the trigger imports {} texts; merge them into at most {MAX_IMPORTS}",
            call.imports.len()
        )));
    }
    let own = std::iter::once((MAIN, &call.protobuf_file));
    let imported = call.imports.iter().map(|(name, text)| (name.as_str(), text));
    for (name, text) in own.chain(imported) {
        check(&text.value).map_err(|reason| {
            TriggerError::invalid(format!(
                "the protocol of the trigger cannot be compiled: `{name}` {reason}"
            ))
        })?;
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
        TriggerError::invalid(format!("the protocol of the trigger cannot be compiled: {error:?}{help}"))
    })?;
    Ok(compiler.descriptor_pool())
}

/// Input that would crash the compiler.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ProtocolError {
    /// It recurses for each level of brackets.
    #[error("nests more than {MAX_DEPTH} levels deep; declare its messages side by side")]
    TooDeep,
    /// Its lexer takes every run of digits after a zero for an octal number.
    #[error(
        "has `{0}`, which is no number: behind a leading zero come octal digits, behind a number no letters"
    )]
    Number(String),
    /// Its lexer counts the ends of nested comments, and finds them in other places than this check.
    #[error("has a comment inside a comment; let the first `*/` end it")]
    NestedComment,
}

/// Checks for input that would crash the compiler. Comments, strings and names end here where they end for its lexer,
/// also invalid ones: it continues after them.
fn check(text: &str) -> Result<(), ProtocolError> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b'{' | b'[' | b'(' | b'<' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(ProtocolError::TooDeep);
                }
                1
            }
            b'}' | b']' | b')' | b'>' => {
                depth = depth.saturating_sub(1);
                1
            }
            b'#' => line_length(rest),
            b'/' if rest.starts_with(b"//") => line_length(rest),
            b'/' if rest.starts_with(b"/*") => comment_length(&text[at..])?,
            quote @ (b'"' | b'\'') => string_length(rest, *quote),
            b'0'..=b'9' | b'.' => {
                let length = number_length(rest);
                if length > 1 && !is_number(&text[at..at + length]) {
                    return Err(ProtocolError::Number(text[at..at + length].to_owned()));
                }
                length
            }
            byte if is_word(*byte) => length_of(rest, is_word),
            _ => 1,
        };
    }
    Ok(())
}

/// Returns the length of a number and of all that directly follows it. It may start with a dot.
fn number_length(bytes: &[u8]) -> usize {
    if bytes[0] == b'.' && !bytes.get(1).is_some_and(u8::is_ascii_digit) {
        return 1;
    }
    let is_hexadecimal = matches!(bytes, [b'0', b'x' | b'X', ..]);
    let run = |from: usize| from + length_of(&bytes[from..], |byte| is_word(byte) || byte == b'.');
    let length = run(0);
    let has_sign = matches!(bytes[length - 1], b'e' | b'E') && matches!(bytes.get(length), Some(b'+' | b'-'));
    if has_sign && !is_hexadecimal { run(length + 1) } else { length }
}

fn is_number(word: &str) -> bool {
    if let Some(digits) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        return !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    }
    let number = word.strip_suffix(['f', 'F']).unwrap_or(word);
    if number.bytes().all(|digit| digit.is_ascii_digit()) {
        return !number.starts_with('0') || number.bytes().all(|digit| digit < b'8');
    }
    number.parse::<f64>().is_ok()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn length_of(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

/// Returns the length of the comment that starts here.
fn comment_length(text: &str) -> Result<usize, ProtocolError> {
    let body = &text[2..];
    let end = body.find("*/");
    match body.find("/*") {
        Some(inner) if end.is_none_or(|end| inner < end) => Err(ProtocolError::NestedComment),
        _ => Ok(end.map_or(text.len(), |end| end + 4)),
    }
}

fn line_length(bytes: &[u8]) -> usize {
    length_of(bytes, |byte| byte != b'\n')
}

/// Returns the length of the string literal that starts here.
fn string_length(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if bytes.get(at + 1).is_some_and(|next| *next != b'\n') => at += 2,
            // A string literal ends with its line, closed or not.
            b'\n' => return at,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Resolves the texts of a trigger.
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

/// Returns the pool of the standard details. It is separate from that of the call, which may define its own.
pub(super) fn error_details() -> Result<&'static DescriptorPool, TriggerError> {
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
        TriggerError::unsupported(format!("this server cannot read the details of statuses: {error}"))
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

/// Returns service and method of a call: `package.Service/Method` or `package.Service.Method`.
pub(super) fn names(call: &Grpc) -> Result<(String, String), TriggerError> {
    let written = call.method.value.trim().trim_start_matches('/');
    let split = written.rsplit_once('/').or_else(|| written.rsplit_once('.'));
    let service = call.service.value.trim();
    match split {
        Some((service, method)) if !service.is_empty() && !method.is_empty() => {
            Ok((service.to_owned(), method.to_owned()))
        }
        _ if !written.is_empty() && !service.is_empty() => Ok((service.to_owned(), written.to_owned())),
        _ => Err(TriggerError::invalid(format!(
            "`{written}` names no method; write the trigger's `method` as `package.Service/Method`"
        ))),
    }
}

/// Finds the method of a call.
pub(super) fn method(
    pool: &DescriptorPool,
    service: &str,
    method: &str,
) -> Result<MethodDescriptor, TriggerError> {
    let known: Vec<ServiceDescriptor> = pool.services().collect();
    let Some(found) = known.iter().find(|known| known.full_name() == service) else {
        let names = known.iter().map(ServiceDescriptor::full_name);
        return Err(unknown_service(service, names));
    };
    found.methods().find(|known| known.name() == method).ok_or_else(|| {
        let names: Vec<String> = found.methods().map(|known| known.name().to_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        TriggerError::invalid(format!(
            "the service `{service}` has no method `{method}`; {}",
            guess(method, &names)
        ))
    })
}

/// Describes an unknown service, with a suggestion.
pub(super) fn unknown_service<'a>(service: &str, known: impl Iterator<Item = &'a str>) -> TriggerError {
    let known: Vec<&str> = known.filter(|name| !name.starts_with("grpc.reflection.")).collect();
    TriggerError::invalid(format!("the protocol has no service `{service}`; {}", guess(service, &known)))
}

/// Suggests a known name.
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

    fn compiled(protobuf_file: &str) -> Result<DescriptorPool, TriggerError> {
        let call = Grpc { protobuf_file: protobuf_file.into(), ..Grpc::default() };
        // Smaller than the stack of the server's threads: unbounded recursion would overflow it.
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
            let refused = refusal(&text);
            assert!(refused.contains("levels deep"), "{refused}");
        }
    }

    #[test]
    fn a_protocol_that_nests_as_people_do_is_compiled() {
        let brackets = "// {{{{\n/* [[[[ */ message A { string a = 1 [json_name = \"{{{{'\"]; }";
        assert!(compiled(&format!("{} {brackets}", nested(20))).is_ok());
        assert_eq!(check(&"\"{\"".repeat(100)), Ok(()));
    }

    fn refusal(text: &str) -> String {
        compiled(text).err().map(|failure| failure.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in
            ["z5\u{6}0582", "008", "018e", "0180f", "08", "0.5 018e+", "0f008", "é019", "int32 a = 019;"]
        {
            let refused = refusal(text);
            assert!(refused.contains("is no number"), "{text}: {refused}");
        }
        let numbers = "0 017 0x0089 0xe+1 42 080.5 08e1 08E-1 1.08 1.e+2 .008 1f 0f 2.5F";
        for text in numbers.split(' ').chain(["a008", "_08", "\"008\"", "// 008", "# 008", "/* 008 */"]) {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn nothing_hides_behind_what_is_no_text_and_no_comment() {
        let deep = "{".repeat(1_000);
        for hidden in ["# /*\n", "/*/ */", "\"\\\n", "'\n", "/**/", "// '\n", "\"\\\\\""] {
            assert_eq!(check(&format!("{hidden}{deep}")), Err(ProtocolError::TooDeep), "{hidden}");
            assert_eq!(
                check(&format!("{hidden} 008")),
                Err(ProtocolError::Number("008".to_owned())),
                "{hidden}"
            );
        }
        for nested in ["/* /* */", "/*/*/", "/* /*"] {
            assert_eq!(check(nested), Err(ProtocolError::NestedComment), "{nested}");
        }
    }
}
