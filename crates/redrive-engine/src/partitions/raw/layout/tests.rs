#![allow(clippy::unwrap_used, reason = "a test that fails should fail loudly")]

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(part: &str, name: &str) {
    assert_eq!(encode(part), name);
    assert_eq!(decode(name).as_deref(), Some(part));
}

// PAR-3
#[test]
fn hostile_parts_become_plain_names() {
    check("ads", "ads");
    check("v1.2-b_c", "v1.2-b_c");
    check("..", "%2e%2e");
    check(".", "%2e");
    check("../../etc", "%2e.%2f..%2fetc");
    check("a/b\\c:d", "a%2fb%5cc%3ad");
    check("100%", "100%25");
    check("%2e", "%252e");
    check("CON", "%43%4f%4e");
    check("con", "%63on");
    check("con.txt", "%63on.txt");
    check("com1", "%63om1");
    check("company", "company");
    check("Ads", "%41ds");
    check("ends.", "ends%2e");
    check(" a~=", "%20a%7e%3d");
    check("caf\u{e9}", "caf%c3%a9");
    check("cafe\u{301}", "cafe%cc%81");
}

// PAR-3
#[test]
fn a_long_part_ends_in_its_hash() {
    let [long, longer] = ["ü".repeat(200), "ü".repeat(201)].map(|part| encode(&part));
    assert_ne!(long, longer);
    for name in [long, longer] {
        assert!(name.len() <= MAX_PART_BYTES, "{name}");
        assert!(name.starts_with("%c3%bc%c3"), "{name}");
        assert_eq!(decode(&name), None);
    }
    assert_eq!(encode(&"a".repeat(200)), "a".repeat(200));
    assert!(encode(&"a".repeat(201)).starts_with(&format!("{}~", "a".repeat(120))));
}

// PAR-3
#[test]
fn the_longest_key_fits_into_an_object_store() {
    let part = "\u{ffff}".repeat(170);
    let key = PartitionKey::new(&part, &part, &part, "9999-12-31".parse().unwrap()).unwrap();
    let place = RunPath::new(&key, &"Z".repeat(64).parse().unwrap());
    let room = 1024 - PAYLOAD.len() - super::super::objects::MAX_PREFIX_BYTES - 2;
    assert!(place.object().len() <= room, "{} of {room}", place.object().len());
}

#[test]
fn only_folders_of_runs_are_runs() {
    let run_id: PartitionRunId = "0198c0de-AB".parse().unwrap();
    let name = format!("{RUN}{}", encode(run_id.as_str()));
    assert_eq!(run_of_folder(&name), Some(run_id));
    for other in ["run_id=AB", "run_id=", "run_id=%2e%2e", "run_id=%6", "tmp", "run_id=a~b"] {
        assert_eq!(run_of_folder(other), None, "{other}");
    }
}

/// Parts that are likely to meet: short, from few characters, and their relatives in case and form.
fn parts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[aA.%/~ \u{e9}\u{301}=\\\\25fFcCoOnN]{1,6}",
        "[\u{fc}a]{180,260}",
    ]
    .prop_filter("parts of keys have a length", |part| {
        !part.is_empty() && part.len() <= redrive_core::MAX_KEY_BYTES && !part.contains('\0')
    })
}

proptest! {
    // PAR-3
    #[test]
    fn a_name_stays_in_its_folder_on_every_file_system(part in parts()) {
        let name = encode(&part);
        prop_assert!(!name.is_empty() && name.len() <= MAX_PART_BYTES);
        prop_assert!(name.bytes().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.%~".contains(&b)
        }), "{}", name);
        prop_assert!(!name.starts_with('.') && !name.ends_with('.'), "{}", name);
        prop_assert!(!is_device(&name), "{}", name);
    }

    // PAR-3
    #[test]
    fn a_name_tells_its_part(part in parts()) {
        let name = encode(&part);
        if !name.contains(HASH_MARK) {
            prop_assert_eq!(decode(&name), Some(part));
        }
    }

    // PAR-3
    #[test]
    fn no_two_parts_share_a_name(a in parts(), b in parts()) {
        prop_assert_eq!(a == b, encode(&a) == encode(&b));
    }

    // PAR-3
    #[test]
    fn no_two_keys_share_a_folder(a in [parts(), parts(), parts()], b in [parts(), parts(), parts()]) {
        let folders = |[source, customer, query]: &[String; 3]| {
            let date = "2026-01-01".parse().unwrap();
            key_folders(&PartitionKey::new(source, customer, query, date).unwrap()).join("/")
        };
        prop_assert_eq!(a == b, folders(&a) == folders(&b));
    }
}
