//! Sequences: requests as data, with placeholders for what only the server that answers them knows.
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests that are played in order, in a namespace of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    /// What it was made from.
    pub seed: u64,
    /// Its namespace; names outside of namespaces begin with it.
    pub namespace: String,
    /// In order.
    pub steps: Vec<Step>,
}

/// One request. Strings in path, query and body may have placeholders:
///
/// - `${rv:configmaps/x0}`: the newest resourceVersion that an answer showed of this object, `${rv:configmaps/x0@1}` the one
///   before it, and so on; `0` when there was none.
/// - `${uid:configmaps/x0}`: its uid, in the same way; `none` when there was none.
/// - `${version}`: the greatest version of all that were shown.
/// - `${continue}`: the last token of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The line of the table that it counts in: `create configmaps`.
    pub does: String,
    /// `GET`, `POST`, ...
    pub method: String,
    /// Not encoded.
    pub path: String,
    /// Not encoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query: Vec<(String, String)>,
    /// Of the body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    /// What is asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accept: String,
    /// What is sent.
    #[serde(default, skip_serializing_if = "Body::is_none")]
    pub body: Body,
    /// The object that is asked for, as placeholders name it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
}

/// What is sent with a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Body {
    /// Nothing.
    #[default]
    None,
    /// This value.
    Json(Value),
    /// This text, whatever it is.
    Text(String),
    /// The object as it was last seen, changed by a merge patch (RFC 7386): read, modify, write.
    Changed {
        /// As placeholders name it.
        of: String,
        /// The change.
        by: Value,
    },
}

impl Body {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Step {
    /// Whether it listens instead of asking: it is sent when all else was answered, with the versions of its own turn.
    pub fn is_watch(&self) -> bool {
        self.query.iter().any(|(name, value)| name == "watch" && value == "1")
    }
}
