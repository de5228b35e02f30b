//! etcd versions and everything that depends on them, in one table that is consulted everywhere.

use std::fmt;
use std::str::FromStr;

/// An etcd version, `major.minor.patch` with an optional pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major.
    pub major: u32,
    /// Minor; members of neighbouring minors can form one cluster.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
    /// Pre-release without the dash, empty for a release.
    pub pre: String,
}

/// Why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("version `{text}` must be `<major>.<minor>.<patch>` such as `3.6.10`, optionally with a leading `v`")]
pub struct VersionError {
    /// What was given.
    pub text: String,
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let error = || VersionError { text: text.to_owned() };
        let trimmed = text.strip_prefix('v').unwrap_or(text);
        let (core, pre) = trimmed.split_once('-').unwrap_or((trimmed, ""));
        if trimmed.ends_with('-') {
            return Err(error());
        }
        let mut parts = core.split('.').map(|part| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse::<u32>().ok()).flatten().ok_or_else(error)
        });
        let mut next = || parts.next().unwrap_or_else(|| Err(error()));
        let version = Self { major: next()?, minor: next()?, patch: next()?, pre: pre.to_owned() };
        if parts.next().is_some() { Err(error()) } else { Ok(version) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.pre.is_empty() { Ok(()) } else { write!(f, "-{}", self.pre) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_round_trip_and_nonsense_is_refused() {
        for text in ["3.2.25", "3.6.10", "3.7.0-rc.1"] {
            assert_eq!(text.parse::<Version>().unwrap().to_string(), text);
        }
        assert_eq!("v3.5.0".parse::<Version>().unwrap().to_string(), "3.5.0");
        for text in ["abc", "3.2", "", "3..1", "3.2.1.0", "3.2.x", "3.2.1-", "+3.2.1"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }
}
