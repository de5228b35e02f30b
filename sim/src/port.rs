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
use futures::future::{Either, select};

use crate::effect::Effect;
use crate::event::Millis;
use crate::network::Place;
use crate::world::{Shared, World};

/// How often a frozen process is looked at.
const FROZEN_LOOK: Millis = 100;

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

    /// A process that is frozen goes on where it was when it is thawed.
    pub async fn thawed(&self) {
        while self.place == Place::Operator && self.shared.enter().operator.frozen.contains(&self.incarnation) {
            self.wait(FROZEN_LOOK).await;
        }
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
        self.thawed().await;
        let (there, back, number) = {
            let mut world = self.shared.enter();
            let counts = operator && effect.as_ref().is_some_and(|effect| !effect.is_bookkeeping());
            let number = if counts { world.number_effect() } else { 0 };
            let (there, back) = world.draw_latency(&to);
            let late = if number > 0 && to == Place::Api { std::mem::take(&mut world.faults.late_write) } else { 0 };
            if late > 0 {
                world.note("fault", format!("effect #{number} travels for {late} ms"));
            }
            (there + late, back, number)
        };
        if number > 0 && self.shared.enter().crash_due(self.incarnation, number, false) {
            std::future::pending::<()>().await;
        }
        let (answer, receiver) = oneshot::channel();
        let this = self.clone();
        let issued = self.shared.enter().now;
        // Its own task: what was sent arrives, whatever becomes of the sender.
        madsim::task::spawn(async move {
            this.wait(there).await;
            let result = {
                let mut world = this.shared.enter();
                if !world.network.linked(&this.place, &to) {
                    return;
                }
                world.issued = issued;
                let result = world.commit(this.actor(), number, effect.clone(), act);
                if let (Some(effect), true, true) = (&effect, operator, result.is_ok()) {
                    let answered = !world.lose_answer;
                    crate::sometimes::effect(&mut world, this.incarnation, effect, answered);
                }
                world.transitions();
                if std::mem::take(&mut world.lose_answer) {
                    world.note("fault", "the answer is lost".into());
                    return;
                }
                if number > 0 {
                    world.crash_due(this.incarnation, number, true);
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
        // What comes later than the deadline is not heard any more.
        let deadline = std::pin::pin!(self.wait(timeout));
        let answer = match select(receiver, deadline).await {
            Either::Left((Ok(result), _)) => Some(result),
            Either::Left((Err(oneshot::Canceled), deadline)) => {
                deadline.await;
                None
            }
            Either::Right(_) => None,
        };
        self.thawed().await;
        answer
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
        clock: Arc::new(clock::SimClock(caller.clone())),
        random: Arc::new(clock::SimRandom(shared.clone())),
    }
}
