//! The real programs of a case, and the images that pods see of them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use fake_k8s::process::images::{ImageFile, ImageRoot, ImageTable};
use sim::scenario::Step;

use crate::binaries::s3::{self, S3Server};
use crate::binaries::{self, CATALOGUE, Error, Installed, catalogue};
use crate::cases::Case;

/// The image of our own operator in this lane.
pub const AGENT_IMAGE: &str = "etcd-operator:testbed";
/// What `repository` of an EtcdCluster is by default.
const ETCD_REPOSITORY: &str = "quay.io/coreos/etcd";
/// What a case that needs the store says.
const GCS: &str = "torageType: GCS";
const ABS: &str = "torageType: ABS";
/// Our agent runs in etcd's image too. The one that is shipped is static; the one that is tested here is as cargo built
/// it, and needs the libraries of this machine.
const LIBRARIES: &[&str] = &["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"];

/// What a case runs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The built operator.
    pub operator: PathBuf,
    /// The S3 server.
    pub s3: S3Server,
    /// kubectl, where there is one or Go can build it.
    pub kubectl: Option<PathBuf>,
    /// The server of GCS, if the case names it.
    pub gcs: Option<PathBuf>,
    /// The server of ABS, if the case names it.
    pub abs: Option<PathBuf>,
    /// Every etcd that the case names.
    pub etcds: Vec<Installed>,
}

/// Finds the programs that these cases need, and builds those that are not there yet.
///
/// # Errors
/// When one cannot be had; the text says what to do.
pub fn locate(cases: &[Case], report: binaries::Report<'_>) -> anyhow::Result<Programs> {
    locate_where(|version| cases.iter().any(|case| case.text.contains(version)), report)
}

/// As [`locate`], with every version of etcd that there is, and S3 only.
///
/// # Errors
/// When one cannot be had; the text says what to do.
pub fn locate_all(report: binaries::Report<'_>) -> anyhow::Result<Programs> {
    locate_where(|what| what != GCS && what != ABS, report)
}

fn locate_where(is_wanted: impl Fn(&str) -> bool, report: binaries::Report<'_>) -> anyhow::Result<Programs> {
    let own = std::env::current_exe().context("cannot find own program")?;
    let operator = own.with_file_name("etcd-operator");
    anyhow::ensure!(
        operator.exists(),
        "{} is not built: run `cargo build --bins -p etcd-operator -p scenarios`",
        operator.display()
    );
    // Where it is, not where a link to it is: the link would lead nowhere in a container.
    let operator = operator.canonicalize().with_context(|| format!("cannot find {}", operator.display()))?;
    let mut etcds = Vec::new();
    for package in CATALOGUE.iter().filter(|package| package.name == "etcd" && is_wanted(package.version)) {
        etcds.push(binaries::locate("etcd", package.version, report)?);
    }
    let system = binaries::etcd_of_the_system().filter(|system| is_wanted(&system.version));
    etcds.extend(system.filter(|system| etcds.iter().all(|etcd| etcd.version != system.version)));
    let s3 = s3::server(report)?;
    let kubectl = binaries::kubectl(report)?;
    let gcs = is_wanted(GCS).then(|| only_program("fake-gcs-server", report)).transpose()?;
    let abs = is_wanted(ABS).then(|| only_program("azurite", report)).transpose()?;
    Ok(Programs { operator, s3, kubectl, gcs, abs, etcds })
}

/// The case with the system's etcd in the place of the versions that it names, when these cannot be built for want of Go.
pub fn with_etcd_of_the_system(error: &anyhow::Error, case: &Case) -> Option<Case> {
    error.downcast_ref().filter(|error: &&Error| error.is_want_of_go())?;
    with_etcd(&binaries::etcd_of_the_system()?.version, case)
}

fn with_etcd(version: &str, case: &Case) -> Option<Case> {
    let mut text = case.text.clone();
    for package in CATALOGUE.iter().filter(|package| package.name == "etcd") {
        text = text.replace(package.version, version);
    }
    let scenario = serde_saphyr::from_str(&text).ok()?;
    Some(Case { scenario, text, path: case.path.clone() })
}

/// The one program of the one version of a package.
fn only_program(name: &str, report: binaries::Report<'_>) -> anyhow::Result<PathBuf> {
    let installed = binaries::locate(name, catalogue::only(name)?.version, report)?;
    Ok(installed.program(name).with_context(|| format!("the package {name} has no program of this name"))?.to_owned())
}

/// Why a case cannot be run on this machine although nothing is wrong: npm is not everywhere, and without it there is no
/// Azurite; kubectl is not either.
pub fn unavailable(case: &Case, report: binaries::Report<'_>) -> Option<String> {
    if case.scenario.steps.iter().any(|step| matches!(step, Step::Kubectl { .. } | Step::KubectlApply(_))) {
        match binaries::kubectl(report) {
            Ok(Some(_)) => {}
            Ok(None) => return Some("there is no kubectl".to_owned()),
            Err(error) => return Some(format!("{error:#}")),
        }
    }
    let wanted = case.text.contains(ABS).then(|| only_program("azurite", report));
    wanted?.err().map(|error| format!("{error:#}"))
}

/// The images of a case's pods. An etcd version that is not among them is an image that cannot be pulled.
pub fn images(programs: &Programs) -> ImageTable {
    let mut table = ImageTable::default().with_program(AGENT_IMAGE, &programs.operator, "/usr/local/bin/etcd-operator");
    for etcd in &programs.etcds {
        let file = |source: &Path, target: PathBuf| ImageFile { source: source.to_owned(), target };
        let programs = etcd.programs.iter().map(|(name, path)| file(path, Path::new("/usr/local/bin").join(name)));
        let libraries = LIBRARIES.iter().map(Path::new).filter(|path| path.exists());
        let files = programs.chain(libraries.map(|path| file(path, path.to_owned()))).collect();
        let entrypoint = vec!["/usr/local/bin/etcd".to_owned()];
        let image = format!("{ETCD_REPOSITORY}:v{}", etcd.version);
        table = table.with(&image, ImageRoot { files, entrypoint, ..ImageRoot::default() });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use anyhow::anyhow;

    fn demo() -> Case {
        cases::chosen(&["demo/from-nothing-to-restored".to_owned()]).expect("there is the demo").remove(0)
    }

    #[test]
    fn the_demo_is_the_same_with_another_etcd() {
        let (demo, other) = (demo(), with_etcd("3.4.23", &demo()).expect("it is still a scenario"));
        let versions = |case: &Case| {
            let all = case.text.match_indices("version: ").map(|(at, _)| case.text[at..].lines().next());
            all.flatten().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(!versions(&demo).is_empty() && versions(&demo).iter().all(|line| line.contains("3.6.10")), "{demo:?}");
        assert!(versions(&other).iter().all(|line| line.contains("3.4.23")), "{other:?}");
        assert!(CATALOGUE.iter().all(|package| package.name != "etcd" || !other.text.contains(package.version)));
        assert_eq!(other.text.replace("3.4.23", "3.6.10"), demo.text, "nothing else is changed");
        assert_eq!((other.scenario.steps.len(), other.faults()), (demo.scenario.steps.len(), Vec::new()));
    }

    #[test]
    fn only_want_of_go_brings_another_etcd() {
        let package = || "etcd-3.6.10".to_owned();
        let old = Error::GoTooOld { package: package(), path: "go".into(), found: "go1.19.8".to_owned() };
        let system = binaries::etcd_of_the_system();
        for error in [Error::GoMissing { package: package() }, old] {
            let other = with_etcd_of_the_system(&anyhow::Error::new(error).context("cannot find programs"), &demo());
            assert_eq!(other.is_some(), system.is_some());
        }
        for error in [anyhow::Error::new(Error::NoCacheDirectory), anyhow!("the operator is not built")] {
            assert!(with_etcd_of_the_system(&error, &demo()).is_none(), "{error} would be hidden");
        }
    }
}
