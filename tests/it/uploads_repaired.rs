//! What uploads say about items that operators have reset or dropped.

use crate::{
    upload_shop::{SOON, UploadShop},
    uploads::by_content,
};

// FIX-1
#[test]
fn the_list_tells_rejections_before_a_reset_from_those_after_it() {
    let shop = UploadShop::on_sqlite(&format!("{SOON}max-item-attempts = 1\n"), by_content);
    shop.add("a.png", "bad");
    shop.uploaded(3);
    let list = || shop.shop.run(&["uploads", "list"]).ok();
    assert!(list().contains("REJECTIONS  CAUSE             LAST REJECTION"), "{}", list());
    let id = shop.item("a.png")["id"].to_string();
    shop.shop.run(&["uploads", "reset", &id, "--yes"]).ok();
    assert!(list().contains("pending  0 (1 before reset)"), "{}", list());
}

// FIX-1
#[test]
fn a_group_without_items_and_an_item_say_that_they_were_dropped() {
    let config = format!("{SOON}max-item-attempts = 1\n");
    for shop in UploadShop::both(&config, by_content) {
        shop.add("a.png", "bad");
        shop.uploaded(3);
        let id = shop.item("a.png")["id"].to_string();
        let drop = ["uploads", "drop", &id, "--yes", "--reason", "not needed"];
        let mut command = shop.shop.command(&drop);
        shop.shop.folder.ended(command.env("USER", "ada").output().unwrap()).ok();
        let run = ["uploads", "run", "--upload", "tiles", "--group", "g"];
        let ended = shop.shop.run(&run);
        let note = "all 1 items of group \"g\" were dropped";
        assert!(ended.code == Some(0) && ended.stderr.contains(note), "{ended:#?}");
        let why = shop.shop.run(&["why", &format!("item:{id}")]).failed(1);
        for part in ["\"a.png\" of group \"g\"", "was dropped at 20", " by ada: not needed"] {
            assert!(why.contains(part), "{why}");
        }
        shop.doctor();
    }
}
