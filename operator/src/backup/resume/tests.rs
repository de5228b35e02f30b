//! Lines that break, again and again, while an object is read.

use super::*;
use crate::backup::tests::world::{Fault, Op, World, now};
use futures::TryStreamExt;

const KEY: &str = "db";

/// An object of 256 bytes, and what is read of it.
fn read_with(faults: &[(Fault, usize)]) -> object_store::Result<Vec<u8>> {
    let world = World::new();
    world.put(KEY, (0..=255).collect());
    faults.iter().for_each(|(fault, times)| world.store.fail(Op::Get, *fault, *times));
    let store: Arc<dyn ObjectStore> = world.store;
    now(async {
        let (meta, stream) = get(&store, &Path::from(KEY)).await?;
        assert_eq!(meta.size, 256);
        Ok(stream.try_collect::<Vec<_>>().await?.concat())
    })
}

#[test]
fn the_rest_is_asked_for_however_often_the_line_breaks() {
    let whole: Vec<u8> = (0..=255).collect();
    assert_eq!(read_with(&[]).expect("nothing breaks"), whole);
    assert_eq!(read_with(&[(Fault::Break, 7)]).expect("each time half of the rest came"), whole);
    let faults = [(Fault::Break, 1), (Fault::Before, 2), (Fault::Break, 1), (Fault::Before, 2)];
    assert_eq!(read_with(&faults).expect("never in vain three times in a row"), whole);
}

#[test]
fn it_ends_when_nothing_more_comes_or_the_object_is_another_one() {
    assert!(read_with(&[(Fault::Before, 1)]).is_err(), "it was never opened");
    assert!(read_with(&[(Fault::Break, 1), (Fault::Before, 3)]).is_err(), "in vain three times");
    let world = World::new();
    world.put(KEY, vec![1; 256]);
    world.store.fail(Op::Get, Fault::Break, 1);
    let store: Arc<dyn ObjectStore> = world.store.clone();
    let (_, mut stream) = now(get(&store, &Path::from(KEY))).expect("it is there");
    assert!(now(stream.next()).expect("half of it").is_ok());
    world.put(KEY, vec![2; 256]);
    let error = now(stream.next()).expect("an answer").expect_err("no piece of another object");
    assert!(matches!(error, Error::Precondition { .. }), "{error}");
    assert!(now(stream.next()).is_none());
}
