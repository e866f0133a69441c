//! Worlds of uploads: several processes after one group, a store that fails, kills in the middle, and a
//! receiver that has its moods. When faults end, everything must come to its end.

mod items;

use std::time::Duration;

pub(crate) use self::items::{LEASE, SimulatedItems, Upload};
use super::{
    chance::Chance,
    ground::{Ground, in_virtual_time},
    mutants::Rule,
    seeds::{assert_all_hold, fresh, kept, number},
    weather::Conditions,
};

/// How long faults go on.
const TROUBLE: Duration = Duration::from_secs(600);

/// Lives a world through and says what is wrong with it.
pub(super) fn live(seed: u64, broken: Option<Rule>) -> Vec<String> {
    in_virtual_time(async {
        let mut ground = Ground::new(Chance::new(seed), broken);
        let items = SimulatedItems::new(&mut ground).await;
        trouble(&items, &mut ground).await;
        calm(&items, &mut ground).await;
        ground.check("at the end").await;
        ground.problems.extend(items.judge(&ground).await);
        ground.problems
    })
}

/// Nothing is slow: a call that takes longer than the lease is as good as a frozen process. What is drawn for slowness
/// chooses other weather instead, so that kept seeds still grow into the same worlds.
pub(super) fn some_weather(chance: &mut Chance) -> Conditions {
    let random = Conditions::random(chance);
    match random.slow {
        100 => Conditions::LOST_CLAIMS,
        400 => Conditions::NO_WRITES,
        _ => Conditions { slow: 0, ..random },
    }
}

/// Processes come, meet bad weather, are killed, and come again. Nobody is frozen: what a frozen process
/// sends when it goes on is a matter of the lease's length, not of these rules.
async fn trouble(items: &SimulatedItems, ground: &mut Ground) {
    let mut uploads: Vec<Upload> = Vec::new();
    while ground.clock.elapsed() < TROUBLE {
        match ground.chance.between(0, 3) {
            0 | 1 => uploads.push(items.start_upload(ground)),
            2 => {
                let conditions = some_weather(&mut ground.chance);
                uploads.iter().for_each(|upload| upload.weather.set(conditions));
            }
            _ if uploads.is_empty() => {}
            _ => {
                let at = ground.chance.between(0, uploads.len() as u64 - 1) as usize;
                uploads.swap_remove(at).kill().await;
            }
        }
        let wait = ground.chance.millis(1, 8_000);
        tokio::time::sleep(wait).await;
    }
    for upload in uploads {
        upload.kill().await;
    }
}

/// One upload after the other, in good weather, until nothing is pending.
pub(super) async fn calm(items: &SimulatedItems, ground: &mut Ground) {
    for _ in 0..100 {
        if !items.are_pending(ground).await {
            return;
        }
        _ = items.start_upload(ground).task.await;
        tokio::time::sleep(LEASE).await;
    }
}

// UPL-2, UPL-7, OPS-6
#[test]
fn uploads_keep_their_rules_through_faults_and_finish_everything_in_the_calm() {
    let seeds = kept(include_str!("uploads/seeds.txt")).into_iter().chain(fresh());
    assert_all_hold("uploads", seeds, |seed| live(seed, None));
}

/// Lives through the world of one seed.
#[test]
fn one_seed() {
    let seed = number("REDRIVE_SIM_SEED").unwrap_or(1);
    assert_all_hold("uploads", [seed].into_iter(), |seed| live(seed, None));
}
