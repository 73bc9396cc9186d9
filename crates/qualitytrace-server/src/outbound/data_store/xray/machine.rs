//! The AWS credentials of the server's machine, searched in the order of AWS' own tools: the environment, the profile, a
//! web identity, the container, the instance.
//!
//! Whatever is set up and fails ends the search: another identity than the one that was meant is not used.

use std::time::Duration;

use http::Uri;
use http::request::Parts;
use qualitytrace_core::run::Reply;
use reqsign_aws_v4::{
    AssumeRoleCredentialProvider, AssumeRoleWithWebIdentityCredentialProvider, Credential,
    ECSCredentialProvider, EnvCredentialProvider, IMDSv2CredentialProvider, RequestSigner,
    SSOCredentialProvider, StaticCredentialProvider,
};
use reqsign_core::time::Timestamp;
use reqsign_core::{Context, Error, ProvideCredential, Result, SignRequest, Signer};
use serde::Deserialize;

use super::profile::{Base, Files, Plan, Role};
use crate::base::decode::{self, Allowance};
use crate::outbound::trigger::run_line;

/// How long the command of a profile may take.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest output of the command of a profile.
const MAX_OUTPUT: u64 = 64 << 10;
/// The name of a session of ours, unless the profile has another.
const SESSION: &str = "qualitytrace";

/// Where credentials were looked for.
const NONE: &str = "none in its environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), in the profile of its `~/.aws` \
                    files, of a web identity, of its container or of its instance";

/// The search for credentials. Roles are assumed in `region`, unless the environment or the profile names another.
#[derive(Debug)]
pub(super) struct Machine {
    region: String,
}

/// What the command of a profile prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

impl Machine {
    /// Searches for credentials of a data store in this region.
    pub(super) fn new(region: String) -> Self {
        Self { region }
    }

    /// Returns the credentials of the profile, if there is one.
    async fn of_profile(&self, context: &Context) -> Result<Option<Credential>> {
        let chosen = context.env_var("AWS_PROFILE").filter(|name| !name.is_empty());
        let config = file(context, "AWS_CONFIG_FILE", "~/.aws/config").await?;
        let credentials = file(context, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials").await?;
        let files = Files::read(&config, &credentials).map_err(Error::config_invalid)?;
        let name = chosen.as_deref().unwrap_or("default");
        let plan = files.plan(name).map_err(Error::config_invalid)?;
        let Some(Plan { base, roles }) = plan else {
            return match chosen {
                Some(name) => Err(Error::config_invalid(format!("no AWS profile `{name}` has credentials"))),
                None => Ok(None),
            };
        };
        let mut credential = self.of_base(context, base).await?;
        for role in roles {
            credential = self.assumed(context, role, credential).await?;
        }
        Ok(Some(credential))
    }

    async fn of_base(&self, context: &Context, base: Base) -> Result<Credential> {
        let (found, what) = match base {
            Base::Keys(keys) => {
                let (access_key_id, secret_access_key) = (keys.id, keys.secret);
                let session_token = keys.token;
                return Ok(Credential {
                    access_key_id,
                    secret_access_key,
                    session_token,
                    ..Credential::default()
                });
            }
            Base::Process(line) => return printed(&line).await,
            Base::Sso(profile) => {
                let sso = SSOCredentialProvider::new().with_profile(profile);
                (sso.provide_credential(context).await?, "the SSO portal")
            }
            Base::WebIdentity(role, token) => {
                let region = self.region(context, &role);
                let mut web =
                    AssumeRoleWithWebIdentityCredentialProvider::with_config(role.arn, token.into())
                        .with_role_session_name(role.session.unwrap_or_else(|| SESSION.to_owned()))
                        .with_region(region)
                        .with_regional_sts_endpoint();
                if let Some(seconds) = role.seconds {
                    web = web.with_duration_seconds(seconds);
                }
                (web.provide_credential(context).await?, "the web identity")
            }
            Base::Environment => {
                (EnvCredentialProvider::new().provide_credential(context).await?, "the environment")
            }
            Base::Container => {
                (ECSCredentialProvider::default().provide_credential(context).await?, "the container")
            }
            Base::Instance => {
                (IMDSv2CredentialProvider::default().provide_credential(context).await?, "the instance")
            }
        };
        found.ok_or_else(|| {
            Error::config_invalid(format!("{what}, which the AWS profile names, has no credentials"))
        })
    }

    /// Assumes a role with credentials.
    async fn assumed(&self, context: &Context, role: Role, with: Credential) -> Result<Credential> {
        let region = self.region(context, &role);
        let Credential { access_key_id, secret_access_key, session_token, .. } = with;
        let mut source = StaticCredentialProvider::new(&access_key_id, &secret_access_key);
        if let Some(token) = &session_token {
            source = source.with_session_token(token);
        }
        let signer = AtEndpoint { signer: RequestSigner::new("sts", &region), instead: endpoint(context)? };
        let mut provider =
            AssumeRoleCredentialProvider::new(role.arn, Signer::new(context.clone(), source, signer))
                .with_role_session_name(role.session.unwrap_or_else(|| SESSION.to_owned()))
                .with_region(region)
                .with_regional_sts_endpoint();
        if let Some(id) = role.external_id {
            provider = provider.with_external_id(id);
        }
        if let Some(seconds) = role.seconds {
            provider = provider.with_duration_seconds(seconds);
        }
        let assumed = provider.provide_credential(context).await?;
        assumed.ok_or_else(|| Error::unexpected("AWS STS has no credentials for the role of the profile"))
    }

    /// The region in which a role is assumed.
    fn region(&self, context: &Context, role: &Role) -> String {
        let named = ["AWS_REGION", "AWS_DEFAULT_REGION"].into_iter().find_map(|name| context.env_var(name));
        let named = named.filter(|name| !name.is_empty()).or_else(|| role.region.clone());
        named.unwrap_or_else(|| self.region.clone())
    }
}

impl ProvideCredential for Machine {
    type Credential = Credential;

    async fn provide_credential(&self, context: &Context) -> Result<Option<Credential>> {
        if let Some(found) = EnvCredentialProvider::new().provide_credential(context).await? {
            return Ok(Some(found));
        }
        if let Some(found) = self.of_profile(context).await? {
            return Ok(Some(found));
        }
        let web_identity = AssumeRoleWithWebIdentityCredentialProvider::default();
        if let Some(found) = web_identity.provide_credential(context).await? {
            return Ok(Some(found));
        }
        if let Some(found) = ECSCredentialProvider::default().provide_credential(context).await? {
            return Ok(Some(found));
        }
        // On another machine than one of AWS, nothing answers.
        let of_instance = IMDSv2CredentialProvider::default().provide_credential(context).await;
        of_instance.ok().flatten().map(Some).ok_or_else(|| Error::credential_invalid(NONE))
    }
}

/// Reads a file with profiles; one that does not exist is empty.
async fn file(context: &Context, variable: &str, usual: &str) -> Result<String> {
    let chosen = context.env_var(variable).filter(|path| !path.is_empty());
    let path = context.expand_home_dir(chosen.as_deref().unwrap_or(usual));
    let Some(path) = path.filter(|path| std::path::Path::new(path).exists()) else {
        return Ok(String::new());
    };
    Ok(String::from_utf8_lossy(&context.file_read(&path).await?).into_owned())
}

/// Runs the command of a profile and reads what it prints.
async fn printed(line: &str) -> Result<Credential> {
    let failed = |cause: &str| {
        Error::unexpected(format!(
            "the `credential_process` of the AWS profile {cause}; the server's log has more"
        ))
    };
    let reply = run_line(line, PROCESS_TIMEOUT, MAX_OUTPUT).await;
    let (code, stdout, stderr) = match reply {
        Ok(Reply::Exec { code, stdout, stderr, .. }) => (code, stdout, stderr),
        Ok(_) => return Err(failed("is no command")),
        Err(failure) => {
            tracing::warn!("credential_process: {}", failure.message);
            return Err(failed("cannot be run, or takes too long"));
        }
    };
    if code != 0 {
        tracing::warn!(code, "credential_process failed: {}", stderr.trim());
        return Err(failed(&format!("ended with code {code}")));
    }
    // Its output is not shown: it may have secrets.
    let printed: Printed = decode::json_within(stdout.as_bytes(), Allowance::SMALL)
        .map_err(|_| failed("printed no credentials"))?;
    if printed.version != 1 {
        return Err(failed(&format!("printed `Version` {}, not 1", printed.version)));
    }
    let expires_in = printed.expiration.map(|time| time.parse::<Timestamp>()).transpose();
    Ok(Credential {
        access_key_id: printed.access_key_id,
        secret_access_key: printed.secret_access_key,
        session_token: printed.session_token,
        expires_in: expires_in.map_err(|_| failed("printed an `Expiration` that is no time"))?,
    })
}

/// The address that the environment names for STS.
fn endpoint(context: &Context) -> Result<Option<Uri>> {
    let Some(text) = context.env_var("AWS_ENDPOINT_URL_STS").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let uri = text.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.authority().is_some());
    let uri = uri.ok_or_else(|| Error::config_invalid("`AWS_ENDPOINT_URL_STS` is no address"))?;
    Ok(Some(uri))
}

/// Signs a request to STS for the address that the environment names instead of the usual one.
#[derive(Debug)]
struct AtEndpoint {
    signer: RequestSigner,
    instead: Option<Uri>,
}

impl SignRequest for AtEndpoint {
    type Credential = Credential;

    async fn sign_request(
        &self,
        context: &Context,
        request: &mut Parts,
        credential: Option<&Credential>,
        expires_in: Option<Duration>,
    ) -> Result<()> {
        if let Some(instead) = &self.instead {
            let mut parts = request.uri.clone().into_parts();
            (parts.scheme, parts.authority) = (instead.scheme().cloned(), instead.authority().cloned());
            request.uri = Uri::from_parts(parts)
                .map_err(|error| Error::request_invalid(format!("AWS_ENDPOINT_URL_STS: {error}")))?;
        }
        self.signer.sign_request(context, request, credential, expires_in).await
    }
}
