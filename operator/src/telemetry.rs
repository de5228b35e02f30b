//! Logs: for people on a terminal, JSON for machines otherwise.

use std::io::IsTerminal;
use tracing_subscriber::filter::{EnvFilter, Targets};

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Which log lines are written: text that [`log_filter`] has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

/// Reads a level, or a list of `module=level`.
///
/// # Errors
/// When it is neither; says what is allowed.
pub fn log_filter(text: &str) -> Result<LogFilter, String> {
    match text.parse::<Targets>() {
        Ok(_) => Ok(LogFilter(text.to_owned())),
        Err(_) => Err("must be error, warn, info, debug, trace, or a list such as info,etcd_operator=debug, \
                       each module=level"
            .to_owned()),
    }
}

/// Sends the logs of this process to standard error, panics included.
pub fn start(filter: &LogFilter, format: LogFormat) {
    let terminal = std::io::stderr().is_terminal();
    let filter = EnvFilter::new(&filter.0);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).init(),
        LogFormat::Auto if !terminal => builder.json().flatten_event(true).init(),
        LogFormat::Auto | LogFormat::Text => builder.with_ansi(terminal).with_target(false).init(),
    }
    // A panic ends the process (see main): its last line must be in the format of the others.
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        tracing::error!(%backtrace, "{panic}");
    }));
}
