//! etcd versions and everything that depends on them, in one table that is consulted everywhere.
//!
//! The rows were measured on real processes of each minor; the boundaries within a minor are from etcd's changelogs.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// An etcd version, `major.minor.patch` with an optional pre-release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        // The archived operator trimmed every leading `v`.
        let trimmed = text.trim_start_matches('v');
        let (core, pre) = trimmed.split_once('-').unwrap_or((trimmed, ""));
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        if trimmed.ends_with('-') || !pre.bytes().all(legal) {
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

/// A pre-release comes before its release.
impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |version: &Self| (version.major, version.minor, version.patch, version.pre.is_empty());
        key(self).cmp(&key(other)).then_with(|| self.pre.cmp(&other.pre))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a kubelet can ask a member without harming it.
///
/// Never `GET /health`: up to 3.4 each one writes an entry of the v2 store into the log, and a member of 3.6 that
/// replays such an entry panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// `/livez` and `/readyz` on the client port: alive does not depend on a quorum, ready does.
    Health,
    /// `/livez` and `/readyz` on a plain listener of their own. With client TLS etcd asks for a client certificate and
    /// the kubelet has none. A TCP check in its place would say nothing: etcd binds its ports before it can serve.
    /// What the listener shows besides is metrics, and no key.
    HealthOnMetricsPort,
    /// `/version` on the client port: it is answered from the moment that the member has joined.
    Version,
    /// A connection to the client port: client TLS on versions that serve neither `/livez` nor `/readyz` anywhere.
    /// The operator judges the health of the member itself.
    Tcp,
}

/// The program that makes a data directory from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RestoreTool {
    /// `etcdctl`, with `ETCDCTL_API=3`: below 3.5.
    Etcdctl,
    /// `etcdutl`: from 3.5 on; the only one from 3.6 on.
    Etcdutl,
}

impl RestoreTool {
    /// Where the etcd images have it.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Etcdctl => "/usr/local/bin/etcdctl",
            Self::Etcdutl => "/usr/local/bin/etcdutl",
        }
    }
}

/// The oldest minor of etcd 3 that the operator starts.
const MINOR_MIN: u32 = 2;
/// The first patch of 3.5 from which 3.6 may be reached. Before it, learner promotions and removed members were not in
/// the v3 store, which 3.6 reads: voters come back as learners, removed members as zombies.
const PATCH_BEFORE_3_6: u32 = 26;

impl Version {
    /// A release.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch, pre: String::new() }
    }

    /// The same release: what follows it (a build for an architecture, a pre-release) is not always in what a server says.
    pub fn is_same_release(&self, other: &Self) -> bool {
        (self.major, self.minor, self.patch) == (other.major, other.minor, other.patch)
    }

    /// Whether it is at least this release. A pre-release counts as its release: it has the same capabilities.
    const fn at_least(&self, major: u32, minor: u32, patch: u32) -> bool {
        if self.major != major {
            self.major > major
        } else if self.minor != minor {
            self.minor > minor
        } else {
            self.patch >= patch
        }
    }

    /// Whether `/livez` and `/readyz` are served: 3.4.29 and later of 3.4, 3.5.11 and later of 3.5, 3.6 and later.
    pub const fn serves_livez(&self) -> bool {
        match (self.major, self.minor) {
            (3, 4) => self.patch >= 29,
            (3, 5) => self.patch >= 11,
            _ => self.at_least(3, 6, 0),
        }
    }

    /// What a kubelet asks a member of this version.
    pub const fn probe(&self, client_tls: bool) -> ProbeKind {
        match (self.serves_livez(), client_tls) {
            (true, false) => ProbeKind::Health,
            (true, true) => ProbeKind::HealthOnMetricsPort,
            (false, false) => ProbeKind::Version,
            (false, true) => ProbeKind::Tcp,
        }
    }

    /// Members without a vote: 3.4 and later.
    pub const fn supports_learners(&self) -> bool {
        self.at_least(3, 4, 0)
    }

    /// Maintenance.MoveLeader: 3.3 and later.
    pub const fn supports_move_leader(&self) -> bool {
        self.at_least(3, 3, 0)
    }

    /// Whether it writes entries of the v2 store into the raft log, for members' attributes: below 3.6.
    pub const fn writes_legacy_log(&self) -> bool {
        !self.at_least(3, 6, 0)
    }

    /// Whether it can read such entries. From 3.7 on a member that finds one after its last raft snapshot panics.
    pub const fn reads_legacy_log(&self) -> bool {
        !self.at_least(3, 7, 0)
    }

    /// Whether it says what its database is migrated to: 3.6 and later. Later minors panic on one that was not.
    pub const fn has_storage_version(&self) -> bool {
        self.at_least(3, 6, 0)
    }

    /// What restores a snapshot into a data directory for this version.
    pub const fn restore_tool(&self) -> RestoreTool {
        if self.at_least(3, 5, 0) { RestoreTool::Etcdutl } else { RestoreTool::Etcdctl }
    }

    /// Why no member may ever be brought to this version.
    fn why_not_target(&self) -> Option<String> {
        if self.major != 3 {
            return Some(format!("etcd {} is not known to this operator: must be a version of etcd 3", self.major));
        }
        if self.minor < MINOR_MIN {
            return Some(format!("must be 3.{MINOR_MIN}.0 or later"));
        }
        if self.minor == 5 && self.patch <= 2 {
            return Some("etcd 3.5.0 to 3.5.2 can corrupt data: must be 3.5.3 or later".to_owned());
        }
        None
    }

    /// Why a new cluster must not be started at this version.
    pub fn why_not_start(&self) -> Option<String> {
        self.why_not_target()
    }

    /// Why members that run `from` must not be taken to `to`, and what is allowed instead. None: the step is safe.
    ///
    /// Going back within a minor is allowed, so that a bad patch release can be undone: patch releases share one
    /// format and may run mixed. The exception is a step to a release without `/livez`, which the probes of the running
    /// pods ask for: back within a minor, or from a late 3.4 to an early 3.5.
    pub fn why_not_step(from: &Self, to: &Self) -> Option<String> {
        if from == to {
            return None;
        }
        if from.major != to.major {
            return Some(format!("the major version cannot change: must stay etcd {}", from.major));
        }
        if to.minor < from.minor {
            return Some(format!(
                "etcd cannot be downgraded: must be {}.{} or {}.{}",
                from.major,
                from.minor,
                from.major,
                from.minor + 1
            ));
        }
        if to.minor > from.minor + 1 {
            return Some(format!(
                "minor versions cannot be skipped: must go to {}.{} first",
                from.major,
                from.minor + 1
            ));
        }
        if let Some(why) = to.why_not_target() {
            return Some(why);
        }
        if to.minor == 6 && from.minor == 5 && from.patch < PATCH_BEFORE_3_6 {
            return Some(format!(
                "3.6 is safe only from 3.5.{PATCH_BEFORE_3_6} or later, which completes the member list that 3.6 \
                 reads: must go to 3.5.{PATCH_BEFORE_3_6} or later first"
            ));
        }
        // (3.4.29 and later do, and the first releases of 3.5 do not.)
        if from.serves_livez() && !to.serves_livez() {
            return Some(format!(
                "{to} does not serve /livez, which the running pods are probed with: must be 3.4.29 or later of 3.4, 3.5.11 or \
                 later of 3.5, or 3.6"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    /// One measured or released version of each minor.
    const MINORS: [&str; 6] = ["3.2.25", "3.3.27", "3.4.23", "3.5.35", "3.6.10", "3.7.3"];

    #[test]
    fn versions_round_trip_and_nonsense_is_refused() {
        for text in ["3.2.25", "3.6.10", "3.7.0-rc.1"] {
            assert_eq!(version(text).to_string(), text);
        }
        assert_eq!(version("v3.5.0").to_string(), "3.5.0");
        for text in ["abc", "3.2", "", "3..1", "3.2.1.0", "3.2.x", "3.2.1-", "+3.2.1", "3.2.1-a b", "3.2.99999999999"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pre_release_comes_before_its_release_and_numbers_are_numbers() {
        let order = ["3.2.9", "3.2.25", "3.5.0", "3.7.0-alpha.0", "3.7.0-rc.1", "3.7.0", "3.10.0", "4.0.0"];
        for pair in order.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn from_each_minor_only_itself_and_the_next_can_be_reached() {
        for (i, from) in MINORS.iter().enumerate() {
            for (j, to) in MINORS.iter().enumerate() {
                let why = Version::why_not_step(&version(from), &version(to));
                assert_eq!(why.is_none(), j == i || j == i + 1, "{from} -> {to}: {why:?}");
                let rule = if j < i { "downgraded" } else { "skipped" };
                assert!(why.is_none_or(|why| why.contains(rule)), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn steps_at_the_boundaries_are_refused_with_their_rule() {
        let table = [
            ("3.5.25", "3.6.10", Some("3.5.26")),
            ("3.5.26", "3.6.10", None),
            ("3.5.20", "3.6.0-rc.1", Some("3.5.26")),
            ("3.4.23", "3.5.0", Some("3.5.3")),
            ("3.4.23", "3.5.2", Some("3.5.3")),
            ("3.4.23", "3.5.3", None),
            ("3.5.10", "3.5.1", Some("3.5.3")),
            ("3.5.1", "3.5.26", None),
            ("3.5.1", "3.5.1", None),
            ("3.5.35", "3.5.26", None),
            ("3.5.26", "3.5.10", Some("/livez")),
            ("3.4.29", "3.4.28", Some("/livez")),
            ("3.4.29", "3.5.10", Some("/livez")),
            ("3.4.29", "3.5.11", None),
            ("3.4.28", "3.5.10", None),
            ("3.2.25", "3.2.13", None),
            ("3.1.20", "3.2.25", None),
            ("3.2.25", "3.1.20", Some("downgraded")),
            ("3.7.3", "4.0.0", Some("major")),
            ("2.3.8", "3.2.25", Some("major")),
            ("3.6.10", "3.7.0-rc.1", None),
            ("3.7.3", "3.8.0", None),
        ];
        for (from, to, rule) in table {
            let why = Version::why_not_step(&version(from), &version(to));
            match rule {
                Some(rule) => assert!(why.as_deref().is_some_and(|why| why.contains(rule)), "{from} -> {to}: {why:?}"),
                None => assert_eq!(why, None, "{from} -> {to}"),
            }
        }
    }

    #[test]
    fn a_new_cluster_starts_at_any_known_version_but_the_corrupting_ones() {
        for text in MINORS.iter().chain(&["3.2.0", "3.2.13", "3.5.3", "3.8.0"]) {
            assert_eq!(version(text).why_not_start(), None, "{text}");
        }
        for text in ["3.5.0", "3.5.1", "3.5.2", "3.1.20", "2.3.8", "4.0.0"] {
            assert!(version(text).why_not_start().is_some(), "{text}");
        }
    }

    #[test]
    fn the_table_of_capabilities() {
        let row = |text: &str| {
            let version = version(text);
            let yes = |is: bool| if is { "yes" } else { "no" };
            format!(
                "{text}: learners {}, move leader {}, {:?}, {:?}, TLS {:?}",
                yes(version.supports_learners()),
                yes(version.supports_move_leader()),
                version.restore_tool(),
                version.probe(false),
                version.probe(true),
            )
        };
        let texts = ["3.2.25", "3.3.27", "3.4.28", "3.4.29", "3.5.10", "3.5.11", "3.6.0", "3.6.10", "3.7.3", "3.10.0"];
        let table: Vec<String> = texts.iter().map(|text| row(text)).collect();
        let expected = "\
3.2.25: learners no, move leader no, Etcdctl, Version, TLS Tcp
3.3.27: learners no, move leader yes, Etcdctl, Version, TLS Tcp
3.4.28: learners yes, move leader yes, Etcdctl, Version, TLS Tcp
3.4.29: learners yes, move leader yes, Etcdctl, Health, TLS HealthOnMetricsPort
3.5.10: learners yes, move leader yes, Etcdutl, Version, TLS Tcp
3.5.11: learners yes, move leader yes, Etcdutl, Health, TLS HealthOnMetricsPort
3.6.0: learners yes, move leader yes, Etcdutl, Health, TLS HealthOnMetricsPort
3.6.10: learners yes, move leader yes, Etcdutl, Health, TLS HealthOnMetricsPort
3.7.3: learners yes, move leader yes, Etcdutl, Health, TLS HealthOnMetricsPort
3.10.0: learners yes, move leader yes, Etcdutl, Health, TLS HealthOnMetricsPort";
        assert_eq!(table.join("\n"), expected);
    }
}
