use super::*;

/// Takes `rounds` times `limit` partitions while both lanes have plenty; says how many were backfill.
fn taken(shares: &LaneShares, limit: u32, rounds: u32) -> u32 {
    let round = |_| {
        let backfill = shares.of_backfill().quota(limit);
        let lane = |at| if at < backfill { Lane::Backfill } else { Lane::Fresh };
        shares.record_claim(limit, (0..limit).map(lane));
        backfill
    };
    (0..rounds).map(round).sum()
}

// PAR-10
#[test]
fn each_lane_gets_its_share_over_time_however_many_are_taken_at_once() {
    for (share, limit) in [(0.3, 1), (0.3, 7), (0.01, 1), (0.99, 1), (0.5, 3), (0.3, 1_000)] {
        let rounds = 1_000 / limit + 1;
        let backfill = taken(&LaneShares::new(share), limit, rounds);
        let fair = share * f64::from(limit * rounds);
        assert!((f64::from(backfill) - fair).abs() <= 1.0, "{share} {limit}: {backfill}, {fair}");
    }
}

// PAR-10
#[test]
fn a_lane_that_was_empty_is_owed_one_partition_at_most() {
    let shares = LaneShares::new(0.5);
    for _ in 0..1_000 {
        shares.record_claim(4, [Lane::Fresh; 4]);
    }
    assert_eq!(taken(&shares, 4, 100), 201);
    for _ in 0..1_000 {
        shares.record_claim(4, [Lane::Backfill; 4]);
    }
    assert_eq!(taken(&shares, 4, 100), 199);
}

// PAR-10
#[test]
fn nothing_is_owed_where_everything_was_taken() {
    let shares = LaneShares::new(0.3);
    shares.record_claim(1, [Lane::Fresh]);
    shares.record_claim(10, [Lane::Fresh; 3]);
    assert_eq!(shares.of_backfill().quota(3), 0);
}
