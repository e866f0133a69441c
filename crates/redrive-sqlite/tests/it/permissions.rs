//! What the operating system does not allow. Root is allowed everything, so the store is opened by a
//! process of an ordinary user.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use crate::{child::play_as_ordinary_user, scratch::Scratch};

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Opens as an ordinary user with these permissions on the folder and the file. The refusal must hold
/// these words and the path, and nothing may change.
#[track_caller]
fn check(scratch: &Scratch, folder_mode: u32, file_mode: Option<u32>, words: &[&str]) {
    let before = scratch.snapshot();
    if let Some(mode) = file_mode {
        allow(&scratch.path(), mode);
    }
    allow(scratch.folder(), folder_mode);
    let said = play_as_ordinary_user("open", &scratch.path(), scratch.folder());
    allow(scratch.folder(), 0o700);
    if file_mode.is_some() {
        allow(&scratch.path(), 0o600);
    }
    let [text] = &said[..] else { panic!("one answer: {said:?}") };
    for word in words.iter().copied().chain(scratch.path().to_str()) {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
    assert!(scratch.snapshot() == before, "something changed");
}

#[test]
fn an_ordinary_user_opens_what_is_his() {
    let scratch = Scratch::migrated();
    allow(scratch.folder(), 0o700);
    let said = play_as_ordinary_user("open", &scratch.path(), scratch.folder());
    assert_eq!(said, ["opened"]);
}

// OPS-1
#[test]
fn a_read_only_file_is_refused() {
    check(&Scratch::migrated(), 0o755, Some(0o444), &["read-only", "make it writable"]);
}

// OPS-1
#[test]
fn a_file_without_permission_is_refused() {
    check(
        &Scratch::migrated(),
        0o755,
        Some(0o000),
        &["cannot be opened", "readable and writable for this user"],
    );
}

// OPS-1
#[test]
fn a_file_in_a_read_only_folder_is_refused() {
    check(&Scratch::migrated(), 0o555, Some(0o644), &["folder", "writable for this user"]);
}

// OPS-1
#[test]
fn a_new_file_in_a_read_only_folder_is_refused() {
    check(&Scratch::new(), 0o555, None, &["cannot be written", "make it writable"]);
}

// OPS-1
#[test]
fn a_folder_that_may_not_be_entered_is_refused() {
    check(&Scratch::migrated(), 0o000, None, &["cannot be followed", "permissions"]);
}
