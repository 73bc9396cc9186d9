//! The profiles of AWS in a user's files: which credentials a profile begins with, and which roles it assumes with them.
//!
//! Decides by the texts of the two files. It reads no file and sends no request.

use ini::{Ini, ParseOption, Properties};

/// The longest chain of `source_profile`.
const MAX_ROLES: usize = 8;

/// The files with profiles.
pub(super) struct Files {
    /// `~/.aws/config`, with sections `[profile NAME]`.
    config: Ini,
    /// `~/.aws/credentials`, with sections `[NAME]`.
    credentials: Ini,
}

/// How a profile gets its credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) base: Base,
    /// The roles to assume, one with the credentials of the other.
    pub(super) roles: Vec<Role>,
}

/// The credentials that a profile begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// They are written in the files.
    Keys(Keys),
    /// A command prints them.
    Process(String),
    /// The login of this profile at an SSO portal.
    Sso(String),
    /// A role for a token in a file.
    WebIdentity(Role, String),
    /// The environment has them.
    Environment,
    /// The container has them.
    Container,
    /// The instance has them.
    Instance,
}

#[derive(PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

// Without the secrets.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keys").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A role to assume.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) arn: String,
    pub(super) session: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) seconds: Option<u32>,
    pub(super) region: Option<String>,
}

impl Files {
    /// Reads the texts; one that does not exist is empty.
    pub(super) fn read(config: &str, credentials: &str) -> Result<Self, String> {
        // A command may have both, and backslashes in a path.
        let plain = || ParseOption { enabled_quote: false, enabled_escape: false, ..ParseOption::default() };
        let read = |name: &str, text: &str| {
            Ini::load_from_str_opt(text, plain()).map_err(|error| format!("the AWS file `{name}`: {error}"))
        };
        Ok(Self { config: read("config", config)?, credentials: read("credentials", credentials)? })
    }

    fn profile<'a>(&'a self, name: &'a str) -> Option<Profile<'a>> {
        let of_config = self.config.section(Some(format!("profile {name}")));
        let config = of_config.or_else(|| self.config.section(Some(name)).filter(|_| name == "default"));
        let credentials = self.credentials.section(Some(name));
        (config.is_some() || credentials.is_some()).then_some(Profile { name, config, credentials })
    }

    /// Plans how a profile gets its credentials; `None` if there is no such profile, or if it says nothing of them.
    pub(super) fn plan(&self, name: &str) -> Result<Option<Plan>, String> {
        let Some(mut profile) = self.profile(name) else { return Ok(None) };
        let (mut roles, mut names) = (Vec::new(), vec![profile.name]);
        let base = loop {
            let Some(role) = profile.role()? else { break profile.base()? };
            let name = profile.name;
            if let Some(file) = profile.get("web_identity_token_file") {
                break Some(Base::WebIdentity(role, file.to_owned()));
            }
            roles.push(role);
            let next = match (profile.get("source_profile"), profile.get("credential_source")) {
                (Some(next), None) => next,
                (None, Some(source)) => break Some(named_source(name, source)?),
                (Some(_), Some(_)) => {
                    return Err(format!(
                        "the AWS profile `{name}` has both `source_profile` and `credential_source`"
                    ));
                }
                (None, None) => {
                    return Err(format!(
                        "the AWS profile `{name}` has a `role_arn`, and neither `source_profile` nor `credential_source`"
                    ));
                }
            };
            // A profile that is its own source assumes the role with its own keys.
            if next == name {
                break profile.base()?;
            }
            if names.contains(&next) || roles.len() >= MAX_ROLES {
                return Err(format!("the AWS profile `{next}` is its own source, by way of others"));
            }
            names.push(next);
            profile = self.profile(next).ok_or_else(|| {
                format!("there is no AWS profile `{next}`, which is the `source_profile` of `{name}`")
            })?;
        };
        roles.reverse();
        match base {
            Some(base) => Ok(Some(Plan { base, roles })),
            None if roles.is_empty() => Ok(None),
            None => {
                Err(format!("the AWS profile `{}` has no credentials to assume a role with", profile.name))
            }
        }
    }
}

/// One profile, in both files.
struct Profile<'a> {
    name: &'a str,
    config: Option<&'a Properties>,
    credentials: Option<&'a Properties>,
}

impl<'a> Profile<'a> {
    /// Returns a setting. The file with credentials has precedence.
    fn get(&self, key: &str) -> Option<&'a str> {
        let of = |file: Option<&'a Properties>| file?.get(key).map(str::trim).filter(|text| !text.is_empty());
        of(self.credentials).or_else(|| of(self.config))
    }

    fn role(&self) -> Result<Option<Role>, String> {
        let Some(arn) = self.get("role_arn") else { return Ok(None) };
        let text = |key| self.get(key).map(ToOwned::to_owned);
        if self.get("mfa_serial").is_some() {
            return Err(format!(
                "the AWS profile `{}` has an `mfa_serial`, and a server cannot be asked for a code",
                self.name
            ));
        }
        let seconds = self.get("duration_seconds").map(|text| {
            text.parse().map_err(|_| {
                format!("`duration_seconds` of the AWS profile `{}` is no number of seconds", self.name)
            })
        });
        Ok(Some(Role {
            arn: arn.to_owned(),
            session: text("role_session_name"),
            external_id: text("external_id"),
            seconds: seconds.transpose()?,
            region: text("region"),
        }))
    }

    /// Returns what the profile has besides a role, in the order in which AWS' tools look: SSO, the file with
    /// credentials, a command, the file with settings.
    fn base(&self) -> Result<Option<Base>, String> {
        if self.get("sso_session").is_some() && self.get("sso_start_url").is_none() {
            return Err(format!(
                "the AWS profile `{}` has an `sso_session`, which this server cannot use; write `sso_start_url` and \
                 `sso_region` in the profile, and log in again",
                self.name
            ));
        }
        if self.get("sso_start_url").is_some() {
            return Ok(Some(Base::Sso(self.name.to_owned())));
        }
        let process = || self.get("credential_process").map(|line| Base::Process(line.to_owned()));
        let found = self.credentials.and_then(keys).or_else(process);
        Ok(found.or_else(|| self.config.and_then(keys)))
    }
}

fn keys(file: &Properties) -> Option<Base> {
    let get = |key: &str| file.get(key).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    Some(Base::Keys(Keys {
        id: get("aws_access_key_id")?,
        secret: get("aws_secret_access_key")?,
        token: get("aws_session_token"),
    }))
}

fn named_source(profile: &str, source: &str) -> Result<Base, String> {
    match source {
        "Environment" => Ok(Base::Environment),
        "EcsContainer" => Ok(Base::Container),
        "Ec2InstanceMetadata" => Ok(Base::Instance),
        other => Err(format!(
            "the AWS profile `{profile}` has the `credential_source` `{other}`; there are Environment, EcsContainer and \
             Ec2InstanceMetadata"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(config: &str, credentials: &str, name: &str) -> Result<Option<Plan>, String> {
        Files::read(config, credentials)?.plan(name)
    }

    fn keys(id: &str) -> Base {
        Base::Keys(Keys { id: id.to_owned(), secret: "s".to_owned(), token: None })
    }

    fn role(name: &str) -> Role {
        let arn = format!("arn:aws:iam::123456789012:role/{name}");
        Role { arn, session: None, external_id: None, seconds: None, region: None }
    }

    #[test]
    fn the_credentials_of_a_profile_have_the_order_of_aws() {
        let own = "aws_access_key_id = A\naws_secret_access_key = s\n";
        let config =
            format!("[default]\ncredential_process = \"/a b\\c\" --x 'y z'\n{own}[profile k]\n{own}");
        let process = Base::Process("\"/a b\\c\" --x 'y z'".to_owned());
        let only = |base| Ok(Some(Plan { base, roles: Vec::new() }));
        assert_eq!(plan(&config, "", "default"), only(process));
        assert_eq!(plan(&config, "", "k"), only(keys("A")));
        let credentials = "[default]\naws_access_key_id=B\naws_secret_access_key=s\n";
        assert_eq!(plan(&config, credentials, "default"), only(keys("B")));
        let sso = format!("[default]\nsso_start_url = https://x\n{own}");
        assert_eq!(plan(&sso, credentials, "default"), only(Base::Sso("default".to_owned())));
        assert_eq!(plan(&config, credentials, "other"), Ok(None));
        assert_eq!(plan("[profile r]\nregion = x\n", "", "r"), Ok(None));
        // A section of another name is no profile.
        assert_eq!(plan(&format!("[k]\n{own}"), "", "k"), Ok(None));
    }

    #[test]
    fn roles_are_assumed_from_the_last_source_on() {
        let arn = |name: &str| format!("role_arn = arn:aws:iam::123456789012:role/{name}\n");
        let config = format!(
            "[profile top]\n{}source_profile = middle\nexternal_id = e\nduration_seconds = 900\n\
             [profile middle]\n{}source_profile = base\n[profile own]\n{}source_profile = own\n\
             [profile machine]\n{}credential_source = EcsContainer\n\
             [profile web]\n{}web_identity_token_file = /token\n",
            arn("top"),
            arn("middle"),
            arn("own"),
            arn("machine"),
            arn("web")
        );
        let credentials = "[base]\naws_access_key_id = A\naws_secret_access_key = s\n\
                           [own]\naws_access_key_id = O\naws_secret_access_key = s\n";
        let top = Role { external_id: Some("e".to_owned()), seconds: Some(900), ..role("top") };
        let expected = [
            ("top", keys("A"), vec![role("middle"), top]),
            ("own", keys("O"), vec![role("own")]),
            ("machine", Base::Container, vec![role("machine")]),
            ("web", Base::WebIdentity(role("web"), "/token".to_owned()), Vec::new()),
        ];
        for (name, base, roles) in expected {
            assert_eq!(plan(&config, credentials, name), Ok(Some(Plan { base, roles })));
        }
    }

    #[test]
    fn what_a_server_cannot_do_is_told() {
        let role = "role_arn = arn:aws:iam::123456789012:role/r\n";
        for (config, told) in [
            (format!("[default]\n{role}"), "neither `source_profile` nor"),
            (format!("[default]\n{role}source_profile = a\ncredential_source = Environment"), "both"),
            (format!("[default]\n{role}source_profile = gone"), "no AWS profile `gone`"),
            (
                format!("[default]\n{role}source_profile=a\n[profile a]\n{role}source_profile=default"),
                "its own source",
            ),
            (
                format!("[default]\n{role}source_profile = a\n[profile a]\nregion = x"),
                "`a` has no credentials",
            ),
            (format!("[default]\n{role}credential_source = Moon"), "`Moon`"),
            (format!("[default]\n{role}source_profile = a\nmfa_serial = m"), "`mfa_serial`"),
            (format!("[default]\n{role}source_profile = a\nduration_seconds = x"), "`duration_seconds`"),
            ("[default]\nsso_session = s".to_owned(), "`sso_session`"),
        ] {
            let refused = plan(&config, "", "default").unwrap_err();
            assert!(refused.contains(told), "{config}: {refused}");
        }
    }
}
