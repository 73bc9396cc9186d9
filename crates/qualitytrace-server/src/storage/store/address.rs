//! Database URLs without secrets: for display, and for the driver, which logs parameters that it does not know.

/// Replaces a secret.
const MASK: &str = "***";
/// Parts of parameter names whose values are secret.
const SECRETS: [&str; 4] = ["pass", "key", "secret", "token"];

/// Secret parameters that the PostgreSQL driver understands.
const UNDERSTOOD: [&str; 3] = ["password", "sslkey", "ssl-key"];

/// The URL for the PostgreSQL driver, without unknown secret parameters: the driver repeats unknown parameters in
/// the log.
pub(super) fn for_driver(url: &str) -> String {
    let Some((place, query)) = url.split_once('?') else { return url.to_owned() };
    let is_wanted = |pair: &&str| {
        let name = decoded(pair.split('=').next().unwrap_or_default());
        UNDERSTOOD.contains(&name.as_str()) || !is_secret(&name)
    };
    let pairs: Vec<&str> = query.split('&').filter(is_wanted).collect();
    format!("{place}?{}", pairs.join("&"))
}

/// The URL for display: `postgres://user:secret@host` loses its password, and parameters like `password` are
/// redacted.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) =
        url.split_once("://").map_or(("", url), |(scheme, rest)| (&url[..scheme.len() + 3], rest));
    // A password may hold characters that should have been escaped, and a parameter may hold `@`, too.
    let head = rest.split('?').next().unwrap_or_default();
    let login_end = if head.contains('@') || is_host(head) { head.rfind('@') } else { rest.rfind('@') };
    let (user, place) = match login_end {
        Some(at) => (rest[..at].split(':').next(), &rest[at + 1..]),
        // What stands in place of the port may be a password.
        None if !is_host(head) && !url.starts_with("sqlite") => {
            return format!("{scheme}{}:{MASK}", head.split(':').next().unwrap_or_default());
        }
        None => (None, rest),
    };
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let (place, query) = place.split_once('?').map_or((place, None), |(place, query)| (place, Some(query)));
    let query = query.map(|query| format!("?{}", parameters_without_password(query))).unwrap_or_default();
    format!("{scheme}{user}{place}{query}")
}

/// Redacts passwords in parameters as `postgres.params` has them.
pub(crate) fn parameters_without_password(parameters: &str) -> String {
    let mut out = String::new();
    for part in parameters.split_inclusive([' ', '&']) {
        let (pair, separator) = match part.strip_suffix([' ', '&']) {
            Some(pair) => (pair, &part[pair.len()..]),
            None => (part, ""),
        };
        match pair.split_once('=') {
            Some((name, _)) if is_secret(&decoded(name)) => out.extend([name, "=", MASK]),
            _ => out.push_str(pair),
        }
        out.push_str(separator);
    }
    out
}

/// Whether this is a host with its port and path, and not the beginning of a login.
fn is_host(place: &str) -> bool {
    let authority = place.split('/').next().unwrap_or_default();
    let after_host = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
    after_host.rsplit_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRETS.iter().any(|part| name.contains(part))
}

/// Decodes percent-escapes: `p%61ssword` is `password`.
fn decoded(name: &str) -> String {
    url::form_urlencoded::parse(name.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_password() {
        for (url, shown) in [
            ("postgres://me:p@ss@db:5432/x", "postgres://me@db:5432/x"),
            ("postgres://me:p/s?s@db/x?sslmode=disable", "postgres://me@db/x?sslmode=disable"),
            (
                "postgres://me:p@db/x?password=p@s&sslmode=require",
                "postgres://me@db/x?password=***&sslmode=require",
            ),
            ("postgres://db:5432/x?user=me&password=p@s", "postgres://db:5432/x?user=me&password=***"),
            ("postgres:///x?host=/run/pg&p%61ssword=p@s", "postgres:///x?host=/run/pg&p%61ssword=***"),
            (
                "postgres://[::1]/x?sslpassword=a&sslkey=/k.pem",
                "postgres://[::1]/x?sslpassword=***&sslkey=***",
            ),
            ("postgres://me:p/x", "postgres://me:***"),
            ("sqlite://a.db", "sqlite://a.db"),
            ("sqlite::memory:", "sqlite::memory:"),
            ("sqlite:a.db?mode=rwc&key=k", "sqlite:a.db?mode=rwc&key=***"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn the_driver_gets_no_secret_that_it_would_repeat() {
        let url = "postgres://u:p@h/n?password=a&sslpassword=b&sslmode=require&sslkey=c&api%5Ftoken=d";
        assert_eq!(for_driver(url), "postgres://u:p@h/n?password=a&sslmode=require&sslkey=c");
        assert_eq!(for_driver("postgres://h/n"), "postgres://h/n");
    }

    #[test]
    fn shown_parameters_have_no_password() {
        assert_eq!(
            parameters_without_password("sslmode=require password=geheim&application_name=x "),
            "sslmode=require password=***&application_name=x "
        );
    }
}
