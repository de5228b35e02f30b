//! The operator's ports over the fakes. One exchange is: a latency, one instant at which it is judged and carried out,
//! another latency, the answer. It is carried out also when the caller has given up or died meanwhile, and the answer
//! can be lost.

pub mod clock;
pub mod etcd;
pub mod kubernetes;
pub mod store;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use etcd_operator::ports::Ports;
use futures::channel::oneshot;

use crate::effect::Effect;
use crate::event::Millis;
use crate::network::Place;
use crate::world::{Shared, World};

/// Who calls: an incarnation of the operator, or the agent in a pod.
#[derive(Clone)]
pub struct Caller {
    /// The world.
    pub shared: Shared,
    /// Where the caller is.
    pub place: Place,
    /// Which life of the operator; what an earlier one sent is still carried out, but it hears nothing any more.
    pub incarnation: u64,
}

impl Caller {
    /// Lets simulated time pass.
    pub async fn wait(&self, millis: Millis) {
        madsim::time::sleep(Duration::from_millis(millis)).await;
    }

    /// One exchange with a place; none when no answer comes.
    pub async fn exchange<V, E>(
        &self,
        to: Place,
        effect: Option<Effect>,
        act: impl FnOnce(&mut World) -> Result<V, E> + Send + 'static,
    ) -> Option<Result<V, E>>
    where
        V: Send + 'static,
        E: Display + Send + 'static,
    {
        let timeout = timeout(&to);
        let operator = self.place == Place::Operator;
        let (there, back, number) = {
            let mut world = self.shared.enter();
            let counts = operator && effect.as_ref().is_some_and(|effect| !effect.is_bookkeeping());
            let number = if counts { world.number_effect() } else { 0 };
            let (there, back) = world.draw_latency(&to);
            (there, back, number)
        };
        if number > 0 && self.shared.enter().crash_due(number, false) {
            std::future::pending::<()>().await;
        }
        let (answer, receiver) = oneshot::channel();
        let this = self.clone();
        // Its own task: what was sent arrives, whatever becomes of the sender.
        madsim::task::spawn(async move {
            this.wait(there).await;
            let result = {
                let mut world = this.shared.enter();
                if !world.network.linked(&this.place, &to) {
                    return;
                }
                let result = world.commit(this.actor(), number, effect, act);
                if std::mem::take(&mut world.lose_answer) {
                    world.note("fault", "the answer is lost".into());
                    return;
                }
                if number > 0 {
                    world.crash_due(number, true);
                }
                result
            };
            this.shared.poke();
            this.wait(back).await;
            if this.shared.enter().network.linked(&this.place, &to) {
                // A receiver that is gone is a caller that gave up.
                let _ = answer.send(result);
            }
        });
        match receiver.await {
            Ok(result) => Some(result),
            Err(oneshot::Canceled) => {
                self.wait(timeout).await;
                None
            }
        }
    }

    fn actor(&self) -> &'static str {
        if self.place == Place::Operator { "operator" } else { "agent" }
    }
}

/// How long a client waits for an answer that does not come.
const fn timeout(to: &Place) -> Millis {
    match to {
        Place::Api => 10_000,
        Place::Store => 30_000,
        Place::Pod(_) | Place::Client | Place::Operator => 5_000,
    }
}

/// The ports of one incarnation of the operator.
pub fn ports(shared: &Shared, incarnation: u64) -> Ports {
    let caller = Caller { shared: shared.clone(), place: Place::Operator, incarnation };
    Ports {
        kubernetes: Arc::new(kubernetes::SimKubernetes(caller.clone())),
        etcd: Arc::new(etcd::SimEtcd(caller.clone())),
        stores: Arc::new(store::SimStores(caller.clone())),
        clock: Arc::new(clock::SimClock(shared.clone())),
        random: Arc::new(clock::SimRandom(shared.clone())),
    }
}
