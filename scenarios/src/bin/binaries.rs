//! `binaries [--all | NAME...]`: builds the real programs of the live lane, or lists what there is. Paths go to
//! standard output, one a line, for scripts; the rest goes to standard error.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool")]

use anyhow::bail;
use clap::Parser;
use scenarios::binaries::{CATALOGUE, Cache, Package, Toolchain, etcd_of_the_system};

/// Builds the real etcd, object stores, helm and kubectl that the live lane runs, once per machine. Without arguments:
/// lists them.
#[derive(Parser)]
#[command(name = "binaries")]
struct Arguments {
    /// Everything that the tests run.
    #[arg(long)]
    all: bool,
    /// `etcd-3.6.10` for one version, `etcd` for each version of it.
    names: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let cache = Cache::of_user()?;
    if !arguments.all && arguments.names.is_empty() {
        return list(&cache);
    }
    for name in &arguments.names {
        if !CATALOGUE.iter().any(|package| is_called(package, name)) {
            bail!("no `{name}` in the catalogue: run this without arguments to see what there is");
        }
    }
    let is_named = |package: &Package| arguments.names.iter().any(|name| is_called(package, name));
    let wanted = |package: &&Package| (arguments.all && package.is_for_tests()) || is_named(package);
    for package in CATALOGUE.iter().filter(wanted) {
        let installed = match cache.locate(package, &|sentence| eprintln!("{sentence}")) {
            // Go there must be; npm may be absent, and what needs it says that it was not checked.
            Err(error) if arguments.all && package.toolchain == Toolchain::Npm => {
                println!("NOT CHECKED: {}: {error}", package.name);
                continue;
            }
            located => located?,
        };
        for path in installed.programs.values() {
            println!("{}", path.display());
        }
    }
    Ok(())
}

fn is_called(package: &Package, name: &str) -> bool {
    package.name == name || package.id() == name
}

fn list(cache: &Cache) -> anyhow::Result<()> {
    println!("in {}:", cache.root().display());
    for package in CATALOGUE {
        let state = if cache.cached(package)?.is_some() { "built" } else { "not built yet" };
        println!("  {:<24} {state}", package.id());
    }
    if let Some(installed) = etcd_of_the_system() {
        println!("and etcd {} of the system", installed.version);
    }
    Ok(())
}
