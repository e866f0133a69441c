"""Redrive: driver.py plain|failing|sustained|partitions COUNT PLACE [SECONDS]. Runs `redrive-bench workload` and prints its figures as the other drivers do."""

import json
import os
import pathlib
import subprocess
import sys

WORK = {"plain": "runs", "failing": "failing-runs", "sustained": "sustained", "partitions": "partitions"}
CONNECTIONS = 2


def main(mode: str, count: int, place: str, *seconds: str) -> None:
    store = place if "://" in place else f"sqlite:{pathlib.Path(place) / 'redrive.db'}"
    # As Dagster does; Prefect does all partitions at once.
    at_once = 1 if mode == "partitions" else 1024 if "://" in place else 256
    settings = ["--concurrency", str(at_once), "--connections", str(CONNECTIONS)]
    settings += ["--seconds", *seconds] if seconds else []
    measured = run("workload", WORK[mode], "--count", str(count), *settings, "--store", store, "-o", "json")
    rows = json.loads(measured)
    value = {row["measure"]: row["value"] for row in rows}
    print(
        json.dumps(
            {
                "version": run("--version").split()[-1],
                "settings": f"{at_once} at once" + (f", {CONNECTIONS} connections" if "://" in place else ""),
                "keeps": "each with a row for every attempt",
                "jobs": int(value["done"]),
                "attempts": int(value["handled"]),
                "submitted_s": value["submitted in"],
                "drained_s": value["drained in"],
                "by_second": [row["value"] for row in rows if row["measure"] == "in a second"],
                "forced_wait_s": 0,
            }
        )
    )


def run(*arguments: str) -> str:
    program = os.environ["REDRIVE_PROGRAM"]
    return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
