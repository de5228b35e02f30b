//! What an error of etcd's says about the request: not carried out, perhaps carried out, or refused.
//!
//! The table follows `server/etcdserver/api/v3rpc/util.go` of etcd, where its errors become gRPC codes.

use etcd_client::Error as ClientError;
use std::error::Error;
use tonic::{Code, ConnectError, Status};

use super::Effect;
use crate::adapters::tls::is_tls_error;
use crate::ports::EtcdError;

/// Answers that come before anything is proposed to raft, whatever their code.
const NOT_PROPOSED: &[&str] = &["etcdserver: no leader", "raft proposal dropped", "etcdserver: too many requests"];
/// Answers that are etcd's own rule although their code is `Unavailable`.
const OWN_RULE: &[&str] = &["etcdserver: unhealthy cluster"];

/// The connection was not made: nothing was sent.
pub fn not_connected(endpoint: &str, error: &(dyn Error + 'static)) -> EtcdError {
    let message = format!("{endpoint}: {}", chain(error));
    if is_tls_error(error) { EtcdError::Unauthorised { message } } else { EtcdError::Unavailable { message } }
}

/// It was sent, and there is no answer.
pub fn unanswered(message: String, effect: Effect) -> EtcdError {
    match effect {
        Effect::Read => EtcdError::Unavailable { message },
        Effect::Write => EtcdError::Ambiguous { message },
    }
}

/// What the client's error says of the request.
pub fn classify(error: &ClientError, effect: Effect) -> EtcdError {
    match error {
        ClientError::GRpcStatus(status) => from_status(status, effect),
        ClientError::InvalidArgs(_) | ClientError::InvalidUri(_) => EtcdError::Refused { message: error.to_string() },
        _ => unanswered(error.to_string(), effect),
    }
}

fn from_status(status: &Status, effect: Effect) -> EtcdError {
    let message = chain(status);
    let said = |phrases: &[&str]| phrases.iter().any(|phrase| status.message().contains(phrase));
    if has_cause(status, |cause| cause.is::<ConnectError>()) {
        return not_connected("reconnecting", status);
    }
    if is_tls_error(status) {
        return EtcdError::Unauthorised { message };
    }
    if said(NOT_PROPOSED) {
        return EtcdError::Unavailable { message };
    }
    if said(OWN_RULE) {
        return EtcdError::Refused { message };
    }
    match status.code() {
        Code::FailedPrecondition
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::OutOfRange
        | Code::ResourceExhausted
        | Code::DataLoss => EtcdError::Refused { message },
        Code::Unauthenticated | Code::PermissionDenied => EtcdError::Unauthorised { message },
        Code::Unimplemented => EtcdError::Unsupported { message },
        // "etcdserver: request timed out" and its sisters, a lost connection, a server that stops: it may be in the log.
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => unanswered(message, effect),
    }
}

fn has_cause(error: &(dyn Error + 'static), is_it: impl Fn(&(dyn Error + 'static)) -> bool) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if is_it(error) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes in one line; a gRPC status only as its message.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let said = |error: &(dyn Error + 'static)| match error.downcast_ref::<Status>() {
        Some(status) if !status.message().is_empty() => status.message().to_owned(),
        Some(status) => status.code().description().to_owned(),
        None => error.to_string(),
    };
    let mut text = said(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = said(error);
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(code: Code, message: &str) -> EtcdError {
        classify(&ClientError::GRpcStatus(Status::new(code, message)), Effect::Write)
    }

    #[test]
    fn what_may_be_in_the_log_is_ambiguous_for_a_write_and_unavailable_for_a_read() {
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to connection lost"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "transport is closing"),
            (Code::Unknown, "context canceled"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Cancelled, "operation was canceled"),
            (Code::Internal, "h2 protocol error"),
        ] {
            assert!(matches!(write(code, message), EtcdError::Ambiguous { .. }), "{code:?} {message}");
            let read = classify(&ClientError::GRpcStatus(Status::new(code, message)), Effect::Read);
            assert!(matches!(read, EtcdError::Unavailable { .. }), "{code:?} {message}");
        }
    }

    #[test]
    fn what_was_never_proposed_is_unavailable_even_for_a_write() {
        let answers = [(Code::Unavailable, "etcdserver: no leader"), (Code::Unknown, "raft proposal dropped")];
        for (code, message) in answers {
            assert!(matches!(write(code, message), EtcdError::Unavailable { .. }), "{message}");
        }
    }

    #[test]
    fn etcds_own_rules_are_refusals_in_its_words() {
        for (code, message) in [
            (Code::FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members"),
            (Code::FailedPrecondition, "etcdserver: can only promote a learner member which is in sync with leader"),
            (Code::NotFound, "etcdserver: member not found"),
            (Code::Unavailable, "etcdserver: unhealthy cluster"),
        ] {
            assert_eq!(write(code, message), EtcdError::Refused { message: message.to_owned() });
        }
        assert!(matches!(write(Code::Unimplemented, "unknown method"), EtcdError::Unsupported { .. }));
        assert!(matches!(write(Code::PermissionDenied, "no"), EtcdError::Unauthorised { .. }));
    }
}
