//! What `[up]` names is put into the store once.

use super::{Process, folder};
use crate::databases::one_of_each;

// RUN-6
#[test]
fn starting_again_adds_nothing() {
    let here = folder();
    for store in one_of_each(&here) {
        let told = |arguments: &[&str]| {
            here.run(&[arguments, &["--store", &store, "-o", "json"]].concat()).json()
        };
        for _ in 0..2 {
            let mut up = Process::up(&here, &["--store", &store]);
            up.until("the pipeline is through", || {
                told(&["pipeline", "list"])[0]["status"] == "completed"
            });
            up.signal("-TERM");
            assert_eq!(up.end().0, Some(143));
        }
        assert_eq!(told(&["runs", "list"]).as_array().unwrap().len(), 1);
        assert_eq!(told(&["pipeline", "list"]).as_array().unwrap().len(), 1);
        let file = "{\"queue\": \"work\", \"payload\": 7, \"idempotency_key\": \"first\"}\n";
        here.write("runs.jsonl", file);
        let up = Process::up(&here, &["--store", &store]);
        up.signal("-TERM");
        let (code, log) = up.end();
        assert_eq!(code, Some(143));
        assert!(log.contains("has other content"), "said, and left as it was: {log}");
        here.write("runs.jsonl", "{\"queue\": \"work\", \"idempotency_key\": \"first\"}\n");
        here.run(&["doctor", "--store", &store]).ok();
    }
}
