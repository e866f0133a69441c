"""huey: driver.py plain|failing JOBS FOLDER

SQLite storage with fsync, the consumer's threads in this process. A task is taken from the file before it runs,
so one that was running when the power went is lost.
"""

import importlib.metadata
import itertools
import json
import logging
import pathlib
import sys
import threading
import time

import huey

WORKERS = 1
PAYLOAD = {"document": "s3://bucket/2026/03/01/part-00017.json", "page": 17}


def main(mode: str, jobs: int, folder: str) -> None:
    logging.disable(logging.CRITICAL)
    queue = huey.SqliteHuey("noop", filename=str(pathlib.Path(folder) / "huey.db"), fsync=True, results=False)
    attempts, done = itertools.count(), itertools.count(1)
    failed_once = set()
    finished = threading.Event()

    @queue.task(retries=1, retry_delay=0)
    def noop(n, document, page):
        next(attempts)
        if mode == "failing" and n % 5 == 0 and n not in failed_once:
            failed_once.add(n)
            raise RuntimeError("the first try of one in five")
        if next(done) == jobs:
            finished.set()

    start = time.perf_counter()
    for n in range(jobs):
        noop(n, **PAYLOAD)
    submitted_s = time.perf_counter() - start

    consumer = queue.create_consumer(workers=WORKERS, periodic=False, check_worker_health=False)
    start = time.perf_counter()
    consumer.start()
    finished.wait()
    drained_s = time.perf_counter() - start
    consumer.stop()
    if (next(done) - 1, len(queue), queue.scheduled_count()) != (jobs, 0, 0):
        raise SystemExit(f"{len(queue)} of {jobs} jobs are left")
    print(
        json.dumps(
            {
                "version": importlib.metadata.version("huey"),
                "settings": f"SqliteHuey, fsync, {WORKERS} thread, no results",
                "keeps": "nothing: a job is deleted before it runs",
                "jobs": jobs,
                "attempts": next(attempts),
                "submitted_s": submitted_s,
                "drained_s": drained_s,
                "forced_wait_s": 0,
            }
        )
    )


main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
