//! `pods/log`: what a container wrote, from whoever runs the containers.
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream::BoxStream;
use serde_json::Value;

use super::Shared;
use super::route::Words;
use crate::server::{ResourceName, Status, object};

/// Which log is wanted, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The names are those of the query parameters.
pub struct LogRequest {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub since_seconds: Option<i64>,
    pub limit_bytes: Option<u64>,
}

/// The bytes of a log as they come.
pub type LogStream = BoxStream<'static, std::io::Result<Bytes>>;

/// Whoever runs containers keeps what they write.
pub trait LogSource: Send + Sync {
    /// The log, or why there is none (400 for a container that has not started, 404 for one that is unknown).
    fn read(&self, request: &LogRequest) -> Result<LogStream, Status>;
}

pub(super) fn answer(shared: &Shared, words: &Words, namespace: &str, name: &str) -> Result<Response, Status> {
    let pod = shared.run(|_, server| server.peek(&ResourceName::core("pods"), namespace, name));
    let pod = pod.ok_or_else(|| Status::not_found("", "pods", name))?;
    let count = |name: &str| words.number(name).map(|n| n.and_then(|n| u64::try_from(n).ok()));
    let request = LogRequest {
        namespace: namespace.to_owned(),
        pod: name.to_owned(),
        uid: object::uid(&pod).to_owned(),
        container: container(&pod, words.get("container"))?,
        follow: words.is("follow"),
        previous: words.is("previous"),
        timestamps: words.is("timestamps"),
        tail_lines: count("tailLines")?,
        since_seconds: words.number("sinceSeconds")?,
        limit_bytes: count("limitBytes")?,
    };
    let Some(source) = shared.log_source() else {
        let message = format!("no kubelet keeps the logs of pod {name:?}");
        return Err(Status::new(crate::server::Reason::ServiceUnavailable, message));
    };
    let bytes = source.read(&request)?;
    Ok(super::stream(Body::from_stream(bytes), "text/plain"))
}

fn container(pod: &Value, asked: Option<&str>) -> Result<String, Status> {
    let all = |list: &str| {
        let items = pod["spec"][list].as_array().into_iter().flatten();
        items.filter_map(|c| c["name"].as_str()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (main, init) = (all("containers"), all("initContainers"));
    let name = object::name(pod);
    match asked.filter(|c| !c.is_empty()) {
        Some(asked) if main.iter().chain(&init).any(|c| c == asked) => Ok(asked.to_owned()),
        Some(asked) => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
        None => match main.as_slice() {
            [one] => Ok(one.clone()),
            many => {
                let choice = format!("choose one of: [{}]", many.join(" "));
                Err(Status::bad_request(format!("a container name must be specified for pod {name}, {choice}")))
            }
        },
    }
}
