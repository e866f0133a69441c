"""Dagster: driver.py partitions COUNT FOLDER

An asset with partitions, materialised one by one in this process on SQLite: no process, no daemon and no queue
stands between two of them, which is the least that Dagster does for a partition with a run of its own.
"""

import json
import logging
import sys
import time

import dagster


def main(mode: str, count: int, folder: str) -> None:
    logging.disable(logging.CRITICAL)
    keys = [f"partition-{number:06}" for number in range(count)]
    done = []

    @dagster.asset(partitions_def=dagster.StaticPartitionsDefinition(["warm", *keys]))
    def extracted(context: dagster.AssetExecutionContext) -> None:
        done.append(context.partition_key)

    quiet = {"telemetry": {"enabled": False}}
    with dagster.DagsterInstance.local_temp(folder, overrides=quiet) as instance:
        dagster.materialize([extracted], partition_key="warm", instance=instance)
        done.clear()
        start = time.perf_counter()
        for key in keys:
            dagster.materialize([extracted], partition_key=key, instance=instance)
        drained_s = time.perf_counter() - start
        recorded = instance.get_materialized_partitions(extracted.key) - {"warm"}
    if sorted(done) != keys or recorded != set(keys):
        raise SystemExit(f"{len(done)} partitions were done and {len(recorded)} recorded, of {count}")
    print(
        json.dumps(
            {
                "version": dagster.__version__,
                "settings": "materialize() in the process, a run for each partition, SQLite",
                "keeps": "each with its run and events",
                "jobs": count,
                "attempts": len(done),
                "submitted_s": 0,
                "drained_s": drained_s,
                "forced_wait_s": 0,
            }
        )
    )


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
