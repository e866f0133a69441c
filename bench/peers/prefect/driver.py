"""Prefect: driver.py partitions COUNT FOLDER

A flow with a task for each partition, in this process; the server that a flow starts by itself keeps its SQLite file
in the folder. Done is what that server says is completed.
"""

import asyncio
import json
import os
import sys
import time

mode, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.environ.update(
    PREFECT_HOME=folder,
    PREFECT_LOGGING_LEVEL="CRITICAL",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    PREFECT_SERVER_ALLOW_EPHEMERAL_MODE="true",
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="120",
)

import prefect  # noqa: E402: it reads the environment when it is imported
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter  # noqa: E402

done = []


@prefect.task(retries=3)
async def extract(number: int) -> None:
    done.append(number)


@prefect.flow
async def extract_all(numbers: range) -> str:
    await asyncio.gather(*(extract(number) for number in numbers))
    return str(prefect.runtime.flow_run.id)


async def completed(flow_run: str) -> int:
    async with prefect.get_client() as client:
        runs = await client.read_task_runs(
            flow_run_filter=FlowRunFilter(id={"any_": [flow_run]}),
            task_run_filter=TaskRunFilter(state={"type": {"any_": ["COMPLETED"]}}),
            limit=200,
        )
    return len(runs)


async def main() -> None:
    await extract_all(range(1))  # starts the server
    done.clear()
    start = time.perf_counter()
    flow_run = await extract_all(range(count))
    while await completed(flow_run) < count:
        await asyncio.sleep(0.05)
    drained_s = time.perf_counter() - start
    if len(done) != count:
        raise SystemExit(f"{len(done)} partitions were done, of {count}")
    print(
        json.dumps(
            {
                "version": prefect.__version__,
                "settings": "asynchronous tasks of one flow in the process, its own server, SQLite",
                "keeps": "each with its task run and states",
                "jobs": count,
                "attempts": len(done),
                "submitted_s": 0,
                "drained_s": drained_s,
                "forced_wait_s": 0,
            }
        )
    )


asyncio.run(main())
