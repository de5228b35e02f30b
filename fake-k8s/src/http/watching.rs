//! Watches: the events of a cursor, one JSON line each, for as long as the client listens.
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Shared;
use super::answer::{Shape, reshape, shape_of};
use super::route::Words;
use crate::server::{Server, Status, WatchCursor, WatchEvent, WatchRequest};

/// Events that are read at once.
const BATCH: usize = 256;
/// A quiet watch says now and then that it lives, and how far it is.
const BOOKMARK_AFTER: Duration = Duration::from_secs(30);

struct Watching {
    shared: Shared,
    cursor: WatchCursor,
    changes: watch::Receiver<u64>,
    shape: Shape,
    bookmarks: bool,
    initial_end: bool,
    until: Option<Timestamp>,
    over: bool,
}

pub fn answer(shared: &Shared, words: &Words, request: &WatchRequest) -> Result<Response, Status> {
    // Subscribed before the cursor is made: no commit falls between the two.
    let changes = shared.subscribe();
    let cursor = match shared.run(|_, server| server.watch(request)) {
        Ok(cursor) => cursor,
        // As from a real server: the watch begins, and its first and last event is the error.
        Err(status) if status.is_expired() => {
            return Ok(super::stream(Body::from(line("ERROR", &status.to_value())), "application/json"));
        }
        Err(status) => return Err(status),
    };
    let until = match words.number("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => shared.now().checked_add(jiff::SignedDuration::from_secs(seconds)).ok(),
        _ => None,
    };
    let state = Watching {
        shared: shared.clone(),
        cursor,
        changes,
        shape: shape_of(words),
        bookmarks: request.allow_bookmarks,
        initial_end: request.send_initial_events,
        until,
        over: false,
    };
    let events = stream::unfold(state, |mut state| async move {
        let chunk = state.next().await?;
        Some((Ok::<Bytes, std::convert::Infallible>(chunk), state))
    });
    Ok(super::stream(Body::from_stream(events), "application/json"))
}

impl Watching {
    /// The next lines; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.over {
                return None;
            }
            self.changes.borrow_and_update();
            let shared = self.shared.clone();
            let lines = shared.run(|now, server| self.lines(now, server));
            if !lines.is_empty() {
                return Some(Bytes::from(lines));
            }
            let now = self.shared.now();
            let left = self.until.map(|until| until.duration_since(now));
            if left.is_some_and(|left| left.is_negative() || left.is_zero()) {
                return None;
            }
            let left = left.and_then(|l| Duration::try_from(l).ok()).unwrap_or(BOOKMARK_AFTER).min(BOOKMARK_AFTER);
            #[allow(clippy::disallowed_methods)] // The live edge: a client waits in real time.
            let waited = tokio::time::timeout(left, self.changes.changed()).await;
            match waited {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) if self.bookmarks => {
                    let version = self.cursor.position();
                    let info = &self.cursor.info;
                    let line = bookmark(&info.api_version(), &info.kind, version, false);
                    return Some(Bytes::from(line));
                }
                Err(_) => {}
            }
        }
    }

    fn lines(&mut self, now: Timestamp, server: &Server) -> String {
        let events = match server.poll(&mut self.cursor, u64::MAX, BATCH) {
            Ok(events) => events,
            Err(status) => {
                self.over = true;
                return line("ERROR", &status.to_value());
            }
        };
        let info = self.cursor.info.clone();
        let mut out = String::new();
        for event in events {
            let kind = match &event {
                WatchEvent::Added(_) => "ADDED",
                WatchEvent::Modified(_) => "MODIFIED",
                WatchEvent::Deleted(_) => "DELETED",
                WatchEvent::Bookmark(version) => {
                    let end = std::mem::take(&mut self.initial_end);
                    out.push_str(&bookmark(&info.api_version(), &info.kind, *version, end));
                    continue;
                }
            };
            if let Some(object) = event.object() {
                match reshape(&info, object, self.shape, now) {
                    Some(other) => out.push_str(&line(kind, &other)),
                    None => out.push_str(&line(kind, object)),
                }
            }
        }
        out
    }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(api_version: &str, kind: &str, version: u64, initial_end: bool) -> String {
    let mut metadata = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
    if initial_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    line("BOOKMARK", &json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}))
}
