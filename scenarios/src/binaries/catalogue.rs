//! Which programs can be had, from which packages. Adding a version is a folder under `scenarios/modules` and a line
//! here.

use super::Error;

/// One pinned module that programs are built from.
#[derive(Debug)]
pub struct Package {
    /// What it is called: `etcd`.
    pub name: &'static str,
    /// Exactly which one: `3.6.10`.
    pub version: &'static str,
    /// What builds it.
    pub toolchain: Toolchain,
    /// For Go's linker, beside what all get.
    pub linker_flags: &'static str,
    /// What is built from it.
    pub programs: &'static [Program],
    /// The module's files: path below the build directory, content. The sum of all of them is the cache's key.
    pub files: &'static [(&'static str, &'static str)],
}

/// What a package is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toolchain {
    /// `go build` of a `go.mod` and `go.sum`.
    Go,
    /// `npm ci` of a `package.json` and `package-lock.json`.
    Npm,
}

/// One program of a package.
#[derive(Debug)]
pub struct Program {
    /// The file name.
    pub name: &'static str,
    /// The Go package, or the script in `node_modules`, that it is the main of.
    pub source: &'static str,
    /// How to ask it who it is.
    pub version_arguments: &'static [&'static str],
    /// What the answer must contain.
    pub version_answer: &'static str,
}

macro_rules! files {
    ($($path:expr),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../modules/", $path)))),*]
    };
}

macro_rules! module {
    ($folder:literal $(, $stand_in:literal)*) => {
        files![concat!($folder, "/go.mod"), concat!($folder, "/go.sum"), $(concat!("stand-ins/", $stand_in)),*]
    };
}

const fn program(
    name: &'static str,
    source: &'static str,
    version_arguments: &'static [&'static str],
    version_answer: &'static str,
) -> Program {
    Program { name, source, version_arguments, version_answer }
}

/// All of it. The versions of etcd are those of the ladder that a data directory can climb, one per minor, and 3.2.25
/// besides: the version of the archived operator's own example.
pub const CATALOGUE: &[Package] = &[
    Package {
        name: "etcd",
        version: "3.2.25",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[
            program("etcd", "github.com/coreos/etcd", &["--version"], "3.2.25"),
            program("etcdctl", "github.com/coreos/etcd/etcdctl", &["--version"], "3.2.25"),
        ],
        files: module!("etcd-3.2.25", "ugorji/go.mod", "ugorji/codec/codec.go"),
    },
    Package {
        name: "etcd",
        version: "3.2.32",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[
            program("etcd", "github.com/coreos/etcd", &["--version"], "3.2.32"),
            program("etcdctl", "github.com/coreos/etcd/etcdctl", &["--version"], "3.2.32"),
        ],
        files: module!("etcd-3.2.32", "ugorji/go.mod", "ugorji/codec/codec.go"),
    },
    Package {
        name: "etcd",
        version: "3.3.27",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[
            program("etcd", "github.com/coreos/etcd", &["--version"], "3.3.27"),
            program("etcdctl", "github.com/coreos/etcd/etcdctl", &["--version"], "3.3.27"),
        ],
        files: module!("etcd-3.3.27"),
    },
    Package {
        name: "etcd",
        version: "3.4.13",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[
            program("etcd", "go.etcd.io/etcd", &["--version"], "3.4.13"),
            program("etcdctl", "go.etcd.io/etcd/etcdctl", &["version"], "3.4.13"),
        ],
        files: module!("etcd-3.4.13"),
    },
    Package {
        name: "etcd",
        version: "3.5.35",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[
            program("etcd", "go.etcd.io/etcd/server/v3", &["--version"], "3.5.35"),
            program("etcdctl", "go.etcd.io/etcd/etcdctl/v3", &["version"], "3.5.35"),
            program("etcdutl", "go.etcd.io/etcd/etcdutl/v3", &["version"], "3.5.35"),
        ],
        files: module!("etcd-3.5.35"),
    },
    Package {
        name: "etcd",
        version: "3.6.10",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[
            program("etcd", "go.etcd.io/etcd/server/v3", &["--version"], "3.6.10"),
            program("etcdctl", "go.etcd.io/etcd/etcdctl/v3", &["version"], "3.6.10"),
            program("etcdutl", "go.etcd.io/etcd/etcdutl/v3", &["version"], "3.6.10"),
        ],
        files: module!("etcd-3.6.10"),
    },
    Package {
        name: "etcd",
        version: "3.7.3",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[
            program("etcd", "go.etcd.io/etcd/server/v3", &["--version"], "3.7.3"),
            program("etcdctl", "go.etcd.io/etcd/etcdctl/v3", &["version"], "3.7.3"),
            program("etcdutl", "go.etcd.io/etcd/etcdutl/v3", &["version"], "3.7.3"),
        ],
        files: module!("etcd-3.7.3"),
    },
    Package {
        // Built from a commit, so it does not know its release: the date of the commit is its version here.
        name: "minio",
        version: "2026.2.12",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[program("minio", "github.com/minio/minio", &["--version"], "minio version")],
        files: module!("minio-2026.2.12"),
    },
    Package {
        // Its library in a program of ours. It has no way to tell its version.
        name: "fake-gcs-server",
        version: "1.56.1",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[program("fake-gcs-server", ".", &["-help"], "public-host")],
        files: files![
            "fake-gcs-server-1.56.1/go.mod",
            "fake-gcs-server-1.56.1/go.sum",
            "fake-gcs-server-1.56.1/main.go",
        ],
    },
    Package {
        // The newest that takes the Node.js of the distributions.
        name: "azurite",
        version: "3.35.0",
        toolchain: Toolchain::Npm,
        linker_flags: "",
        programs: &[program("azurite", "node_modules/azurite/dist/src/blob/main.js", &["--version"], "3.35.0")],
        files: files!["azurite-3.35.0/package.json", "azurite-3.35.0/package-lock.json"],
    },
    Package {
        name: "helm",
        version: "4.3.1",
        toolchain: Toolchain::Go,
        linker_flags: "",
        programs: &[program("helm", "helm.sh/helm/v4/cmd/helm", &["version", "--short"], "v4.")],
        files: module!("helm-4.3.1"),
    },
    Package {
        name: "kubectl",
        version: "1.34.4",
        toolchain: Toolchain::Go,
        // It learns its release from its project's build; without, `kubectl version` fails on comparing it with a server's.
        linker_flags: "-X k8s.io/component-base/version.gitVersion=v1.34.4 \
                       -X k8s.io/client-go/pkg/version.gitVersion=v1.34.4",
        programs: &[program(
            "kubectl",
            "k8s.io/kubernetes/cmd/kubectl",
            &["version", "--client"],
            "Client Version: v1.34.4",
        )],
        files: module!("kubectl-1.34.4"),
    },
    Package {
        // The control plane that fake-k8s is measured against: only what that needs is built.
        name: "kubernetes",
        version: "1.34.4",
        toolchain: Toolchain::Go,
        linker_flags: "-X k8s.io/component-base/version.gitVersion=v1.34.4 \
                       -X k8s.io/component-base/version.gitMajor=1 \
                       -X k8s.io/component-base/version.gitMinor=34 \
                       -X k8s.io/client-go/pkg/version.gitVersion=v1.34.4",
        programs: &[
            program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", &["--version"], "v1.34.4"),
            program(
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
                &["--version"],
                "v1.34.4",
            ),
        ],
        files: module!("kubernetes-1.34.4"),
    },
];

/// The package of that name, of which there is one version.
pub fn only(name: &str) -> Result<&'static Package, Error> {
    find(name, CATALOGUE.iter().find(|package| package.name == name).map_or("", |package| package.version))
}

/// The package of that name and version.
pub fn find(name: &str, version: &str) -> Result<&'static Package, Error> {
    CATALOGUE.iter().find(|package| package.name == name && package.version == version).ok_or_else(|| Error::Unknown {
        name: name.to_owned(),
        version: version.to_owned(),
        known: CATALOGUE.iter().map(Package::id).collect::<Vec<_>>().join(", "),
    })
}

/// The version in what `etcd --version` prints: `etcd Version: 3.4.23` on its first line.
pub fn etcd_version(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(|version| version.trim().to_owned())
}

impl Package {
    /// `etcd-3.6.10`: the name of its folder under `scenarios/modules`.
    pub fn id(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Whether the tests run it. The real control plane is for comparing with: what it said is recorded.
    pub fn is_for_tests(&self) -> bool {
        self.name != "kubernetes"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_module_folder_is_in_the_catalogue_once_and_nothing_else_is() {
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("modules");
        let folders: BTreeSet<String> = std::fs::read_dir(modules)
            .expect("the module files are part of the tree")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("plain names"))
            .filter(|name| name != "stand-ins")
            .collect();
        let ids: Vec<String> = CATALOGUE.iter().map(Package::id).collect();
        assert_eq!(ids.len(), CATALOGUE.len());
        assert_eq!(folders, ids.into_iter().collect());
    }

    #[test]
    fn a_modules_files_pin_the_version_that_the_catalogue_names() {
        // MinIO, and etcd 3.4 under its first name, can only be had by commit.
        let by_commit = |package: &Package| package.name == "minio" || package.version == "3.4.13";
        for package in CATALOGUE {
            let (file, pin) = match package.toolchain {
                Toolchain::Go => ("/go.mod", format!(" v{}", package.version)),
                Toolchain::Npm => ("/package.json", format!("\"{}\": \"{}\"", package.name, package.version)),
            };
            let (_, manifest) = package.files.iter().find(|(path, _)| path.ends_with(file)).expect("a manifest");
            assert!(manifest.contains(&pin) || by_commit(package), "{}", package.id());
            for program in package.programs.iter().filter(|_| package.toolchain == Toolchain::Go) {
                let is_ours = program.source == ".";
                assert!(
                    is_ours || manifest.contains(program.source),
                    "{} has no `tool {}`",
                    package.id(),
                    program.source
                );
            }
        }
    }

    #[test]
    fn what_npm_installs_is_pinned_by_hash_and_names_no_host() {
        for package in CATALOGUE.iter().filter(|package| package.toolchain == Toolchain::Npm) {
            let (_, lock) = package.files.iter().find(|(path, _)| path.ends_with("-lock.json")).expect("a lock");
            let lock: serde_json::Value = serde_json::from_str(lock).expect("JSON");
            let packages = lock["packages"].as_object().expect("packages");
            for (name, locked) in packages.iter().filter(|(name, _)| !name.is_empty()) {
                assert!(locked["integrity"].is_string(), "{name} has no hash");
                assert!(locked["resolved"].is_null(), "{name} names a registry");
            }
        }
    }

    #[test]
    fn an_unknown_version_is_answered_with_what_there_is() {
        let error = find("etcd", "3.1.0").expect_err("nobody wrote module files for it").to_string();
        assert!(error.contains("no `etcd-3.1.0`") && error.contains("etcd-3.2.25, etcd-3.2.32"), "{error}");
    }

    #[test]
    fn the_version_is_read_from_what_etcd_prints() {
        let said = "etcd Version: 3.4.23\nGit SHA: Not provided\nGo Version: go1.19.5\n";
        assert_eq!(etcd_version(said).as_deref(), Some("3.4.23"));
        assert_eq!(etcd_version("command not found"), None);
    }
}
