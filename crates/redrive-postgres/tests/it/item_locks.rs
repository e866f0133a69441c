//! Whoever changes several items locks them in the order of their ids: uploads, plans and operators cannot deadlock.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_core::{ItemEvent, ItemId};
use redrive_store::{AddedItem, ItemGroup, ItemMove, Items, NewItem, Operator, Written};

use crate::{faults::until_blocked, server::Database};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn item(name: &str) -> NewItem {
    NewItem {
        group: ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() },
        name: name.to_owned(),
        content_url: "file:/x".to_owned(),
        size_bytes: 1,
        sha256: "ab".repeat(32),
    }
}

// PLN-3, UPL-7
#[tokio::test]
async fn an_upload_that_waits_for_an_item_holds_none_of_a_higher_id() {
    let database = Database::migrated().await;
    let store = Arc::new(database.store().await);
    let by = Operator { actor: "ada".to_owned(), at: NOW, reason: None };
    let added = store.add_items(&[item("a"), item("b")], &by).await.unwrap();
    let id = |added: &AddedItem| match added {
        AddedItem::Accepted(id) => *id,
        other => panic!("{other:?}"),
    };
    let ids: Vec<ItemId> = added.iter().map(id).collect();
    let step = |place: usize, event| ItemMove::new(ids[place], event, NOW);
    let [give_up, reset] = [ItemEvent::GiveUp, ItemEvent::Reset];
    for moves in [
        vec![step(1, give_up), step(0, give_up)],
        // The second item moves twice, and the first one only then.
        vec![step(1, reset), step(1, give_up), step(0, reset)],
    ] {
        let plan = database.raw().await;
        let lower = "BEGIN; SELECT FROM redrive.items WHERE name = 'a' FOR UPDATE";
        plan.batch_execute(lower).await.unwrap();
        let (store, count) = (Arc::clone(&store), moves.len());
        let upload = tokio::spawn(async move { store.move_items(&moves).await });
        until_blocked(&database.raw().await).await;
        let higher = "SELECT FROM redrive.items WHERE name = 'b' FOR UPDATE NOWAIT; COMMIT";
        plan.batch_execute(higher).await.expect("a plan goes on with the item");
        assert_eq!(upload.await.unwrap().unwrap(), vec![Written::Applied; count]);
    }
}
