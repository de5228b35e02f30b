//! `kubectl logs`, from the files that the runtime writes.
use std::collections::VecDeque;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use jiff::{SignedDuration, Timestamp};

use super::runtime::ProcessRuntime;
use crate::http::logs::{LogRequest, LogSource, LogStream};
use crate::server::{Reason, Status};

/// How often a followed log is looked at.
const FOLLOW_PERIOD: Duration = Duration::from_millis(200);

/// The logs of every node.
#[derive(Debug)]
pub(super) struct PodLogs {
    pub runtimes: Vec<ProcessRuntime>,
}

impl PodLogs {
    /// The wanted log file and the runtime that writes it.
    fn find(&self, request: &LogRequest) -> Option<(PathBuf, ProcessRuntime)> {
        self.runtimes.iter().find_map(|runtime| {
            let attempts = runtime.attempts(&request.uid, &request.container);
            let index = attempts.len().checked_sub(if request.previous { 2 } else { 1 })?;
            Some((runtime.log_path(&request.uid, &request.container, attempts[index]), runtime.clone()))
        })
    }
}

impl LogSource for PodLogs {
    fn read(&self, request: &LogRequest) -> Result<LogStream, Status> {
        let LogRequest { container, pod, .. } = request;
        let Some((path, runtime)) = self.find(request) else {
            let what = if request.previous { "previous terminated container" } else { "container" };
            let why = match request.previous {
                true => "not found",
                false => "is waiting to start: ContainerCreating",
            };
            return Err(Status::new(Reason::BadRequest, format!("{what} \"{container}\" in pod \"{pod}\" {why}")));
        };
        let mut file = std::fs::File::open(&path)
            .map_err(|cause| Status::new(Reason::InternalError, format!("{}: {cause}", path.display())))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|cause| Status::new(Reason::InternalError, cause.to_string()))?;
        let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let first = shown(&text[..complete], request, request.tail_lines);
        let limit = request.limit_bytes.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let first = Bytes::from(first[..first.len().min(limit)].to_vec());
        let start = stream::once(async move { Ok(first) });
        if !request.follow || request.previous {
            return Ok(start.boxed());
        }
        let state = (file, complete as u64, runtime, LogRequest { tail_lines: None, ..request.clone() });
        let rest = stream::unfold(state, |(mut file, from, runtime, request)| async move {
            loop {
                // Asked before reading: what is written before the end is read before it is noticed.
                let running = runtime.is_running(&request.uid, &request.container);
                let mut text = Vec::new();
                if file.seek(SeekFrom::Start(from)).is_err() || file.read_to_end(&mut text).is_err() {
                    return None;
                }
                let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                if complete > 0 {
                    let bytes = Bytes::from(shown(&text[..complete], &request, None));
                    return Some((Ok(bytes), (file, from + complete as u64, runtime, request)));
                }
                if !running {
                    return None;
                }
                tokio::time::sleep(FOLLOW_PERIOD).await;
            }
        });
        Ok(start.chain(rest).boxed())
    }
}

/// The lines that were asked for, each with its time or without.
fn shown(text: &[u8], request: &LogRequest, tail: Option<u64>) -> Vec<u8> {
    let since = request.since_seconds.map(|seconds| Timestamp::now() - SignedDuration::from_secs(seconds));
    let most = tail.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX);
    let mut lines: VecDeque<&[u8]> = VecDeque::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let time =
            line.split(|byte| *byte == b' ').next().and_then(|time| std::str::from_utf8(time).ok()?.parse().ok());
        if since.is_some_and(|since| time.is_some_and(|time: Timestamp| time < since)) {
            continue;
        }
        lines.push_back(line);
        if lines.len() > most {
            lines.pop_front();
        }
    }
    let mut out = Vec::new();
    for line in lines {
        // `<time> <stream> F <text>`
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (time, rest) = (parts.next().unwrap_or_default(), parts.nth(2).unwrap_or_default());
        if request.timestamps {
            out.extend_from_slice(time);
            out.push(b' ');
        }
        out.extend_from_slice(rest);
    }
    out
}
