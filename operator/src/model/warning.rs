//! What a spec says that is accepted and still deserves a word: its user may not mean it.

use std::fmt;

use super::Version;

/// One of them. The condition `SpecWarnings` has their words, and the reason of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecWarning {
    /// An even number of members tolerates no more failures than one less.
    EvenSize {
        /// The wanted size.
        size: i32,
    },
    /// No version is given, and the archived operator's default takes its place.
    VersionNotSet {
        /// The default.
        default: Version,
    },
    /// The version is the archived operator's default, which nobody maintains.
    VersionUnmaintained {
        /// The version.
        version: Version,
    },
    /// A field that another one has taken the place of.
    AntiAffinityDeprecated,
    /// `antiAffinity` beside `affinity`, which wins.
    AntiAffinityIgnored,
    /// A variable of etcd that a flag of ours overrules.
    EnvironmentIgnored {
        /// The variable.
        name: String,
    },
}

impl fmt::Display for SpecWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EvenSize { size } => {
                write!(f, "`spec.size` {size} is even: it tolerates no more failures than {}", size - 1)
            }
            Self::VersionNotSet { default } => write!(
                f,
                "`spec.version` is not set: the archived operator's default {default} is used, which is no longer \
                 maintained; set it"
            ),
            Self::VersionUnmaintained { version } => {
                write!(f, "`spec.version` {version} is the archived operator's default and no longer maintained")
            }
            Self::AntiAffinityDeprecated => {
                write!(f, "`spec.pod.antiAffinity` is deprecated: use `spec.pod.affinity`")
            }
            Self::AntiAffinityIgnored => {
                write!(f, "`spec.pod.antiAffinity` has no effect beside `spec.pod.affinity`")
            }
            Self::EnvironmentIgnored { name } => {
                write!(f, "`spec.pod.etcdEnv`: `{name}` has no effect, the operator sets it by a flag")
            }
        }
    }
}
