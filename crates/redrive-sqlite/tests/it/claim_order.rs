//! The claim takes what a plain sort would.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::RunId;
use redrive_store::{Categories, ClaimRequest, Runs as _};

use crate::scratch::{Scratch, accepted, at, claim, new_run};

const CATEGORIES: [&str; 6] = ["", "a", "b", "ba", "c", "\u{10ffff}"];

/// Numbers that look like chance and are the same every time.
struct OrderRng(u64);

impl OrderRng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

// RUN-2
#[tokio::test]
async fn claims_take_the_oldest_allowed_runs_whatever_the_mix() {
    for seed in 1..=12 {
        let mut dice = OrderRng(seed);
        let scratch = Scratch::new();
        let store = scratch.open_inline();
        let kinds = 1 + dice.below(CATEGORIES.len());
        // Few moments, so that many runs share one.
        let moments = 1 + dice.below(40);
        let new: Vec<_> = (0..150)
            .map(|_| {
                let category = CATEGORIES[dice.below(kinds)];
                new_run(category, at(dice.below(moments) as i64))
            })
            .collect();
        let submitted = store.submit_runs(&new, at(100)).await.unwrap();
        // What a plain sort makes of it: time, then id.
        let mut waiting: BTreeMap<(Timestamp, RunId), String> = submitted
            .into_iter()
            .zip(&new)
            .map(|(id, run)| ((run.submitted_at(), accepted(id)), run.category().to_owned()))
            .collect();

        for _ in 0..30 {
            let limit = dice.below(30);
            let categories = match dice.below(3) {
                0 => Categories::All,
                _ => {
                    let some = CATEGORIES.iter().filter(|_| dice.below(2) == 0);
                    Categories::Only(some.map(|&name| name.to_owned()).collect())
                }
            };
            let allowed = |category: &String| match &categories {
                Categories::All => true,
                Categories::Only(names) => names.contains(category),
            };
            let expected: Vec<_> = waiting
                .iter()
                .filter(|(_, category)| allowed(category))
                .map(|(key, _)| *key)
                .take(limit)
                .collect();
            let request = ClaimRequest { categories: categories.clone(), ..claim(limit as u32) };
            let claimed = store.claim_runs(&request).await.unwrap();
            let taken: Vec<_> = claimed.iter().map(|run| (run.submitted_at, run.id)).collect();
            assert_eq!(taken, expected, "seed {seed}");
            taken.iter().for_each(|key| drop(waiting.remove(key)));
        }
    }
}
