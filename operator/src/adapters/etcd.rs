//! The etcd port over etcd-client.
//!
//! One connection a call, closed after it: what answers is what has the address now, not what had it a minute ago, and a
//! failure to connect is proof that nothing was sent. What an error says of the request is in [`error`].

pub mod error;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{
    AlarmAction, AlarmMember, AlarmOptions, AlarmType, Channel, Client, Member, MemberAddOptions, ResponseHeader,
    SnapshotStreaming, StatusResponse,
};
use futures::StreamExt;
use jiff::SignedDuration;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::Endpoint;

use self::error::{classify, not_connected, unanswered};
use super::dial::Dialer;
use super::tls::etcd_client_config;
use crate::model::{Alarm, ClusterId, EtcdMember, MemberId, MemberStatus, Membership, RaftTerm, Revision};
use crate::ports::etcd::{CALL_DEADLINE, HASH_DEADLINE, Snapshot};
use crate::ports::{Etcd, EtcdAccess, EtcdError};

/// How long one endpoint may take to be connected to, when there are others.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection on which nothing comes is asked whether it is alive; matters to snapshots, which are long.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a snapshot may be under way: enough for a fast line, small enough for many snapshots at once.
const WINDOW_BYTES: u32 = 1 << 20;
/// A key that nobody writes.
const ABSENT_KEY: &str = "\0etcd-operator/quorum-read";

/// etcd over the network.
#[derive(Clone)]
pub struct EtcdAdapter {
    dialer: Dialer,
}

/// Whether a call changes something: what is not answered may then have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It can be repeated at will.
    Read,
    /// It cannot.
    Write,
}

impl EtcdAdapter {
    /// Dials with this.
    pub fn new(dialer: Dialer) -> Self {
        Self { dialer }
    }

    async fn connect(&self, endpoint: &str, access: &EtcdAccess) -> Result<Client, EtcdError> {
        let refused = |message: String| EtcdError::Refused { message };
        let mut wanted = Endpoint::from_shared(endpoint.to_owned())
            .map_err(|error| refused(format!("`{endpoint}` is not a URL: {error}")))?
            .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        match (wanted.uri().scheme_str(), &access.tls) {
            (Some("http"), _) => {}
            (Some("https"), Some(tls)) => {
                wanted = wanted
                    .tls_config(etcd_client_config(tls))
                    .map_err(|error| EtcdError::Unauthorised { message: error::chain(&error) })?;
            }
            (Some("https"), None) => {
                let message = format!("`{endpoint}` is https, and no client certificate is given for it");
                return Err(EtcdError::Unauthorised { message });
            }
            _ => return Err(refused(format!("`{endpoint}` must begin with http:// or https://"))),
        }
        let channel = wanted
            .connect_with_connector(self.dialer.clone())
            .await
            .map_err(|error| not_connected(endpoint, &error))?;
        // Without a user there is no token to fetch: this sends nothing.
        Client::from_channel(Channel::Tonic(channel), None).await.map_err(|error| classify(&error, Effect::Read))
    }

    /// Makes one call: at the first endpoint that takes it, all within [`CALL_DEADLINE`].
    async fn call<T, F>(
        &self,
        access: &EtcdAccess,
        effect: Effect,
        call: impl Fn(Client) -> F + Send + Sync,
    ) -> Result<T, EtcdError>
    where
        T: Send,
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        self.call_within(CALL_DEADLINE, access, effect, call).await
    }

    #[expect(clippy::disallowed_methods, reason = "an adapter: the deadline of a real call")]
    async fn call_within<T, F>(
        &self,
        time: SignedDuration,
        access: &EtcdAccess,
        effect: Effect,
        call: impl Fn(Client) -> F + Send + Sync,
    ) -> Result<T, EtcdError>
    where
        T: Send,
        F: Future<Output = Result<T, EtcdError>> + Send,
    {
        let duration = |time: SignedDuration| Duration::try_from(time).expect("a positive constant");
        let deadline = Instant::now() + duration(time);
        let mut failures = Vec::new();
        for (tried, endpoint) in access.endpoints.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            // A read that hangs at one endpoint must leave time for the others; a write is sent once.
            let others = u32::try_from(access.endpoints.len() - tried - 1).unwrap_or(u32::MAX);
            let share = left / others.saturating_add(1);
            let connect = if others == 0 { left.min(duration(CALL_DEADLINE)) } else { share.min(CONNECT_TIMEOUT) };
            let silent = || format!("{endpoint}: no connection within {connect:?}");
            let connected = tokio::time::timeout(connect, self.connect(endpoint, access)).await;
            let answer = match connected.unwrap_or_else(|_| Err(EtcdError::Unavailable { message: silent() })) {
                Ok(client) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let time = if effect == Effect::Read { left.min(share) } else { left };
                    let late = |_| Err(unanswered(format!("{endpoint}: no answer within {time:?}"), effect));
                    tokio::time::timeout(time, call(client)).await.unwrap_or_else(late)
                }
                Err(error) => Err(error),
            };
            match answer {
                Err(EtcdError::Unavailable { message }) => failures.push(message),
                answer => return answer,
            }
        }
        if failures.is_empty() {
            failures.push("no endpoints are given".to_owned());
        }
        Err(EtcdError::Unavailable { message: failures.join("; ") })
    }
}

#[async_trait]
impl Etcd for EtcdAdapter {
    async fn status(&self, access: &EtcdAccess) -> Result<MemberStatus, EtcdError> {
        self.call(access, Effect::Read, |mut client| async move {
            let answer = client.status().await.map_err(|error| classify(&error, Effect::Read))?;
            member_status(&answer)
        })
        .await
    }

    async fn members(&self, access: &EtcdAccess, linearizable: bool) -> Result<Membership, EtcdError> {
        self.call(access, Effect::Read, |mut client| async move {
            let read = |error| classify(&error, Effect::Read);
            if linearizable {
                client.get(ABSENT_KEY, None).await.map_err(read)?;
            }
            let answer = client.member_list().await.map_err(read)?;
            let mut members: Vec<_> = answer.members().iter().map(etcd_member).collect();
            members.sort_by_key(|member| member.id);
            Ok(Membership { cluster_id: ClusterId(header(answer.header())?.cluster_id()), members })
        })
        .await
    }

    async fn quorum_read(&self, access: &EtcdAccess) -> Result<Revision, EtcdError> {
        self.call(access, Effect::Read, |mut client| async move {
            let answer = client.get(ABSENT_KEY, None).await.map_err(|error| classify(&error, Effect::Read))?;
            Ok(Revision(header(answer.header())?.revision()))
        })
        .await
    }

    async fn alarms(&self, access: &EtcdAccess) -> Result<Vec<(MemberId, Alarm)>, EtcdError> {
        self.call(access, Effect::Read, |mut client| async move {
            let answer = client
                .alarm(AlarmAction::Get, AlarmType::None, None)
                .await
                .map_err(|error| classify(&error, Effect::Read))?;
            let known = |raised: &AlarmMember| Some((MemberId(raised.member_id()), alarm(raised.alarm())?));
            Ok(answer.alarms().iter().filter_map(known).collect())
        })
        .await
    }

    async fn disarm(&self, access: &EtcdAccess, member: MemberId, alarm: Alarm) -> Result<(), EtcdError> {
        self.call(access, Effect::Write, |mut client| async move {
            let kind = match alarm {
                Alarm::NoSpace => AlarmType::Nospace,
                Alarm::Corrupt => AlarmType::Corrupt,
            };
            let mut options = AlarmOptions::new();
            options.with_member(member.0);
            let answer = client.alarm(AlarmAction::Deactivate, kind, Some(options)).await;
            answer.map(drop).map_err(|error| classify(&error, Effect::Write))
        })
        .await
    }

    async fn member_add(&self, access: &EtcdAccess, peer_url: &str, learner: bool) -> Result<MemberId, EtcdError> {
        self.call(access, Effect::Write, |mut client| async move {
            let mut options = MemberAddOptions::new();
            if learner {
                refuse_where_learners_are_unknown(&mut client).await?;
                options = options.with_is_learner();
            }
            let answer = client.member_add([peer_url], Some(options)).await;
            let answer = answer.map_err(|error| classify(&error, Effect::Write))?;
            let nameless = || EtcdError::Ambiguous { message: "the answer to MemberAdd names no member".to_owned() };
            Ok(MemberId(answer.member().ok_or_else(nameless)?.id()))
        })
        .await
    }

    async fn member_promote(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError> {
        self.call(access, Effect::Write, |mut client| async move {
            let answer = client.member_promote(member.0).await;
            answer.map(drop).map_err(|error| classify(&error, Effect::Write))
        })
        .await
    }

    async fn member_remove(&self, access: &EtcdAccess, member: MemberId) -> Result<(), EtcdError> {
        self.call(access, Effect::Write, |mut client| async move {
            let answer = client.member_remove(member.0).await;
            answer.map(drop).map_err(|error| classify(&error, Effect::Write))
        })
        .await
    }

    async fn move_leader(&self, access: &EtcdAccess, to: MemberId) -> Result<(), EtcdError> {
        self.call(access, Effect::Write, |mut client| async move {
            let answer = client.move_leader(to.0).await;
            answer.map(drop).map_err(|error| classify(&error, Effect::Write))
        })
        .await
    }

    async fn hash_kv(&self, access: &EtcdAccess, revision: Revision) -> Result<(u32, Revision), EtcdError> {
        self.call_within(HASH_DEADLINE, access, Effect::Read, |mut client| async move {
            let answer = client.hash_kv(revision.0).await.map_err(|error| classify(&error, Effect::Read))?;
            // Below 3.6 the answer does not say of which revision it is: of the one asked for, or of the newest.
            let hashed = match (answer.hash_revision(), revision.0) {
                (0, 0) => header(answer.header())?.revision(),
                (0, asked) => asked,
                (said, _) => said,
            };
            Ok((answer.hash(), Revision(hashed)))
        })
        .await
    }

    async fn snapshot(&self, access: &EtcdAccess) -> Result<Snapshot, EtcdError> {
        let introduced = self.call(access, Effect::Read, |mut client| async move {
            let answer = client.status().await.map_err(|error| classify(&error, Effect::Read))?;
            Ok((member_status(&answer)?, client))
        });
        let (status, mut client) = introduced.await?;
        // The calls have a deadline. A snapshot has none here: how long it may stand still is its backup's to say.
        let stream = client.snapshot().await.map_err(|error| classify(&error, Effect::Read))?;
        Ok(Snapshot { status, chunks: futures::stream::unfold(Some((client, stream)), next_chunk).boxed() })
    }
}

/// The stream lives on the client's connection.
type Streaming = (Client, SnapshotStreaming);

/// The next chunk, and the rest; nothing follows an error.
async fn next_chunk(snapshot: Option<Streaming>) -> Option<(Result<Bytes, EtcdError>, Option<Streaming>)> {
    let (client, mut stream) = snapshot?;
    match stream.message().await {
        Ok(Some(chunk)) => Some((Ok(Bytes::copy_from_slice(chunk.blob())), Some((client, stream)))),
        Ok(None) => None,
        Err(error) => Some((Err(classify(&error, Effect::Read)), None)),
    }
}

/// A server below 3.4 would skip the flag that it does not know, and add a voter.
async fn refuse_where_learners_are_unknown(client: &mut Client) -> Result<(), EtcdError> {
    let answer = client.status().await.map_err(|error| classify(&error, Effect::Read))?;
    let version = answer.version();
    if knows_learners(version) {
        return Ok(());
    }
    Err(EtcdError::Unsupported { message: format!("etcd {version} has no learners, 3.4 and later have") })
}

fn knows_learners(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else { return false };
    (major, minor) >= (3, 4)
}

fn header(header: Option<&ResponseHeader>) -> Result<&ResponseHeader, EtcdError> {
    header.ok_or_else(|| EtcdError::Unsupported { message: "the answer has no header".to_owned() })
}

fn member_status(answer: &StatusResponse) -> Result<MemberStatus, EtcdError> {
    let header = header(answer.header())?;
    let leader = Some(answer.leader()).filter(|&leader| leader != 0).map(MemberId);
    // Below 3.4 there is one index, and it is the one that was applied.
    let applied = if answer.raft_applied_index() == 0 { answer.raft_index() } else { answer.raft_applied_index() };
    Ok(MemberStatus {
        cluster_id: ClusterId(header.cluster_id()),
        member_id: MemberId(header.member_id()),
        version: answer.version().to_owned(),
        storage_version: answer.storage_version().parse().ok(),
        leader,
        term: RaftTerm(answer.raft_term()),
        raft_index: answer.raft_index(),
        raft_applied_index: applied,
        revision: Revision(header.revision()),
        db_size: u64::try_from(answer.db_size()).unwrap_or(0),
        learner: answer.is_learner(),
        errors: answer.errors().to_vec(),
    })
}

fn etcd_member(member: &Member) -> EtcdMember {
    EtcdMember {
        id: MemberId(member.id()),
        name: member.name().to_owned(),
        peer_urls: member.peer_urls().to_vec(),
        client_urls: member.client_urls().to_vec(),
        learner: member.is_learner(),
    }
}

fn alarm(alarm: AlarmType) -> Option<Alarm> {
    match alarm {
        AlarmType::None => None,
        AlarmType::Nospace => Some(Alarm::NoSpace),
        AlarmType::Corrupt => Some(Alarm::Corrupt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(endpoints: &[&str]) -> EtcdAccess {
        EtcdAccess { endpoints: endpoints.iter().map(|&url| url.to_owned()).collect(), tls: None }
    }

    #[tokio::test]
    async fn a_refused_connection_was_certainly_not_carried_out() {
        // Bound and not listening: connections are refused, and nobody else gets the port.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let url = format!("http://{}", socket.local_addr().expect("bound"));
        let etcd = EtcdAdapter::new(Dialer::tcp());
        let error = etcd.member_remove(&to(&[&url]), MemberId(1)).await.expect_err("nobody listens");
        assert!(matches!(&error, EtcdError::Unavailable { message } if message.contains("refused")), "{error}");
        let error = etcd.status(&to(&["http://no.such.host.invalid:2379"])).await.expect_err("no such name");
        assert!(matches!(&error, EtcdError::Unavailable { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_write_that_is_sent_and_not_answered_is_ambiguous() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        // Takes the connection, reads what comes, and closes it.
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut taken = [0; 256];
                let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut taken).await;
            }
        });
        let etcd = EtcdAdapter::new(Dialer::tcp());
        let access = to(&[&url]);
        let error = etcd.member_remove(&access, MemberId(1)).await.expect_err("no answer");
        assert!(matches!(&error, EtcdError::Ambiguous { .. }), "{error}");
        let error = etcd.status(&access).await.expect_err("no answer");
        assert!(matches!(&error, EtcdError::Unavailable { .. }), "{error}");
        server.abort();
    }

    #[tokio::test]
    async fn what_cannot_be_an_endpoint_is_refused_and_says_what_is_allowed() {
        let etcd = EtcdAdapter::new(Dialer::tcp());
        for (url, expected) in [("127.0.0.1:1", "http://"), ("ftp://a:1", "http://"), ("https://a:1", "certificate")] {
            let error = etcd.status(&to(&[url])).await.expect_err("not an endpoint");
            assert!(error.to_string().contains(expected), "{url}: {error}");
            assert!(!matches!(error, EtcdError::Unavailable { .. } | EtcdError::Ambiguous { .. }), "{url}: {error}");
        }
        let error = etcd.status(&to(&[])).await.expect_err("no endpoint");
        assert!(matches!(error, EtcdError::Unavailable { .. }), "{error}");
    }

    #[test]
    fn learners_exist_from_3_4_on() {
        for (version, known) in [("3.2.25", false), ("3.3.27", false), ("3.4.0", true), ("3.10.1", true), ("4.0", true)]
        {
            assert_eq!(knows_learners(version), known, "{version}");
        }
        assert!(!knows_learners("nonsense"));
    }
}
