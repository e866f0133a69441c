"""procrastinate: driver.py plain|failing JOBS DATABASE_URL

Each job is fetched and finished by itself: it has no batches. So several workers of one process take turns at the disk.
"""

import asyncio
import importlib.metadata
import json
import logging
import sys
import time

import procrastinate

WORKERS, CONCURRENCY = 8, 10
SUBMIT_BATCH = 1_000
PAYLOAD = {"document": "s3://bucket/2026/03/01/part-00017.json", "page": 17}


async def main(mode: str, jobs: int, url: str) -> None:
    logging.disable(logging.CRITICAL)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=20))
    counted = {"attempts": 0, "done": 0}

    @app.task(name="noop", pass_context=True, retry=procrastinate.RetryStrategy(max_attempts=3, wait=0))
    async def noop(context, n, document, page):
        counted["attempts"] += 1
        if mode == "failing" and n % 5 == 0 and context.job.attempts == 0:
            raise RuntimeError("the first try of one in five")
        counted["done"] += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        start = time.perf_counter()
        for first in range(0, jobs, SUBMIT_BATCH):
            batch = ({**PAYLOAD, "n": n} for n in range(first, min(first + SUBMIT_BATCH, jobs)))
            await noop.batch_defer_async(*batch)
        submitted_s = time.perf_counter() - start

        start = time.perf_counter()
        options = {"wait": False, "concurrency": CONCURRENCY, "listen_notify": False, "install_signal_handlers": False}
        while counted["done"] < jobs:
            await asyncio.gather(*(app.run_worker_async(**options) for _ in range(WORKERS)))
        drained_s = time.perf_counter() - start
        succeeded = await app.connector.execute_query_one_async(
            "SELECT count(*) AS n FROM procrastinate_jobs WHERE status = 'succeeded'"
        )
    if (succeeded["n"], counted["done"]) != (jobs, jobs):
        raise SystemExit(f"{succeeded['n']} jobs succeeded and {counted['done']} were done, of {jobs}")
    print(
        json.dumps(
            {
                "version": importlib.metadata.version("procrastinate"),
                "settings": f"{WORKERS} workers, concurrency {CONCURRENCY} each, 20 connections",
                "keeps": "the job and a row for every change of its status",
                "jobs": jobs,
                "attempts": counted["attempts"],
                "submitted_s": submitted_s,
                "drained_s": drained_s,
                "forced_wait_s": 0,
            }
        )
    )


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
