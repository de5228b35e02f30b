//! The flags of etcd and of its restore tools that say who a member is: written by `build`, read by the simulator.

use std::fmt;
use std::str::FromStr;

/// `--initial-cluster-state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum InitialState {
    /// First formation: all members of `--initial-cluster` start together.
    #[default]
    New,
    /// The member joins a cluster that was formed.
    Existing,
}

impl InitialState {
    /// As etcd reads it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Existing => "existing",
        }
    }
}

impl fmt::Display for InitialState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for InitialState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "new" => Ok(Self::New),
            "existing" => Ok(Self::Existing),
            other => Err(format!("--initial-cluster-state must be new or existing, and is `{other}`")),
        }
    }
}

/// What an etcd (or restore tool) command line says of the member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdFlags {
    /// The program.
    pub program: String,
    /// Arguments that are no flags: `snapshot restore <file>` of a restore tool.
    pub positional: Vec<String>,
    /// `--name`.
    pub name: String,
    /// `--data-dir`; the agent appends it for a restore tool.
    pub data_dir: Option<String>,
    /// `--initial-cluster`: names and peer URLs.
    pub initial_cluster: Vec<(String, String)>,
    /// `--initial-cluster-state`.
    pub initial_state: InitialState,
    /// `--initial-cluster-token`.
    pub token: String,
    /// `--initial-advertise-peer-urls`.
    pub peer_urls: Vec<String>,
    /// `--advertise-client-urls`.
    pub client_urls: Vec<String>,
    /// `--listen-client-urls`.
    pub listen_client_urls: Vec<String>,
    /// `--listen-metrics-urls`.
    pub listen_metrics_urls: Vec<String>,
}

impl EtcdFlags {
    /// Reads a command line, program first. Flags that say nothing about the member are skipped.
    ///
    /// # Errors
    /// When the line is empty or a flag that matters has no usable value.
    pub fn parse(command_line: &[String]) -> Result<Self, String> {
        let (program, args) = command_line.split_first().ok_or("the command line is empty")?;
        let mut flags = Self { program: program.clone(), ..Self::default() };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let Some(flag) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
                flags.positional.push(arg.clone());
                continue;
            };
            let (flag, inline) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (flag, None),
            };
            let known = [
                "name",
                "data-dir",
                "initial-cluster",
                "initial-cluster-state",
                "initial-cluster-token",
                "initial-advertise-peer-urls",
                "advertise-client-urls",
                "listen-client-urls",
                "listen-metrics-urls",
            ];
            if !known.contains(&flag) {
                continue;
            }
            let value = inline.or_else(|| args.next().cloned()).ok_or_else(|| format!("--{flag} needs a value"))?;
            flags.set(flag, &value)?;
        }
        Ok(flags)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let list = || value.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        match flag {
            "name" => value.clone_into(&mut self.name),
            "data-dir" => self.data_dir = Some(value.to_owned()),
            "initial-cluster" => self.initial_cluster = parse_initial_cluster(value)?,
            "initial-cluster-state" => self.initial_state = value.parse()?,
            "initial-cluster-token" => value.clone_into(&mut self.token),
            "initial-advertise-peer-urls" => self.peer_urls = list(),
            "advertise-client-urls" => self.client_urls = list(),
            "listen-client-urls" => self.listen_client_urls = list(),
            "listen-metrics-urls" => self.listen_metrics_urls = list(),
            _ => {}
        }
        Ok(())
    }
}

/// `a=http://a:2380,b=http://b:2380`.
pub fn initial_cluster_flag(members: &[(String, String)]) -> String {
    members.iter().map(|(name, url)| format!("{name}={url}")).collect::<Vec<_>>().join(",")
}

fn parse_initial_cluster(value: &str) -> Result<Vec<(String, String)>, String> {
    let entry = |part: &str| {
        let (name, url) = part.split_once('=')?;
        Some((name.to_owned(), url.to_owned()))
    };
    value
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| entry(part).ok_or_else(|| format!("--initial-cluster must be name=URL pairs, and has `{part}`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<EtcdFlags, String> {
        EtcdFlags::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn both_ways_of_writing_a_flag_are_read_and_others_are_skipped() {
        let flags = parse(
            "/usr/local/bin/etcd --name=a --data-dir /var/etcd/data --initial-cluster=a=http://a:2380,b=http://b:2380 \
             --client-cert-auth=true --initial-cluster-state=existing --advertise-client-urls=http://a:2379",
        )
        .unwrap();
        assert_eq!((flags.name.as_str(), flags.data_dir.as_deref()), ("a", Some("/var/etcd/data")));
        assert_eq!(flags.initial_state, InitialState::Existing);
        assert_eq!(initial_cluster_flag(&flags.initial_cluster), "a=http://a:2380,b=http://b:2380");
        assert_eq!(flags.client_urls, ["http://a:2379"]);
    }

    #[test]
    fn a_restore_tool_has_positional_arguments() {
        let flags = parse("etcdutl snapshot restore /s.db --name=a --initial-cluster-token=t").unwrap();
        assert_eq!(flags.positional, ["snapshot", "restore", "/s.db"]);
        assert_eq!((flags.token.as_str(), flags.data_dir), ("t", None));
    }

    #[test]
    fn unusable_values_are_refused() {
        assert!(EtcdFlags::parse(&[]).is_err());
        assert!(parse("etcd --name").is_err());
        assert!(parse("etcd --initial-cluster=a").is_err());
        assert!(parse("etcd --initial-cluster-state=old").is_err());
    }
}
