// graphile-worker: driver.mjs plain|failing JOBS DATABASE_URL
// Its guide to performance says what is fast: a local queue, and ends of jobs that are written together. That queue is
// larger here than in its own measurements, because it is faster so.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [mode, jobs, url] = [process.argv[2], Number(process.argv[3]), process.argv[4]];
const submitBatch = 1000;
// More at once is as fast where nothing fails, and faster where something does.
const atOnce = mode === "failing" ? { concurrency: 1000, localQueue: 10000 } : { concurrency: 200, localQueue: 5000 };
const settings = { ...atOnce, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
// A failed job waits for e^attempts seconds; nothing makes it wait for less.
const retryDelay_s = Math.exp(1);

const logger = new Logger(() => () => {});
const pool = new pg.Pool({ connectionString: url, max: 10 });
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

const submitStart = performance.now();
for (let first = 0; first < jobs; first += submitBatch) {
    const size = Math.min(submitBatch, jobs - first);
    const batch = Array.from({ length: size }, (_, index) => ({
        identifier: "noop",
        payload: { document: "s3://bucket/2026/03/01/part-00017.json", page: 17, n: first + index },
    }));
    await utils.addJobs(batch);
}
const submitted_s = (performance.now() - submitStart) / 1000;

let attempts = 0;
let done = 0;
const noop = (payload, helpers) => {
    attempts += 1;
    if (mode === "failing" && payload.n % 5 === 0 && helpers.job.attempts === 1) {
        throw new Error("the first try of one in five");
    }
    done += 1;
};
const drainStart = performance.now();
const runner = await run({
    pgPool: pool,
    taskList: { noop },
    logger,
    noHandleSignals: true,
    preset: {
        worker: {
            concurrentJobs: settings.concurrency,
            pollInterval: 100,
            localQueue: { size: settings.localQueue },
            completeJobBatchDelay: settings.completeJobBatchDelay,
            failJobBatchDelay: settings.failJobBatchDelay,
        },
    },
});
while (done < jobs || (await left()) > 0) await sleep(2);
const drained_s = (performance.now() - drainStart) / 1000;
await runner.stop();
if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`);

// Jobs that are done are deleted.
async function left() {
    const { rows } = await pool.query("SELECT count(*)::int AS n FROM graphile_worker._private_jobs");
    return rows[0].n;
}

const manifest = new URL("./node_modules/graphile-worker/package.json", import.meta.url);
console.log(
    JSON.stringify({
        version: JSON.parse(readFileSync(manifest)).version,
        settings: Object.entries(settings).map(([name, value]) => `${name} ${value}`).join(", "),
        keeps: "nothing: finished jobs are deleted",
        submitted_s,
        drained_s,
        forced_wait_s: mode === "failing" ? retryDelay_s : 0,
        jobs,
        attempts,
    }),
);
await utils.release();
await pool.end();
