//! Fresh data and backfill beside each other.

use redrive::store::Lane;

use super::yard::Yard;

// PAR-10
#[test]
fn neither_fresh_data_nor_backfill_starves() {
    for yard in Yard::both() {
        // Backfill was asked for long before: by time alone it would come first.
        let day = |day: usize| format!("2026-{:02}-{:02}", 1 + day / 28, 1 + day % 28);
        for n in 0..100 {
            yard.ask_in(Lane::Backfill, &format!("ads/old/empty/{}", day(n)));
        }
        for n in 0..100 {
            yard.ask_in(Lane::Fresh, &format!("ads/new/empty/{}", day(n)));
        }
        let arguments = ["worker", "--drain", "-q", "-q", "--concurrency", "1"];
        yard.shop.run(&arguments).ok();
        // In the order in which they were judged.
        let keys = (0..100).flat_map(|n| {
            [format!("ads/old/empty/{}", day(n)), format!("ads/new/empty/{}", day(n))]
        });
        let mut ended: Vec<_> = keys
            .map(|key| yard.record(&key.parse().unwrap()))
            .map(|record| (record.current_run_id.unwrap(), record.key.customer_id().to_owned()))
            .collect();
        ended.sort();
        let old = ended[..100].iter().filter(|(_, customer)| customer == "old").count();
        // A claim takes its fresh ones first and may reach beyond the hundredth.
        assert!((15..=45).contains(&old), "three of ten go to backfill: {old} of 100");
    }
}
