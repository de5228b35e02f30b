//! The agent's command line as a type, with both directions: `build` writes it into pods, the agent and the simulator
//! read it.

use std::collections::BTreeMap;

use crate::model::{BucketLocation, ObjectLocation, StorageKind};

/// What the agent is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Copies this executable into a directory that the other containers of the pod see.
    Install {
        /// The directory.
        to: String,
    },
    /// Brings a verified snapshot from the store onto the volume.
    Fetch(Fetch),
    /// Makes the data directory from the snapshot.
    Restore(Restore),
    /// Starts etcd, unless its data is gone.
    Run(Run),
}

/// Arguments of `fetch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Where the snapshot is. The name of the Secret is not carried: its data is mounted.
    pub source: ObjectLocation,
    /// Directory with one file per key of the Secret; none: the platform's ambient credentials.
    pub credentials: Option<String>,
    /// Size of the object in bytes, as it was verified.
    pub size: u64,
    /// Lower-case hexadecimal sha256 of the object, as it was verified.
    pub sha256: String,
    /// Where it is put.
    pub to: String,
    /// Nothing is fetched when this data directory is complete already.
    pub data_dir: String,
}

/// Arguments of `restore`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The data directory to make.
    pub data_dir: String,
    /// The snapshot, which is removed when the directory is complete.
    pub snapshot: String,
    /// The marker of [`Run::seen`]: where it is set, the directory had been complete, and is not made a second time.
    pub seen: String,
    /// The restore tool with its arguments, except `--data-dir`, which the agent appends.
    pub tool: Vec<String>,
}

/// Arguments of `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// etcd's data directory.
    pub data_dir: String,
    /// A marker that lives as long as the pod: etcd was started in it.
    pub seen: String,
    /// The member has data already: an empty directory means that it is lost.
    pub expect_data: bool,
    /// What the pod's own name has to resolve to before etcd is started; none: etcd asks itself.
    pub own_name: Option<OwnName>,
    /// etcd with its arguments.
    pub etcd: Vec<String>,
}

/// The pod's own name, which etcd resolves when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnName {
    /// The name.
    pub host: String,
    /// Seconds that it may take to resolve; the container ends when they are over.
    pub within_seconds: u64,
}

impl Command {
    /// The arguments after the executable: `agent`, the subcommand, its flags.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = Args(vec!["agent".to_owned()]);
        match self {
            Self::Install { to } => args.word("install").flag("to", to),
            Self::Fetch(fetch) => {
                let bucket = &fetch.source.bucket;
                args.word("fetch").flag("storage-type", bucket.storage.as_str()).flag("bucket", &bucket.bucket);
                args.flag("key", &fetch.source.key);
                if let Some(endpoint) = &bucket.endpoint {
                    args.flag("endpoint", endpoint);
                }
                if bucket.force_path_style {
                    args.word("--force-path-style");
                }
                if let Some(credentials) = &fetch.credentials {
                    args.flag("credentials", credentials);
                }
                args.flag("size", &fetch.size.to_string()).flag("sha256", &fetch.sha256);
                args.flag("to", &fetch.to).flag("data-dir", &fetch.data_dir)
            }
            Self::Restore(restore) => {
                args.word("restore").flag("data-dir", &restore.data_dir).flag("snapshot", &restore.snapshot);
                args.flag("seen", &restore.seen).rest(&restore.tool)
            }
            Self::Run(run) => {
                args.word("run").flag("data-dir", &run.data_dir).flag("seen", &run.seen);
                if run.expect_data {
                    args.word("--expect-data");
                }
                if let Some(own) = &run.own_name {
                    args.flag("own-name", &own.host).flag("resolves-within", &own.within_seconds.to_string());
                }
                args.rest(&run.etcd)
            }
        };
        args.0
    }

    /// The whole command line of a container.
    pub fn to_command_line(&self, executable: &str) -> Vec<String> {
        std::iter::once(executable.to_owned()).chain(self.to_args()).collect()
    }

    /// The inverse of [`Command::to_args`].
    ///
    /// # Errors
    /// Says which argument is missing, unknown or unusable.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let args = args.strip_prefix(&["agent".to_owned()][..]).unwrap_or(args);
        let (name, rest) = args.split_first().ok_or("a subcommand must follow: install, fetch, restore or run")?;
        match name.as_str() {
            "install" => {
                let mut flags = Flags::parse(rest, &["to"], &[])?;
                Ok(Self::Install { to: flags.value("to")? })
            }
            "fetch" => Ok(Self::Fetch(parse_fetch(rest)?)),
            "restore" => {
                let mut flags = Flags::parse(rest, &["data-dir", "snapshot", "seen"], &[])?;
                Ok(Self::Restore(Restore {
                    data_dir: flags.value("data-dir")?,
                    snapshot: flags.value("snapshot")?,
                    seen: flags.value("seen")?,
                    tool: flags.program()?,
                }))
            }
            "run" => {
                let mut flags =
                    Flags::parse(rest, &["data-dir", "seen", "own-name", "resolves-within"], &["expect-data"])?;
                Ok(Self::Run(Run {
                    data_dir: flags.value("data-dir")?,
                    seen: flags.value("seen")?,
                    expect_data: flags.is_set("expect-data"),
                    own_name: parse_own_name(&mut flags)?,
                    etcd: flags.program()?,
                }))
            }
            other => Err(format!("unknown subcommand `{other}`: must be install, fetch, restore or run")),
        }
    }
}

fn parse_own_name(flags: &mut Flags) -> Result<Option<OwnName>, String> {
    let Some(host) = flags.optional("own-name") else { return Ok(None) };
    let seconds = flags.value("resolves-within")?;
    let within_seconds = seconds.parse();
    let within_seconds =
        within_seconds.map_err(|_| format!("--resolves-within must be a number of seconds, and is `{seconds}`"))?;
    Ok(Some(OwnName { host, within_seconds }))
}

fn parse_fetch(args: &[String]) -> Result<Fetch, String> {
    let valued =
        ["storage-type", "bucket", "key", "endpoint", "credentials", "size", "sha256", "to", "data-dir"].as_slice();
    let mut flags = Flags::parse(args, valued, &["force-path-style"])?;
    let storage = flags.value("storage-type")?;
    let storage = [StorageKind::S3, StorageKind::Abs, StorageKind::Gcs, StorageKind::Oss]
        .into_iter()
        .find(|kind| kind.as_str() == storage)
        .ok_or_else(|| format!("--storage-type must be S3, ABS, GCS or OSS, and is `{storage}`"))?;
    let bucket = BucketLocation {
        storage,
        bucket: flags.value("bucket")?,
        endpoint: flags.optional("endpoint"),
        force_path_style: flags.is_set("force-path-style"),
        secret: None,
    };
    let size = flags.value("size")?;
    Ok(Fetch {
        source: ObjectLocation { bucket, key: flags.value("key")? },
        credentials: flags.optional("credentials"),
        size: size.parse().map_err(|_| format!("--size must be a number of bytes, and is `{size}`"))?,
        sha256: flags.value("sha256")?,
        to: flags.value("to")?,
        data_dir: flags.value("data-dir")?,
    })
}

/// Writes a command line. Each value is an argument of its own, so that nothing needs quoting.
struct Args(Vec<String>);

impl Args {
    fn word(&mut self, word: &str) -> &mut Self {
        self.0.push(word.to_owned());
        self
    }

    fn flag(&mut self, name: &str, value: &str) -> &mut Self {
        self.word(&format!("--{name}")).word(value)
    }

    fn rest(&mut self, program: &[String]) -> &mut Self {
        self.word("--");
        self.0.extend_from_slice(program);
        self
    }
}

/// A command line that was read: what is not known is refused, so that a misspelt guard is never silently off.
struct Flags {
    values: BTreeMap<String, String>,
    program: Vec<String>,
}

impl Flags {
    fn parse(args: &[String], valued: &[&str], plain: &[&str]) -> Result<Self, String> {
        let mut flags = Self { values: BTreeMap::new(), program: Vec::new() };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--" {
                flags.program = rest.cloned().collect();
                break;
            }
            let name = arg.strip_prefix("--").ok_or_else(|| format!("unexpected argument `{arg}`"))?;
            let (name, inline) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, None),
            };
            let value = if valued.contains(&name) {
                inline.or_else(|| rest.next().cloned()).ok_or_else(|| format!("--{name} needs a value"))?
            } else if plain.contains(&name) && inline.is_none() {
                String::new()
            } else {
                return Err(format!("unknown argument `{arg}`"));
            };
            if flags.values.insert(name.to_owned(), value).is_some() {
                return Err(format!("--{name} is given twice"));
            }
        }
        Ok(flags)
    }

    fn optional(&mut self, name: &str) -> Option<String> {
        self.values.remove(name)
    }

    fn value(&mut self, name: &str) -> Result<String, String> {
        self.optional(name).ok_or_else(|| format!("--{name} must be given"))
    }

    fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    fn program(self) -> Result<Vec<String>, String> {
        if self.program.is_empty() { Err("a program must follow `--`".to_owned()) } else { Ok(self.program) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_command_line_reads_as_documented() {
        let line = "agent run --data-dir /var/etcd/data --seen /opt/seen --expect-data -- /usr/local/bin/etcd --name=a";
        let command = Command::parse(&words(line)).unwrap();
        let Command::Run(run) = &command else { panic!("{command:?}") };
        assert!(run.expect_data);
        assert_eq!(run.etcd, ["/usr/local/bin/etcd", "--name=a"]);
        assert_eq!(command.to_args().join(" "), line);
        assert_eq!(Command::parse(&words("install --to=/opt")), Ok(Command::Install { to: "/opt".to_owned() }));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "agent",
            "agent walk",
            "agent install",
            "agent install --to",
            "agent install --to a --to b",
            "agent install --to a --from b",
            "agent install a",
            "agent run --data-dir d --seen s --expectdata -- etcd",
            "agent run --data-dir d --seen s --expect-data=false -- etcd",
            "agent run --data-dir d --seen s",
            "agent run --data-dir d --seen s --own-name a -- etcd",
            "agent run --data-dir d --seen s --own-name a --resolves-within soon -- etcd",
            "agent run --data-dir d --seen s --",
            "agent fetch --storage-type FTP --bucket b --key k --size 1 --sha256 0 --to t --data-dir d",
            "agent fetch --storage-type S3 --bucket b --key k --size -1 --sha256 0 --to t --data-dir d",
        ] {
            assert!(Command::parse(&words(line)).is_err(), "{line}");
        }
    }

    fn any_fetch() -> impl Strategy<Value = Command> {
        let storage = prop::sample::select(vec![StorageKind::S3, StorageKind::Abs, StorageKind::Gcs, StorageKind::Oss]);
        let text = || ".{1,8}";
        let options = (prop::option::of(".{1,8}"), any::<bool>(), prop::option::of(".{1,8}"));
        ((storage, text(), text()), options, any::<u64>(), (text(), text(), text())).prop_map(
            |((storage, bucket, key), (endpoint, force_path_style, credentials), size, (sha256, to, data_dir))| {
                let bucket = BucketLocation { storage, bucket, endpoint, force_path_style, secret: None };
                let source = ObjectLocation { bucket, key };
                Command::Fetch(Fetch { source, credentials, size, sha256, to, data_dir })
            },
        )
    }

    fn any_command() -> impl Strategy<Value = Command> {
        let text = || ".{1,8}";
        let program = || prop::collection::vec(".{0,8}", 1..5);
        prop_oneof![
            text().prop_map(|to| Command::Install { to }),
            any_fetch(),
            (text(), text(), text(), program()).prop_map(|(data_dir, snapshot, seen, tool)| {
                Command::Restore(Restore { data_dir, snapshot, seen, tool })
            }),
            (text(), text(), any::<bool>(), prop::option::of((text(), any::<u64>())), program()).prop_map(
                |(data_dir, seen, expect_data, own_name, etcd)| {
                    let own_name = own_name.map(|(host, within_seconds)| OwnName { host, within_seconds });
                    Command::Run(Run { data_dir, seen, expect_data, own_name, etcd })
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn every_command_survives_the_command_line(command in any_command()) {
            prop_assert_eq!(Command::parse(&command.to_args()), Ok(command));
        }

        #[test]
        fn no_command_line_panics(args in prop::collection::vec("(--)?[a-z-]{0,8}=?[a-z]{0,3}", 0..8)) {
            let _ = Command::parse(&args);
        }
    }
}
