//! Encryption of secrets at rest, with a key that is not in the database.
//!
//! ChaCha20-Poly1305 with a random nonce. The owner of a text is authenticated with it, so that a sealed text cannot be
//! moved to another place. The key is given, or is in a file that is made when the first secret is sealed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::base::files;
use crate::base::private_files;

/// The prefix of a sealed text: name and version of the format.
const PREFIX: &str = "sealed:1:";
/// Length of a key in bytes.
const KEY_BYTES: usize = 32;

/// Where to find the key.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum KeySource {
    /// Generated, and kept only in memory. For databases that live no longer than the process.
    #[default]
    Memory,
    /// In a file, which is made when it is missing and needed.
    File(PathBuf),
    /// Given as text: 32 bytes in base64 or hexadecimal digits.
    Text(String),
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("Memory"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Text(_) => f.write_str("Text"),
        }
    }
}

/// Why a text could not be sealed or unsealed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no valid key.
    #[error("{place} holds no key: 32 bytes in base64 or 64 hexadecimal digits are expected")]
    NoKey {
        /// Where it was expected.
        place: String,
    },
    /// The key file cannot be used.
    #[error("failed to {operation} the key file {path}")]
    File {
        /// The operation that failed.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The text was sealed with another key, or was changed.
    #[error(
        "a stored secret cannot be decrypted with {place}: it was encrypted with another key; start the server with that \
         key (secrets.key or secrets.keyFile; when the key was changed, secrets.previousKeyFile), nothing was changed; if \
         that key is lost, `qualitytrace secrets forget` drops what it encrypts"
    )]
    WrongKey {
        /// Where the key in use comes from.
        place: String,
    },
}

/// Seals and unseals texts. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    place: KeySource,
    key: Arc<OnceLock<LessSafeKey>>,
    /// Unseals what was sealed before the key was changed; seals nothing.
    previous: Option<Arc<LessSafeKey>>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Vault {
    /// Opens a vault with the key from this place; a missing file is made later.
    pub fn open(place: KeySource) -> Result<Self, Error> {
        let vault = Self { place, key: Arc::default(), previous: None };
        let bytes = match &vault.place {
            KeySource::Memory => Some(rand::random()),
            KeySource::File(path) => read(path)?,
            KeySource::Text(text) => Some(key_bytes(text).ok_or_else(|| vault.no_key())?),
        };
        if let Some(bytes) = bytes {
            vault.set(&bytes)?;
        }
        Ok(vault)
    }

    /// Adds a previous key, with which older texts are unsealed.
    pub fn with_previous(mut self, place: Option<KeySource>) -> Result<Self, Error> {
        let (Some(place), false) = (place, self.previous.is_some()) else { return Ok(self) };
        let named = match &place {
            KeySource::Memory => return Ok(self),
            KeySource::File(path) => format!("the key file {} (secrets.previousKeyFile)", path.display()),
            KeySource::Text(_) => "secrets.previousKey".to_owned(),
        };
        let no_key = || Error::NoKey { place: named.clone() };
        let bytes = match place {
            KeySource::Memory => None,
            KeySource::File(path) => read(&path)?,
            KeySource::Text(text) => key_bytes(&text),
        };
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes.ok_or_else(no_key)?).map_err(|_| no_key())?;
        self.previous = Some(Arc::new(LessSafeKey::new(key)));
        Ok(self)
    }

    /// Whether it has a previous key.
    pub fn has_previous(&self) -> bool {
        self.previous.is_some()
    }

    /// Whether a text is sealed.
    pub fn is_sealed(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Seals a text for its owner; it can only be unsealed for the same one.
    pub fn seal(&self, belongs_to: &str, text: &str) -> Result<String, Error> {
        let key = self.key()?;
        let nonce: [u8; NONCE_LEN] = rand::random();
        let mut sealed = text.as_bytes().to_vec();
        let done = key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(belongs_to.as_bytes()),
            &mut sealed,
        );
        // Fails only for a text of many gigabytes.
        done.map_err(|_| self.wrong_key())?;
        Ok(format!("{PREFIX}{}", STANDARD.encode([&nonce[..], &sealed].concat())))
    }

    /// Unseals a text; one that was never sealed is returned as it is.
    pub fn unseal(&self, belongs_to: &str, text: String) -> Result<String, Error> {
        if !Self::is_sealed(&text) {
            return Ok(text);
        }
        let current = self.known_key()?;
        let mut keys = current.into_iter().chain(self.previous.as_deref());
        keys.find_map(|key| opened(key, belongs_to, &text)).ok_or_else(|| self.wrong_key())
    }

    /// Unseals a text with the current key only.
    pub(crate) fn unseal_with_current(&self, belongs_to: &str, text: &str) -> Option<String> {
        opened(self.known_key().ok()??, belongs_to, text)
    }

    /// Returns the key, if there is one. Another server may have made the file since the last read.
    fn known_key(&self) -> Result<Option<&LessSafeKey>, Error> {
        if let (None, KeySource::File(path)) = (self.key.get(), &self.place)
            && let Some(bytes) = read(path)?
        {
            self.set(&bytes)?;
        }
        Ok(self.key.get())
    }

    /// Returns the key; generates it and its file when it is needed for the first time.
    fn key(&self) -> Result<&LessSafeKey, Error> {
        if let Some(key) = self.known_key()? {
            return Ok(key);
        }
        if let KeySource::File(path) = &self.place {
            let bytes: [u8; KEY_BYTES] = rand::random();
            let bytes = create(path, &bytes)?;
            self.set(&bytes)?;
        }
        self.key.get().ok_or_else(|| self.no_key())
    }

    fn set(&self, bytes: &[u8; KEY_BYTES]) -> Result<(), Error> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).map_err(|_| self.no_key())?;
        // A concurrent caller has read or made the same file.
        let _ = self.key.set(LessSafeKey::new(key));
        Ok(())
    }

    fn no_key(&self) -> Error {
        Error::NoKey { place: self.shown() }
    }

    fn wrong_key(&self) -> Error {
        Error::WrongKey { place: self.shown() }
    }

    fn shown(&self) -> String {
        match &self.place {
            KeySource::Memory => "the key of this process".to_owned(),
            KeySource::File(path) if self.key.get().is_none() => {
                format!("the key file {}, which is not there", path.display())
            }
            KeySource::File(path) => format!("the key file {}", path.display()),
            KeySource::Text(_) => "secrets.key".to_owned(),
        }
    }
}

/// Decrypts a sealed text; `None` if it was sealed with another key, or changed.
fn opened(key: &LessSafeKey, belongs_to: &str, text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
    let mut sealed = sealed.to_vec();
    let aad = Aad::from(belongs_to.as_bytes());
    let opened = key.open_in_place(Nonce::assume_unique_for_key(*nonce), aad, &mut sealed).ok()?;
    String::from_utf8(opened.to_vec()).ok()
}

/// Reads the key from a file; `None` if there is no file.
fn read(path: &Path) -> Result<Option<[u8; KEY_BYTES]>, Error> {
    let text = match files::read_text(path, files::CREDENTIAL_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::File { operation: "read", path: path.to_owned(), source }),
    };
    let no_key = || Error::NoKey { place: format!("the key file {}", path.display()) };
    key_bytes(&text).map(Some).ok_or_else(no_key)
}

/// Writes a new key into a file that only its owner can read. Returns the existing key if another process was faster.
fn create(path: &Path, bytes: &[u8; KEY_BYTES]) -> Result<[u8; KEY_BYTES], Error> {
    let failed = |operation| move |source| Error::File { operation, path: path.to_owned(), source };
    // Written to a temporary file and linked into place, so that half a key can never be read.
    let draft = path.with_extension(format!("{:016x}", rand::random::<u64>()));
    // The data folder of a server with a PostgreSQL database may be missing.
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_files::folder(folder).map_err(failed("make the folder of"))?;
    }
    let mut file = private_files::file(&draft).map_err(failed("create"))?;
    let text = format!("{}\n", STANDARD.encode(bytes));
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write"))?;
    let linked = std::fs::hard_link(&draft, path);
    let _ = std::fs::remove_file(&draft);
    // The key must be durable before a secret that it seals is stored.
    let folder = path.parent().unwrap_or(Path::new(""));
    match linked.and_then(|()| private_files::sync_folder(folder)) {
        Ok(()) => Ok(*bytes),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            read(path)?.ok_or_else(|| failed("read")(error))
        }
        Err(error) => Err(failed("create")(error)),
    }
}

fn key_bytes(text: &str) -> Option<[u8; KEY_BYTES]> {
    let text = text.trim();
    if text.len() == KEY_BYTES * 2 {
        return const_hex::decode_to_array(text).ok();
    }
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_can_be_opened_in_its_place_only() {
        let vault = Vault::open(KeySource::Memory).unwrap();
        let sealed = vault.seal("here", "hunter2").unwrap();
        assert!(Vault::is_sealed(&sealed) && !sealed.contains("hunter2"));
        assert_ne!(sealed, vault.seal("here", "hunter2").unwrap());
        assert_eq!(vault.unseal("here", sealed.clone()).unwrap(), "hunter2");
        assert!(vault.unseal("there", sealed.clone()).is_err());
        assert!(Vault::open(KeySource::Memory).unwrap().unseal("here", sealed).is_err());
        assert_eq!(vault.unseal("here", "plain".to_owned()).unwrap(), "plain");
    }

    #[test]
    fn a_key_file_is_made_when_it_is_needed_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secrets.key");
        let early = Vault::open(KeySource::File(path.clone())).unwrap();
        let vault = Vault::open(KeySource::File(path.clone())).unwrap();
        assert!(!path.exists());
        let sealed = vault.seal("here", "hunter2").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let again = Vault::open(KeySource::File(path.clone())).unwrap();
        assert_eq!(again.unseal("here", sealed.clone()).unwrap(), "hunter2");
        assert_eq!(
            early.unseal("here", sealed.clone()).unwrap(),
            "hunter2",
            "it was opened before there was a key"
        );
        std::fs::remove_file(&path).unwrap();
        let error = Vault::open(KeySource::File(path)).unwrap().unseal("here", sealed).unwrap_err();
        assert!(error.to_string().contains("which is not there"), "{error}");
    }

    #[test]
    fn a_key_is_base64_or_hexadecimal() {
        assert_eq!(key_bytes(&"00".repeat(32)), Some([0; 32]));
        assert_eq!(key_bytes(&format!("{}\n", STANDARD.encode([7; 32]))), Some([7; 32]));
        assert_eq!(key_bytes("short"), None);
        assert!(Vault::open(KeySource::Text("short".to_owned())).is_err());
    }
}
