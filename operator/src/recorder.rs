//! The recorder: what happens to one of our objects is told as a Kubernetes Event.
//!
//! One event per transition, and none that only repeats what status has said for a while: whoever makes the news sees to
//! that. An event tells and decides nothing, so one that cannot be written is no reason to stop.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};

use crate::api::API_VERSION;
use crate::ports::{Kind, ObjectKey, Ports, Typed};

/// `reportingComponent` of all events.
pub const COMPONENT: &str = "etcd-operator";
/// Longest message; the API server refuses more than 1024 bytes.
const MESSAGE_MAX: usize = 1000;

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Where it is.
    pub key: &'a ObjectKey,
    /// Its uid.
    pub uid: &'a str,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Somebody should look at it.
    pub warning: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl News {
    /// As it should be.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: false, reason, message: message.into() }
    }

    /// As it should not be.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, reason, message: message.into() }
    }
}

/// The event. `entropy` keeps two events of one moment apart.
pub fn event(about: &About<'_>, news: &News, now: Timestamp, entropy: u64) -> Event {
    let ObjectKey { namespace, name } = about.key.clone();
    let mut message = news.message.clone();
    let end = (0..=MESSAGE_MAX.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    message.truncate(end.unwrap_or_default());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{entropy:016x}")),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(about.kind.to_string()),
            name: Some(name),
            namespace: Some(namespace),
            uid: Some(about.uid.to_owned()),
            ..ObjectReference::default()
        },
        type_: Some(if news.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(news.reason.to_owned()),
        message: Some(message),
        action: Some(news.reason.to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        event_time: Some(MicroTime(now)),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(COMPONENT.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        ..Event::default()
    }
}

/// Tells it, as far as the API server takes it.
pub async fn tell(ports: &Ports, about: &About<'_>, news: &News) {
    let event = event(about, news, ports.clock.now(), ports.random.bits());
    if let Err(error) = ports.kubernetes.create(&event.into_object()).await {
        tracing::debug!(%error, "event not written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_any_length_fits_into_an_event() {
        let key = ObjectKey::new("ns", "b");
        let about = About { kind: Kind::EtcdBackup, key: &key, uid: "u" };
        let event = event(&about, &News::warning("BackupFailed", "\u{e9}".repeat(999)), Timestamp::UNIX_EPOCH, 7);
        assert_eq!(event.message.map(|message| message.len()), Some(1000));
        assert_eq!(event.involved_object.kind.as_deref(), Some("EtcdBackup"));
        assert_eq!(event.metadata.name.as_deref(), Some("b.0000000000000007"));
    }
}
