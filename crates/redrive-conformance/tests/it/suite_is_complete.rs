//! Every case of the conformance suite is run: none is written and forgotten.

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn every_case_is_listed_once() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/suite");
    let list = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut listed = BTreeSet::new();
    for word in list.split_whitespace().filter(|word| word.contains('_')) {
        listed.insert(word.to_owned());
    }
    let mut written = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("pub async fn ") else {
                continue;
            };
            let name = rest.split('(').next().unwrap();
            assert!(listed.contains(name), "{name} is not in conformance_tests!");
            written += 1;
        }
    }
    assert!(written > 40, "the suite was found");
}
