//! The process: reads the command line, builds the adapters, and runs the controllers until it is asked to stop.
//!
//! All passes run in one future, in this thread: a panic in one of them is our bug, ends the process with code 101, and
//! Kubernetes starts it again; the next pass observes anew.
#![expect(clippy::disallowed_methods, reason = "here is where the command line and the environment are read")]

use etcd_operator::adapters::clock::{SystemClock, SystemRandom};
use etcd_operator::adapters::dial::Dialer;
use etcd_operator::adapters::etcd::{EtcdAdapter, error::chain};
use etcd_operator::adapters::object_store::{ENVIRONMENT_PREFIXES, ObjectStores, PATIENCE_MAX};
use etcd_operator::adapters::{connect, crds, kube::KubeAdapter, tls};
use etcd_operator::api::schema::custom_resource_definitions;
use etcd_operator::cli::{self, Action, Arguments};
use etcd_operator::ports::{Ports, Random};
use etcd_operator::{agent, controller, metrics::Metrics, own_pod, server, telemetry};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> ExitCode {
    tls::install_crypto_provider();
    let argv: Vec<_> = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let say = |text: String| writeln!(io::stdout(), "{text}").map_err(Into::into);
    let ended = match cli::parse(&argv) {
        Err(error) => error.exit(),
        Ok(Action::Version) => say(cli::version()),
        Ok(Action::Crds) => say(crds::list(&custom_resource_definitions())),
        Ok(Action::Agent(command)) => return agent::main(&command, &stores()).await,
        Ok(Action::Run(arguments)) => operate(&arguments).await,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn operate(arguments: &Arguments) -> anyhow::Result<()> {
    telemetry::start(&arguments.log_level, arguments.log_format);
    tracing::info!("{}", cli::version());
    let listener = server::listen(arguments.listen_addr).await?;
    let (client, default_namespace) = connect::kubernetes(arguments.kubeconfig.as_deref()).await?;
    let clock = Arc::new(SystemClock::start());
    let metrics = Arc::new(Metrics::new(clock.clone(), arguments.metrics_cluster_name));
    tokio::spawn(server::serve(listener, metrics.clone()));
    if arguments.create_crd {
        crds::apply(&client, &custom_resource_definitions()).await?;
    }
    let ports = Ports {
        kubernetes: Arc::new(KubeAdapter::new(client)),
        etcd: Arc::new(EtcdAdapter::new(Dialer::tcp())),
        stores: Arc::new(stores().with_patience(PATIENCE_MAX)),
        clock,
        random: Arc::new(SystemRandom),
    };
    let namespace = arguments.namespace.clone().unwrap_or(default_namespace);
    let given = arguments.agent_image.as_deref();
    let agent_image = own_pod::image(given, &ports, &namespace, arguments.pod_name.as_deref()).await?;
    let options = arguments.options(namespace, agent_image, SystemRandom.bits());
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        tracing::info!("asked to stop: letting passes in flight end");
    };
    controller::run(ports, options, metrics, stop).await;
    tracing::info!("stopped");
    Ok(())
}

/// Object stores, with the platform's credentials from the environment.
fn stores() -> ObjectStores {
    let ours = |name: &str| ENVIRONMENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    ObjectStores::new(Dialer::tcp(), variables.filter(|(name, _)| ours(name)).collect())
}
