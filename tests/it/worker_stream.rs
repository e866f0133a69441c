//! `redrive worker` with handlers that stay running.

use serde_json::json;

use crate::{folder::Folder, shop::Shop};

/// Answers by category; starts and the end of its input are noted.
const HANDLER: &str = r#"
echo $$ >> starts
while IFS= read -r call; do
    id=${call#'{"id":"'}; id=${id%%'"'*}
    case "$call" in
    *'"category":"fine"'*) echo "{\"id\":\"$id\",\"ok\":42}" ;;
    *'"attempt":1,'*'"category":"crash"'*) echo 'out of memory' >&2; exit 1 ;;
    *'"category":"crash"'*) echo "{\"id\":\"$id\",\"ok\":\"at last\"}" ;;
    *'"category":"garbage"'*) echo 'Segmentation fault' ;;
    *'"category":"hang"'*) echo begun > gate; sleep 1000 ;;
    esac
done
echo end >> ends
"#;

fn shop(handler: &str) -> Shop {
    let config = format!(
        "[[queue]]\nname = \"work\"\nhandler = {{ {handler} }}\nconcurrency = 32\n\
         policy = {{ max-attempts = 2, base = \"10ms\", cap = \"1s\" }}\n"
    );
    Shop::selling(Folder::new(), "sqlite:store.db", &config, HANDLER)
}

fn lines(shop: &Shop, file: &str) -> usize {
    std::fs::read_to_string(shop.folder.path().join(file)).unwrap_or_default().lines().count()
}

// HANDLERS-3, OPS-7
#[test]
fn a_queue_is_drained_by_programs_that_stay_running() {
    let shop = shop(r#"stream = ["/bin/sh", "work.sh"], processes = 2"#);
    let fine = vec!["fine"; 20];
    let ids = shop.drained(&fine);
    for id in ids {
        let run = shop.show(id);
        assert_eq!((&run["status"], &run["result"]), (&json!("passed"), &json!(42)));
    }
    assert!(lines(&shop, "starts") <= 2);
    assert_eq!(lines(&shop, "ends"), lines(&shop, "starts"), "each saw the end of its input");
    shop.run(&["doctor"]).ok();
}

// HANDLERS-3, HANDLERS-5, CLS-4
#[test]
fn a_program_that_misbehaves_costs_its_own_call_an_attempt() {
    let shop = shop(r#"stream = ["/bin/sh", "work.sh"]"#);
    let [crash, garbage, fine] = shop.drained(&["crash", "garbage", "fine"])[..] else { panic!() };
    let story = shop.why(crash);
    assert_eq!(story["run"]["status"], "passed");
    assert_eq!(story["attempts"][0]["code"], "1");
    let message = story["attempts"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("stderr: out of memory"), "{message}");
    let run = shop.show(garbage);
    assert_eq!((&run["status"], &run["attempts"]), (&json!("error"), &json!(2)));
    assert!(run["error_message"].as_str().unwrap().contains("Segmentation fault"), "{run}");
    assert_eq!(shop.status(fine), "passed");
}

// HANDLERS-3, OPS-6
#[test]
fn a_signal_hands_running_calls_back_and_leaves_no_program_behind() {
    let shop = shop(r#"stream = ["/bin/sh", "work.sh"], grace = "100ms""#);
    shop.make_gate();
    let id = shop.submit("hang");
    let worker = shop.start_worker(&["--grace", "50ms"]);
    let begun = std::fs::read_to_string(shop.folder.path().join("gate")).unwrap();
    assert_eq!(begun, "begun\n");
    worker.signal("-TERM");
    let (code, log) = worker.end();
    assert_eq!(code, Some(143), "{log}");
    let story = shop.why(id);
    assert_eq!((&story["run"]["status"], &story["attempts"]), (&json!("discovered"), &json!([])));
    let pid = std::fs::read_to_string(shop.folder.path().join("starts")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}
