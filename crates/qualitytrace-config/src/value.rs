//! Single values of settings: durations, sizes, booleans, and macros inside texts.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::diagnostic::Report;
use crate::layer::KeyedValue;
use crate::located::{Kind, Located};

/// Ten years: a longer duration is a mistake, and clocks cannot add it.
const MAX_DURATION: Duration = Duration::from_hours(10 * 365 * 24);

/// The value of a setting, with its macros replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The key is there and has no value.
    Nothing,
    /// A single value.
    Text(String),
    /// Several single values.
    List(Vec<String>),
}

/// How the macros `%{env:NAME}%` and `%{file:path}%` are replaced.
#[derive(Clone, Copy)]
pub struct Macros<'a> {
    /// Returns the value of a variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file.
    pub file: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl Macros<'_> {
    /// Replaces the macros of a text; the error says what is missing. Files are relative to `base`.
    pub fn expand(&self, text: &str, base: Option<&Path>) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("%{") {
            out.push_str(&rest[..start]);
            let Some(end) = rest[start..].find("}%") else {
                return Err("a `%{` has no `}%`".to_owned());
            };
            let inner = &rest[start + 2..start + end];
            rest = &rest[start + end + 2..];
            match inner.split_once(':') {
                Some(("env", name)) => {
                    let found = (self.variable)(name);
                    out.push_str(&found.ok_or_else(|| format!("the variable `{name}` is not set"))?);
                }
                Some(("file", path)) => {
                    let path = base.map_or_else(|| path.into(), |base| base.join(path));
                    let content = (self.file)(&path)
                        .map_err(|error| format!("the file `{}` cannot be read: {error}", path.display()))?;
                    out.push_str(content.trim_end_matches(['\r', '\n']));
                }
                Some(_) | None => {
                    return Err(format!("`%{{{inner}}}%` is neither `env:NAME` nor `file:path`"));
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }
}

impl KeyedValue {
    /// Replaces the macros of a text of this setting; reports what is missing.
    pub fn expand(&self, text: &str, macros: Macros<'_>, report: &mut Report) -> Option<String> {
        match macros.expand(text, self.base.as_deref()) {
            Ok(text) => Some(text),
            Err(why) => {
                let message = format!("`{}` cannot be read: {why}", self.key);
                report.error(&self.value.origin, &self.key, message, None);
                None
            }
        }
    }

    /// Returns the value with its macros replaced; `None` where the reason why there is none was reported.
    pub fn resolve(&self, macros: Macros<'_>, report: &mut Report) -> Option<Value> {
        Some(match &self.value.kind {
            Kind::Scalar(text) => Value::Text(self.expand(text, macros, report)?),
            Kind::List(items) => {
                Value::List(items.iter().filter_map(|item| self.item(item, macros, report)).collect())
            }
            Kind::Null | Kind::Map(_) => Value::Nothing,
        })
    }

    /// Returns an item of this setting's list with its macros replaced; `None` if it has no value, or if the reason was
    /// reported.
    pub fn item(&self, item: &Located, macros: Macros<'_>, report: &mut Report) -> Option<String> {
        match &item.kind {
            Kind::Scalar(text) => {
                let given = Self { key: self.key.clone(), value: item.clone(), base: self.base.clone() };
                given.expand(text, macros, report)
            }
            Kind::Null => None,
            Kind::List(_) | Kind::Map(_) => {
                let message = format!("an item of `{}` is a list or map", self.key);
                let help = Some("write a single value".to_owned());
                report.error(&item.origin, &self.key, message, help);
                None
            }
        }
    }
}

/// Parses `1s`, `1m30s`, `250ms`, `1d`; a bare number counts milliseconds.
pub fn duration(text: &str) -> Option<Duration> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = text.as_str();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "" | "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
    }
    (!total.is_zero() && total <= MAX_DURATION).then_some(total)
}

/// Parses a size: `64MiB`, `1GB`, `4096`.
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "k" | "kib" => 1 << 10,
        "mb" => 1_000_000,
        "m" | "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "g" | "gib" => 1 << 30,
        "tb" => 1_000_000_000_000,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit).filter(|size| *size > 0)
}

/// Formats a duration as it may be written, in the largest unit that divides it; less than a millisecond is cut off.
pub fn shown_duration(time: Duration) -> String {
    let millis = time.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let unit = units.iter().find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{millis}ms"), |(unit, name)| format!("{}{name}", millis / unit))
}

/// Formats a size as it may be written, in the largest binary unit that divides it.
pub fn shown_bytes(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// `true` or `false`, in any case.
pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::File;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(duration(text), ms.map(Duration::from_millis), "{text}");
        };
        check("1s", Some(1_000));
        check("30 s", Some(30_000));
        check("1h30m", Some(5_400_000));
        check("250ms", Some(250));
        check("250", Some(250));
        check("1d", Some(86_400_000));
        check("0s", None);
        check("1x", None);
        check("", None);
        check("s", None);
        check("9999d", None);
        check("99999999999999999999d", None);
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(bytes("64MiB"), Some(64 << 20));
        assert_eq!(bytes("1 GB"), Some(1_000_000_000));
        assert_eq!(bytes("many"), None);
        assert_eq!(bytes("99999999999GiB"), None);
    }

    #[test]
    fn what_is_shown_can_be_written() {
        for size in [1, 1_000, 10_240, 64 << 20, 16 << 30, 3 << 40] {
            assert_eq!(bytes(&shown_bytes(size)), Some(size));
        }
        for millis in [1, 999, 1_500, 60_000, 86_400_000] {
            let time = Duration::from_millis(millis);
            assert_eq!(duration(&shown_duration(time)), Some(time));
        }
        assert_eq!([shown_bytes(1 << 30), shown_duration(Duration::from_mins(90))], ["1GiB", "90m"]);
    }

    #[test]
    fn an_item_that_is_no_single_value_is_reported() {
        let file = File::new("c.yaml", "tokens:\n  - a\n  -\n  - {full: b}\n  - '%{env:NONE}%'\n");
        let mut report = Report::default();
        let leaf = file.leaves(&mut report).remove(0);
        let given = KeyedValue { key: leaf.key, value: leaf.value, base: None };
        let macros = Macros { variable: &|_| None, file: &|_| Err(io::ErrorKind::NotFound.into()) };
        assert_eq!(given.resolve(macros, &mut report), Some(Value::List(vec!["a".to_owned()])));
        let said: Vec<String> = report.diagnostics.iter().map(ToString::to_string).collect();
        let expected = [
            "c.yaml:4:5: error: an item of `tokens` is a list or map; write a single value",
            "c.yaml:5:5: error: `tokens` cannot be read: the variable `NONE` is not set",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn macros_say_what_is_missing() {
        let variable = |name: &str| (name == "TOKEN").then(|| "t".to_owned());
        let file = |path: &Path| match path.to_str() {
            Some("conf/key") => Ok("secret
"
            .to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let macros = Macros { variable: &variable, file: &file };
        let base = Some(Path::new("conf"));
        assert_eq!(macros.expand("Bearer %{env:TOKEN}%", None), Ok("Bearer t".to_owned()));
        assert_eq!(macros.expand("%{file:key}%!", base), Ok("secret!".to_owned()));
        for wrong in ["%{env:NONE}%", "%{env:TOKEN", "%{file:none}%", "%{TOKEN}%"] {
            assert!(macros.expand(wrong, base).is_err(), "{wrong}");
        }
    }
}
