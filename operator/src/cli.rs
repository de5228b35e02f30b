//! The command line: the archived operator's flags in Go's style, with single or double dash, and ours.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, Parser};
use jiff::SignedDuration;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::agent;
use crate::backup::transfer::PART_BYTES;
use crate::controller::Options;
use crate::leadership::Candidate;
use crate::metrics::COMMIT;
use crate::ports::{Controller, Scope};
use crate::telemetry::{self, LogFilter, LogFormat};
use crate::validate::Settings;

/// Runs etcd clusters, their backups and their restores on Kubernetes.
#[derive(Clone, Debug, PartialEq, Parser)]
#[command(name = "etcd-operator", disable_version_flag = true, max_term_width = 110, after_help = AFTER_HELP)]
pub struct Arguments {
    /// Where /readyz, /livez and /metrics are served.
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS:PORT", value_parser = listen_address)]
    pub listen_addr: SocketAddr,
    /// Create the definitions of our kinds at start, or replace them where they differ.
    #[arg(long, default_value = "true", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = go_bool())]
    pub create_crd: bool,
    /// Manage the objects of all namespaces that carry the annotation `etcd.database.coreos.com/scope: clusterwide`,
    /// instead of those of one namespace that do not.
    #[arg(long, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = go_bool())]
    pub cluster_wide: bool,
    /// Accepted for old Deployments; nothing is collected by hand any more.
    #[arg(long, default_value = "10m", value_name = "DURATION", value_parser = go_duration)]
    pub gc_interval: SignedDuration,
    /// Accepted for old Deployments when 0 or less. Chaos is made by the scenarios, not by the operator.
    #[arg(long, default_value = "-1", value_name = "LEVEL", allow_hyphen_values = true, value_parser = chaos_level)]
    pub chaos_level: i64,
    /// Print the version and end.
    #[arg(long, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = go_bool())]
    pub version: bool,
    /// Which controllers run: a list of cluster, backup, restore. Without it, the name under which this was started
    /// decides: etcd-backup-operator, etcd-restore-operator; any other name runs all three.
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = controller())]
    pub controllers: Vec<Controller>,
    /// Image of this operator, for the agent in each member's pod. Without it: the image of our own pod.
    #[arg(long, env = "AGENT_IMAGE", value_name = "IMAGE")]
    pub agent_image: Option<String>,
    /// Namespace that is managed, and in which the leases are.
    #[arg(long, env = "MY_POD_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
    /// Name of our own pod.
    #[arg(long, env = "MY_POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,
    /// How to reach Kubernetes. Without it: the pod's service account, or what kubectl would take.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// auto: text on a terminal, json otherwise.
    #[arg(long, default_value = "auto", value_name = "FORMAT", value_parser = log_format())]
    pub log_format: LogFormat,
    /// error, warn, info, debug, trace, or a list of module=level.
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_name = "LEVEL", value_parser = telemetry::log_filter)]
    pub log_level: LogFilter,
    /// How long a member may be unreachable before it is replaced, while the others hold quorum.
    #[arg(long, default_value = "300", value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(10..=86_400))]
    pub replace_after_seconds: i64,
    /// Label the durations of passes with the EtcdCluster's name: one time series for each, for ever.
    #[arg(long, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = go_bool())]
    pub metrics_cluster_name: bool,
}

const AFTER_HELP: &str = "Also:\n  etcd-operator crds        prints the definitions of our kinds, for kubectl apply\n  \
                          etcd-operator agent ...   what runs inside the members' pods";

/// What the process is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Be the operator.
    Run(Box<Arguments>),
    /// Print the version.
    Version,
    /// Print the definitions of our kinds.
    Crds,
    /// Agent mode, which has a command line of its own.
    Agent(agent::Command),
}

/// Reads the whole command line, program name first.
///
/// # Errors
/// When it is not one of ours; clap's error prints itself, says what is allowed and ends the process with code 2.
pub fn parse(argv: &[String]) -> Result<Action, clap::Error> {
    match argv.get(1).map(String::as_str) {
        Some("agent") => {
            let wrong = |message| clap::Error::raw(ErrorKind::InvalidValue, format!("{message}\n"));
            return agent::Command::parse(&argv[2..]).map(Action::Agent).map_err(wrong);
        }
        Some("crds") if argv.len() == 2 => return Ok(Action::Crds),
        _ => {}
    }
    let mut arguments = Arguments::try_parse_from(with_double_dashes(argv)).map_err(naming_all_flags)?;
    if arguments.version {
        return Ok(Action::Version);
    }
    // A template leaves a variable empty where it means none.
    for text in [&mut arguments.agent_image, &mut arguments.namespace, &mut arguments.pod_name] {
        text.take_if(|text| text.is_empty());
    }
    if arguments.controllers.is_empty() {
        arguments.controllers = controllers_of(argv.first().map_or("", String::as_str));
    }
    Ok(Action::Run(Box::new(arguments)))
}

impl Arguments {
    /// What the controllers need to know of them. `draw`: something that no other process of our name has.
    pub fn options(&self, namespace: String, agent_image: String, draw: u64) -> Options {
        let name = self.pod_name.as_deref().unwrap_or("etcd-operator");
        let candidate = Candidate { namespace: namespace.clone(), identity: format!("{name}_{draw:016x}") };
        let replace_after = SignedDuration::from_secs(self.replace_after_seconds);
        Options {
            scope: if self.cluster_wide { Scope::Cluster } else { Scope::Namespace(namespace) },
            clusterwide: self.cluster_wide,
            controllers: self.controllers.iter().copied().collect(),
            settings: Settings { agent_image, replace_after },
            candidate,
            part_bytes: PART_BYTES,
        }
    }
}

/// What `--version` prints.
pub fn version() -> String {
    format!("etcd-operator {} (commit {COMMIT})", env!("CARGO_PKG_VERSION"))
}

/// Go takes `-name` for `--name`.
fn with_double_dashes(argv: &[String]) -> Vec<String> {
    let mut rest = false;
    let normal = |argument: &String| {
        rest |= argument == "--";
        let name = argument.strip_prefix('-').unwrap_or_default();
        let is_flag = name.len() > 1 && name.starts_with(|first: char| first.is_ascii_alphabetic());
        if is_flag && !rest { format!("-{argument}") } else { argument.clone() }
    };
    argv.iter().map(normal).collect()
}

/// The archived operator was three binaries.
fn controllers_of(program: &str) -> Vec<Controller> {
    match program.rsplit('/').next().unwrap_or_default() {
        "etcd-backup-operator" => vec![Controller::Backup],
        "etcd-restore-operator" => vec![Controller::Restore],
        _ => Controller::ALL.to_vec(),
    }
}

fn naming_all_flags(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        let command = Arguments::command();
        let flags: Vec<_> = command.get_arguments().filter_map(|flag| flag.get_long()).collect();
        let allowed = format!("the flags are --{}", flags.join(", --"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![allowed.into()]));
    }
    error
}

fn go_bool() -> impl TypedValueParser<Value = bool> {
    let words = ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];
    PossibleValuesParser::new(words).map(|word| matches!(word.as_str(), "1" | "t" | "T" | "TRUE" | "true" | "True"))
}

fn controller() -> impl TypedValueParser<Value = Controller> {
    PossibleValuesParser::new(["cluster", "backup", "restore"]).map(|name| match name.as_str() {
        "backup" => Controller::Backup,
        "restore" => Controller::Restore,
        _ => Controller::Cluster,
    })
}

fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(["auto", "text", "json"]).map(|name| match name.as_str() {
        "json" => LogFormat::Json,
        "text" => LogFormat::Text,
        _ => LogFormat::Auto,
    })
}

/// Go's `:8080` is every address.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    whole.parse().map_err(|_| "must be an address and a port, such as 0.0.0.0:8080".to_owned())
}

fn go_duration(text: &str) -> Result<SignedDuration, String> {
    if text == "0" {
        return Ok(SignedDuration::ZERO);
    }
    text.parse().map_err(|_| "must be a duration, such as 10m or 1h30m".to_owned())
}

fn chaos_level(text: &str) -> Result<i64, String> {
    let level: i64 = text.parse().map_err(|_| "must be a whole number".to_owned())?;
    if level > 0 {
        return Err(
            "the operator does not kill its own pods: run the scenarios against a cluster instead (`make demo`, \
                    `scenarios --help`); only 0 and less are accepted"
                .to_owned(),
        );
    }
    Ok(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Arguments {
        match parse(&words(line)) {
            Ok(Action::Run(arguments)) => *arguments,
            Ok(other) => panic!("{line}: {other:?}"),
            Err(error) => panic!("{line}: {error}"),
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_archived_operators_command_lines_are_understood() {
        let defaults = run("etcd-operator");
        assert!(defaults.create_crd && !defaults.cluster_wide);
        assert_eq!(defaults.listen_addr, "0.0.0.0:8080".parse().expect("an address"));
        for line in
            ["etcd-operator -cluster-wide", "etcd-operator --cluster-wide=true", "etcd-operator -cluster-wide=1"]
        {
            assert!(run(line).cluster_wide, "{line}");
        }
        let old =
            run("/usr/local/bin/etcd-operator -create-crd=false -listen-addr=:9090 -gc-interval=10m0s -chaos-level -1");
        assert!(!old.create_crd);
        assert_eq!(old.listen_addr, "0.0.0.0:9090".parse().expect("an address"));
        assert_eq!(old.gc_interval, SignedDuration::from_mins(10));
        assert_eq!(run("etcd-operator -listen-addr 127.0.0.1:1").listen_addr.port(), 1);
        assert_eq!(parse(&words("etcd-operator -version")).ok(), Some(Action::Version));
    }

    #[test]
    fn the_programs_name_or_the_flag_selects_the_controllers() {
        for (line, controllers) in [
            ("etcd-operator", &Controller::ALL[..]),
            ("/usr/local/bin/etcd-backup-operator", &[Controller::Backup]),
            ("etcd-restore-operator --create-crd=false", &[Controller::Restore]),
            ("etcd-operator --controllers=cluster,restore", &[Controller::Cluster, Controller::Restore]),
            ("etcd-backup-operator -controllers cluster", &[Controller::Cluster]),
        ] {
            assert_eq!(run(line).controllers, controllers, "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_says_what_is_allowed() {
        for (line, expected) in [
            ("etcd-operator --no-such-flag", "--listen-addr, --create-crd"),
            ("etcd-operator --cluster-wide=maybe", "true"),
            ("etcd-operator --chaos-level=3", "scenarios"),
            ("etcd-operator --controllers=cluster,pod", "backup"),
            ("etcd-operator --listen-addr=here", "0.0.0.0:8080"),
            ("etcd-operator --gc-interval=soon", "10m"),
            ("etcd-operator --replace-after-seconds=1", "10..=86400"),
            ("etcd-operator --log-format=xml", "json"),
            ("etcd-operator --log-level=loud=very", "module=level"),
            ("etcd-operator stray", "stray"),
        ] {
            let error = parse(&words(line)).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
            assert!(error.to_string().contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn agent_and_crds_are_their_own_commands() {
        assert_eq!(parse(&words("etcd-operator crds")).ok(), Some(Action::Crds));
        let agent = agent::Command::Install { to: "/opt/etcd-operator".to_owned() };
        let line: Vec<_> = agent.to_command_line("/etcd-operator");
        assert_eq!(parse(&line).ok(), Some(Action::Agent(agent)));
        assert_eq!(parse(&words("etcd-operator agent fly")).expect_err("not a command").exit_code(), 2);
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
