//! What a person would look at: `kubectl`, run for real inside the sandbox, and the listing of a bucket.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use sim::scenario::store_path;

use super::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs kubectl against the API of the sandbox; what it printed. `None` when there is none on this machine. With `during` it is ended
/// after so long, and what it printed until then is what counts.
///
/// # Errors
/// What it complained of.
pub async fn kubectl(
    world: &World,
    arguments: &[&str],
    input: &str,
    during: Option<Duration>,
) -> Option<anyhow::Result<String>> {
    let mut command = command(world.kubectl.as_ref()?, &world.cluster.run_dir.join("kubectl"));
    command.arg("--kubeconfig").arg(&world.cluster.kubeconfig).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let talk = async {
        let mut child = command.spawn().context("kubectl cannot be started")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await.context("kubectl does not listen")?;
        }
        let ended = after(during, child.id());
        let (output, ()) = tokio::join!(child.wait_with_output(), ended);
        let output = output.context("kubectl is lost")?;
        let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() || (during.is_some() && output.status.code().is_none()) {
            return Ok(said);
        }
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim())
    };
    Some(tokio::time::timeout(PATIENCE, talk).await.unwrap_or_else(|_| bail!("kubectl does not end")))
}

/// The program, which knows nothing of where this was started: a proxy of the user's would be asked for what is in the
/// sandbox.
fn command(program: &Path, home: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home);
    command
}

/// Ends a process after some time, if there is one.
async fn after(during: Option<Duration>, process: Option<u32>) {
    let process = process.and_then(|process| i32::try_from(process).ok()).map(Pid::from_raw);
    if let (Some(during), Some(process)) = (during, process) {
        tokio::time::sleep(during).await;
        // It may have ended by itself.
        let _ = kill(process, Signal::SIGKILL);
    }
}

/// The command as it was run, or what was looked at, and the answer: for `kubectl ...` and `objects <bucket>/<prefix>`.
pub async fn show(world: &World, command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    let answer = match words.as_slice() {
        ["kubectl", rest @ ..] => match kubectl(world, rest, "", None).await {
            Some(answer) => answer.unwrap_or_else(|error| format!("{error:#}")),
            None => "(there is no kubectl on this machine)".to_owned(),
        },
        ["objects", prefix] => match world.store.list(prefix).await {
            Ok(found) => {
                let (_, bucket, _) = store_path(prefix);
                let scheme = prefix.split_once("://").map_or("s3", |(scheme, _)| scheme);
                let line = |stored: &super::store::Stored| {
                    format!(
                        "{}  {:>9} bytes  {scheme}://{bucket}/{}",
                        stored.at.strftime("%H:%M:%S"),
                        stored.size,
                        stored.key
                    )
                };
                found.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("{error:#}"),
        },
        _ => "(nothing to show)".to_owned(),
    };
    // What was listed here, and not by a command that anybody could type, is told in words.
    let told = command.strip_prefix("objects ").map(|prefix| format!("objects in the bucket, under {prefix}:"));
    format!("{}\n{answer}", told.unwrap_or_else(|| format!("$ {command}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::scratch::Scratch;

    #[tokio::test]
    async fn kubectl_inherits_nothing_of_the_environment() {
        let scratch = Scratch::with_programs("kubectl", &[("kubectl", "'; env; echo '")]);
        let said = command(&scratch.0.join("kubectl"), Path::new("/home")).output().await.expect("it runs");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        // What a shell sets by itself is its own.
        let names = said.lines().filter_map(|line| line.split_once('=').map(|(name, _)| name));
        let given: Vec<_> = names.filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
        assert!(given.contains(&"HOME") && given.contains(&"PATH") && given.len() == 2, "{said}");
    }
}
