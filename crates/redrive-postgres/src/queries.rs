//! Every statement the store runs, one file each.

macro_rules! queries {
    ($($name:ident => $file:literal,)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../queries/", $file, ".sql"));)*

        /// Every statement with the name of its file, so that tests can prepare each of them.
        pub const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

queries! {
    INSERT_RUNS => "insert_runs",
    IDEMPOTENT_RUNS => "idempotent_runs",
    PROMOTE_DUE_RUNS => "promote_due_runs",
    CLAIM_RUNS_ANY => "claim_runs_any",
    CLAIM_RUNS_OF => "claim_runs_of",
    FINISH_RUNS => "finish_runs",
    RUNS_BY_ID => "runs_by_id",
    RUNS_PAGE => "runs_page",
    STATES_OF_RUNS => "states_of_runs",
    RETRY_RUNS => "retry_runs",
    CANCEL_RUNS => "cancel_runs",
    QUEUE_STATS => "queue_stats",
    PAUSE_QUEUE => "pause_queue",
    RESUME_QUEUE => "resume_queue",
    PAUSED_QUEUES => "paused_queues",
    OUTLOOK_ANY => "outlook_any",
    OUTLOOK_OF => "outlook_of",
    RENEW_RUN_LEASES => "renew_run_leases",
    EXPIRED_RUN_LEASES => "expired_run_leases",
    NEXT_RUN_LEASE_END => "next_run_lease_end",
    HAND_BACK_RUNS => "hand_back_runs",
    INSERT_PARTITIONS => "insert_partitions",
    LOCK_PARTITIONS => "lock_partitions",
    LOCK_PARTITION_WORK => "lock_partition_work",
    CLAIMABLE_PARTITIONS => "claimable_partitions",
    CLAIM_PARTITIONS => "claim_partitions",
    WRITE_PARTITIONS => "write_partitions",
    PUT_PARTITION_WORK => "put_partition_work",
    REMOVE_PARTITION_WORK => "remove_partition_work",
    PARTITIONS_BY_KEY => "partitions_by_key",
    PARTITIONS_BY_ID => "partitions_by_id",
    PARTITIONS_AT_WORK => "partitions_at_work",
    PARTITIONS_PAGE => "partitions_page",
    FAILED_PARTITIONS_PAGE => "failed_partitions_page",
    PARTITION_DATES => "partition_dates",
    PARTITION_COUNTS => "partition_counts",
    PARTITION_OUTLOOK => "partition_outlook",
    RENEW_PARTITION_LEASES => "renew_partition_leases",
    EXPIRED_PARTITION_LEASES => "expired_partition_leases",
    NEXT_PARTITION_LEASE_END => "next_partition_lease_end",
    HAND_BACK_PARTITIONS => "hand_back_partitions",
    INSERT_ITEMS => "insert_items",
    NAMED_ITEMS => "named_items",
    ITEMS_BY_ID => "items_by_id",
    PENDING_ITEMS => "pending_items",
    INCREMENT_UPLOAD_ATTEMPTS => "increment_upload_attempts",
    MOVE_ITEMS => "move_items",
    INSERT_ATTEMPTS => "insert_attempts",
    ATTEMPTS_OF => "attempts_of",
    LEDGER_PAGE => "ledger_page",
    INSERT_JOURNAL => "insert_journal",
    JOURNAL_PAGE => "journal_page",
    JOURNAL_OF_UNIT => "journal_of_unit",
    READ_SERVER_CLOCK => "read_server_clock",
    INTEGRITY_PROBLEMS => "integrity_problems",
}
