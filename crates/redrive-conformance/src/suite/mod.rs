//! The test suite that every store runs in full.
//!
//! The test binary of a store makes a [`Fixture`] on a fresh database and calls
//! [`conformance_tests!`](crate::conformance_tests) once; each case becomes a test. New store
//! behaviour starts here.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "cases are tests: they fail by panicking, and their names say what they are for"
)]

use std::sync::Arc;

use async_trait::async_trait;

use redrive_store::Store;

pub mod attempt_logs;
pub mod causes;
pub mod claims;
pub mod dead_letters;
pub mod every_column;
pub mod figures;
pub mod finishes;
pub mod gate_kinds;
pub mod gate_protocol;
pub mod gates;
pub mod items;
pub mod journal;
pub mod leases;
pub mod ledger;
pub mod operators;
pub mod partition_actions;
pub mod partition_claims;
pub mod partition_reads;
pub mod partition_verdicts;
pub mod pipeline_runs;
pub mod pipeline_sources;
pub mod plan_ends;
pub mod plan_kinds;
pub mod plan_orders;
pub mod plan_outcomes;
pub mod plans;
pub mod protocol;
pub mod pruning;
pub mod queues;
pub mod runs;
pub mod sample_claims;
pub mod sample_finishes;
pub mod sample_keeping;
pub mod upload_groups;
pub mod whole_store;
pub mod workers;

mod partition_samples;
mod pipeline_samples;
mod samples;

/// A store on a fresh database, and a way past it.
pub struct Fixture {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// The database itself, to try what the store would never do.
    pub raw: Box<dyn RawSql>,
}

/// A connection to the database under a store.
#[async_trait]
pub trait RawSql: Send + Sync {
    /// Runs one statement. The error is the database's own text.
    async fn execute(&self, sql: &str) -> Result<(), String>;
}

/// Makes a test of every case. Takes an async function that returns a [`Fixture`].
#[macro_export]
macro_rules! conformance_tests {
    ($fresh:path) => {
        $crate::conformance_tests! { @modules $fresh;
            runs {
                submitted_runs_get_ids_that_grow_with_their_order
                a_submitted_run_reads_back_as_it_was_given
                a_run_whose_time_has_come_is_ready_and_keeps_the_time
                the_same_content_under_an_idempotency_key_is_a_no_op
                other_content_under_an_idempotency_key_is_refused
                an_idempotency_key_is_unique_per_queue_alone
                one_batch_may_repeat_a_key
                two_submitters_of_one_key_make_one_run
                unknown_ids_are_left_out
                pages_of_runs_are_bounded_in_bytes
                pages_cover_every_run_once_in_both_orders
                filters_match_exactly
                empty_batches_do_nothing
            }
            claims {
                the_oldest_submitted_run_comes_first_and_ties_go_by_id
                retries_and_new_runs_compete_by_submission
                only_allowed_categories_are_claimed
                a_claim_takes_no_more_than_its_limit
                a_claim_leaves_other_queues_alone
                a_run_is_not_claimed_before_its_time
                a_retry_is_not_claimed_before_its_time
                a_crowd_of_due_runs_hides_no_allowed_category
                a_claim_raises_the_epoch_and_sets_the_lease
                a_claim_of_named_categories_sets_the_lease_and_its_time
                starting_clears_the_next_retry_and_keeps_the_count
                claims_at_once_never_share_a_run
                names_are_data
            }
            finishes {
                a_verdict_is_stored_and_clears_the_retry_fields
                a_scheduled_retry_counts_and_waits
                a_retry_that_is_due_when_it_is_written_is_claimable_at_once
                a_wait_for_a_hint_is_not_counted
                giving_up_leaves_the_error_and_tells_the_journal_why
                a_stale_lease_cannot_finish_a_run
                a_run_is_finished_once
                a_stale_finish_does_not_disturb_its_batch
                ledger_numbers_run_without_gaps
                a_lost_worker_is_told_in_the_journal
                foreign_text_is_kept_whatever_it_holds
            }
            leases {
                a_renewed_lease_ends_later
                an_ended_lease_says_when_its_unit_was_claimed
                a_worker_finds_its_own_leases
                a_renewal_never_brings_the_end_of_a_lease_nearer
                a_lost_lease_cannot_be_renewed
                ended_leases_are_found_page_by_page
                the_next_lease_end_is_the_earliest_that_is_still_to_come
                a_released_run_is_claimable_at_once_and_uncounted
                a_lost_lease_cannot_be_released
                a_lease_of_every_kind_is_known_by_its_id_and_its_epoch
            }
            operators {
                an_operator_moves_a_run_only_from_where_it_may
                a_retried_run_begins_a_new_count
                a_retried_run_can_be_given_up_again
                a_retry_ends_every_wait
                a_cancelled_run_is_never_claimed
                a_cancelled_running_run_refuses_its_worker
                a_cancelled_run_that_is_retried_still_refuses_its_old_worker
                a_finish_and_a_cancel_at_once_are_not_both_done
                a_run_named_twice_is_changed_once_and_answers_come_in_order
                operators_are_told_in_the_journal
                an_edit_replaces_the_payload_that_was_seen
            }
            gate_protocol {
                every_step_of_the_gate_protocol_comes_out_as_in_its_model
            }
            protocol {
                every_step_of_the_protocol_comes_out_as_in_its_model
            }
            gates {
                declared_gates_read_back_and_have_rows
                a_rate_limited_run_closes_its_key_for_every_claim
                one_probe_runs_and_its_answer_opens_the_gate_in_steps
                a_refused_probe_closes_the_gate_for_longer
                a_lost_probe_leaves_its_place
                concurrency_is_never_exceeded_over_all_claims
                a_rate_gives_start_times_one_after_another
                two_rates_waste_no_start_times
                a_gate_that_its_places_leave_opens
                a_key_that_nothing_passes_opens
                a_trip_closes_a_gate_after_too_many_failures
                operators_close_and_open_gates
                no_claim_after_a_closing_takes_a_run_behind_it
                a_run_passes_all_of_its_gates
            }
            gate_kinds {
                a_rate_limited_partition_closes_the_gate_for_its_customer
                partitions_keep_to_a_concurrency_over_both_lanes
                lanes_share_what_a_gate_lets_through
                a_rate_limited_sample_closes_the_gate_for_the_key_in_its_data
                a_claim_keys_few_samples_and_the_next_ones_go_on
                a_gate_that_closes_counts_samples_that_were_claimed_while_it_was_open
                a_gate_that_is_divided_otherwise_strands_nothing
                items_pass_gates_with_their_group_as_the_key
                items_that_are_not_sent_give_back_their_places
                a_gate_before_items_opens_up_to_what_is_sent_at_once
                the_lease_of_a_dead_upload_ends_and_with_it_the_places_of_its_items
                a_lost_unit_of_any_kind_gives_back_its_place
            }
            queues {
                nothing_is_claimed_from_a_paused_queue
                what_is_running_in_a_paused_queue_goes_on
                a_queue_is_paused_once_and_resumed_once
                paused_queues_are_listed_by_name
                a_name_that_no_queue_can_have_is_refused
                stats_tell_how_every_queue_stands
                the_backlog_is_what_a_queue_has_to_do
                the_backlog_sees_the_named_categories_alone
                whatever_may_be_claimed_wakes_who_listens
            }
            partition_claims {
                a_claimed_partition_is_held_for_its_run
                a_partition_has_one_live_attempt
                claims_of_partitions_at_once_never_share_one
                lanes_share_a_claim_by_weight_and_what_one_leaves_the_other_gets
                the_oldest_request_of_a_lane_comes_first
                a_claim_leaves_other_sources_alone
                a_paused_partition_is_not_claimed
                pausing_what_is_held_lets_it_end_and_holds_back_what_comes
                a_renewed_lease_of_a_partition_ends_later_and_a_lost_one_does_not
                what_a_lost_worker_held_is_found_page_by_page_and_read_back
                a_released_partition_is_claimable_at_once_and_uncounted
                a_lost_partition_cannot_be_released
                the_backlog_of_a_source_is_what_it_has_to_do
                whatever_partition_may_be_claimed_wakes_who_listens
            }
            partition_verdicts {
                an_accepted_partition_names_its_run
                a_rejected_partition_says_why_and_has_no_run
                every_verdict_counts_once_and_numbers_have_no_gaps
                a_reprocess_that_fails_leaves_the_success_as_it_was
                a_reprocess_that_succeeds_replaces_the_run
                a_fenced_reprocess_changes_nothing
                an_older_run_never_takes_authority_back
                only_who_holds_a_partition_for_a_run_can_judge_it
                a_lost_workers_partition_is_judged_and_told_in_the_journal
                a_late_verdict_on_a_failed_partition_only_counts
                no_verdict_can_write_the_terminal_mark
                foreign_text_about_a_partition_is_kept_whatever_it_holds
                a_verdict_a_release_and_the_reaper_at_once_end_an_attempt_once
                a_paused_reprocess_keeps_the_success_and_the_pause
            }
            partition_actions {
                a_partition_moves_only_from_where_it_may
                a_retry_leaves_counts_runs_and_history_alone
                a_retry_of_what_is_pending_says_so_and_does_nothing
                a_terminal_partition_is_passed_over_unless_its_mark_is_cleared
                a_cleared_mark_leaves_a_failed_partition
                a_backfill_respects_what_is_there
                a_partition_named_twice_is_changed_once_and_answers_come_in_order
                what_has_changed_since_it_was_seen_is_left_alone
                daemons_and_an_operator_at_once_retry_each_partition_once
                backfills_at_once_make_each_entry_once
                a_partition_is_paused_once_and_resumed_once
                the_journal_tells_who_did_what_to_which_partition
                giving_up_on_a_partition_is_told_once_per_count
                a_retry_and_a_verdict_at_once_are_not_mixed_up
                marking_keeps_whatever_the_message_was
            }
            partition_reads {
                hostile_keys_are_kept_apart_and_matched_exactly
                every_filter_gives_what_a_plain_search_gives
                failed_partitions_come_page_by_page_while_they_change
                no_entry_is_said_and_none_is_invented
                partitions_come_by_id_beside_the_ledger
                the_days_of_a_series_are_those_that_have_an_entry
                partitions_are_counted_by_source_and_status
                the_database_refuses_partitions_that_make_no_sense
            }
            pipeline_runs {
                a_run_that_no_worker_could_finish_is_refused
                a_pipeline_run_reads_back_as_it_was_given
                pipeline_runs_come_in_both_orders_and_filters_match_exactly
                a_run_is_what_its_samples_come_to
                a_run_is_stopped_at_the_very_sample_that_exceeds_its_budget
                excluded_failures_and_too_few_samples_stop_nothing
                a_cancelled_run_gives_nothing_and_lets_what_is_held_end
                a_run_that_is_over_is_not_stopped_or_resumed
                a_stopped_run_with_nothing_left_is_over_when_it_is_resumed
                stages_tell_where_samples_are_and_how_they_fared
            }
            pipeline_sources {
                a_source_is_read_by_one_who_holds_it
                claims_of_sources_at_once_are_granted_to_one
                a_source_is_moved_only_while_nobody_reads_it
                samples_and_the_position_are_stored_together
                pages_of_samples_are_bounded_in_bytes
                a_line_that_is_no_sample_is_a_dead_letter_at_once
                dead_lines_of_a_source_count_against_the_budget
                a_source_that_cannot_be_read_stops_its_run
                lines_that_were_read_come_page_by_page
            }
            sample_claims {
                samples_are_claimed_in_their_order_and_no_more_than_the_limit
                due_retries_come_before_what_is_new_and_none_before_its_time
                the_longest_waiting_retries_are_taken_first
                a_claim_leaves_other_stages_pipelines_and_stopped_runs_alone
                runs_are_served_one_after_the_other_or_one_alone
                claims_at_once_never_share_a_sample
                leases_of_samples_are_renewed_and_lost
                a_released_sample_is_claimable_at_once_and_uncounted
                the_lease_on_a_source_is_renewed_lost_and_released
                the_backlog_of_a_pipeline_is_what_its_runs_have_to_do
                whatever_sample_may_be_claimed_wakes_who_listens
            }
            sample_keeping {
                a_sample_that_is_kept_goes_on_in_the_same_hands
                only_what_goes_on_to_another_stage_is_kept
                nobody_keeps_a_sample_of_a_run_that_was_stopped
                the_lease_of_a_kept_sample_is_like_any_other
            }
            sample_finishes {
                a_sample_goes_through_its_stages_one_after_the_other
                a_failure_waits_by_what_was_decided
                a_sample_that_is_passed_over_ends_there
                a_dead_letter_keeps_stage_error_attempts_and_time
                a_stale_finish_of_a_sample_disturbs_nothing
                a_sample_that_was_handed_on_is_lost_to_who_had_it
                a_lost_workers_sample_is_told_in_the_journal
                samples_ended_at_once_are_all_counted_and_the_budget_is_looked_at_once
                foreign_text_of_a_sample_is_kept_whatever_it_holds
            }
            dead_letters {
                a_dead_letter_comes_back_to_its_stage_with_a_new_count
                only_dead_letters_come_back_each_once_and_answers_come_in_order
                a_stopped_run_stays_so_when_its_dead_letters_come_back
                operators_at_once_bring_each_dead_letter_back_once
                samples_are_found_by_everything_that_is_given
                dead_letters_are_grouped_by_what_they_died_of
                an_edit_replaces_the_data_of_a_dead_letter_that_was_seen
                a_dead_letter_that_is_read_again_starts_at_the_first_stage
                the_database_refuses_samples_and_runs_that_make_no_sense
            }
            causes {
                a_cause_has_the_units_and_the_attempts_of_all_kinds
                units_of_every_kind_are_selected_by_their_last_failure
                a_stale_finish_is_not_counted_under_a_cause
                a_unit_that_recovers_leaves_its_cause
                a_fixed_cause_that_comes_back_is_reported_once
                causes_are_listed_by_what_they_stop
                a_cause_of_one_kind_says_when_and_where_that_kind_failed_last
                counts_that_are_not_those_of_the_ledger_are_found
                counts_of_hours_are_pruned_and_causes_stay
            }
            plan_ends {
                a_failure_counts_though_the_run_was_retried_and_passed
                a_run_that_others_began_anew_before_it_ended_has_no_outcome_yet
                a_failure_counts_though_the_partition_was_retried_and_is_good
                a_failure_counts_though_the_sample_was_reprocessed
            }
            plan_kinds {
                a_plan_retries_partitions_and_knows_what_became_of_them
                a_plan_skips_what_was_refused_since_with_the_reason
                an_undo_returns_partitions_that_no_worker_has_started
                a_plan_reprocesses_partitions_that_stay_good
                a_plan_resets_items_and_returns_them
                a_plan_reprocesses_dead_letters_and_reopens_their_run
            }
            plan_outcomes {
                outcomes_are_counted_by_period
            }
            plan_orders {
                a_plan_is_ordered_only_from_where_it_may
                an_undo_returns_units_that_nobody_has_touched_since
                an_undo_returns_units_that_were_claimed_and_released_before_they_started
                a_plan_that_tries_nothing_again_has_nothing_to_watch_or_undo
                a_draft_keeps_its_settings_and_a_canary_is_smaller_than_its_plan
                an_undo_without_pending_units_is_refused_and_keeps_the_status
                a_resume_keeps_the_reason_and_an_undo_has_its_own
                plans_that_run_are_listed_whatever_ended_since
            }
            plans {
                a_draft_lists_its_units_and_changes_nothing
                a_unit_is_listed_once_and_an_incomplete_list_is_not_applied
                a_draft_can_be_discarded
                a_plan_changes_only_units_that_are_as_they_were_frozen
                a_step_that_comes_late_changes_nothing
                units_that_are_skipped_cost_no_place_in_a_step
                a_lost_executor_changes_nothing
                an_executor_ends_a_plan_and_says_why
                what_became_of_units_is_known_by_cause
                pending_units_are_settled_page_by_page
                steps_claims_and_operators_at_once_change_each_unit_once
                a_plan_of_a_newer_version_holds_up_no_other
            }
            items {
                an_item_reads_back_as_it_was_given
                the_same_item_again_is_a_no_op_and_another_is_refused
            the_journal_says_who_added_an_item_and_nothing_of_one_that_was_there
                a_name_that_cannot_be_kept_is_refused_with_its_batch
                pending_items_come_page_by_page
                counting_an_attempt_returns_the_new_count
                attempts_counted_at_once_are_all_counted
                an_unknown_item_is_not_counted
                an_item_moves_only_from_where_it_may
                a_move_tells_the_journal_once
                a_reset_records_the_count_and_keeps_it
                a_replacement_changes_the_content_that_was_seen
                items_that_were_not_acknowledged_can_be_dropped
                attempts_at_an_item_are_in_the_ledger_with_the_move
                a_rejection_that_names_the_attempt_before_is_written_once
                attempts_at_one_item_at_once_get_numbers_without_gaps
                items_are_found_by_upload_group_and_status
                items_of_a_group_are_counted_by_status
                two_hundred_attempts_at_many_items_are_all_counted
            }
            upload_groups {
                a_held_group_is_refused_until_its_lease_ends
                a_released_group_can_be_taken_at_once
                a_group_that_was_taken_over_is_lost_to_who_held_it
                claims_of_one_group_at_once_are_granted_to_one
                ended_leases_of_groups_are_found
            }
            ledger {
                attempts_read_back_as_they_were_given
                a_number_is_given_once_and_a_refused_batch_leaves_nothing
                stages_are_numbered_by_themselves
                attempts_come_page_by_page
                the_ledger_of_a_kind_comes_page_by_page
                the_database_refuses_to_change_the_ledger
            }
            journal {
                entries_come_in_the_order_they_were_written
                pages_of_the_journal_are_bounded_in_bytes
                an_entry_with_a_known_key_is_ignored
                entries_are_found_by_unit_and_action
                the_database_refuses_to_change_the_journal
                a_new_reader_begins_at_the_end_and_goes_on_from_where_it_was
                readers_at_once_note_one_place
            }
            figures {
                the_change_token_changes_with_every_write_and_not_without
                what_was_attempted_is_counted_by_minute_from_where_one_left_off
                runs_are_counted_by_how_long_they_waited
                the_journal_is_read_from_its_end
                items_are_counted_over_all_uploads
            }
            attempt_logs {
                logs_read_back_as_they_were_given_each_with_its_attempt
                a_later_log_replaces_an_earlier_one_and_never_the_other_way
            }
            workers {
                a_worker_is_listed_as_it_reported_last_until_it_stops
                a_worker_that_was_silent_for_a_day_is_removed_by_the_next_report
                counts_of_attempts_are_added_up_by_period_and_place
                counts_of_attempts_are_kept_for_the_charts_that_read_them
                counts_that_are_reported_at_once_are_all_counted
            }
            pruning {
                only_what_is_finished_and_old_may_go
                a_pruned_run_takes_its_ledger_along_and_frees_its_key
                what_has_changed_since_it_was_written_down_stays
                nothing_leaves_the_ledger_unless_the_journal_tells_of_it
                a_pipeline_run_still_counts_its_samples_that_are_gone
                prunes_at_once_remove_each_unit_once
                a_unit_is_pruned_by_its_id_its_attempts_and_its_epoch
                plans_that_have_ended_are_pruned_in_pages
                drafts_that_were_never_completed_are_pruned
            }
            every_column {
                a_run_has_every_column_as_it_was_written
                a_sample_has_every_column_as_it_was_written
                a_partition_has_every_column_as_it_was_written
                an_item_has_every_column_as_it_was_written
                ledger_and_journal_have_every_column_as_it_was_written
            }
            whole_store {
                the_lease_clock_does_not_go_back
                a_fresh_store_answers_and_is_sound
                an_open_store_has_every_migration
                a_failed_call_leaves_nothing_and_the_next_one_works
            }
        }
    };
    (@modules $fresh:path; $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = $fresh().await;
                    $crate::suite::$module::$case(&fixture).await;
                }
            )*
        })*
    };
}
