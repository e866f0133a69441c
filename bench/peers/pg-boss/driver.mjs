// pg-boss: driver.mjs plain|failing|sustained JOBS DATABASE_URL [SECONDS]
// Workers that take large batches one after the other while batches are full. A batch ends as a whole; only where jobs
// fail does each have an end of its own.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { PgBoss } from "pg-boss";

const [mode, jobs, url, seconds] = [process.argv[2], Number(process.argv[3]), process.argv[4], Number(process.argv[5])];
const submitBatch = 1000;
// Jobs that end one by one are slower in larger batches.
const settings = { batchSize: mode === "failing" ? 1000 : 10000, localConcurrency: 2 };
const queue = "noop";

const boss = new PgBoss({ connectionString: url, max: 10, schedule: false });
boss.on("error", (error) => console.error(error));
await boss.start();
await boss.createQueue(queue, { retryLimit: 3, retryDelay: 0 });

async function submit(from, to) {
    for (let first = from; first < to; first += submitBatch) {
        const size = Math.min(submitBatch, to - first);
        const batch = Array.from({ length: size }, (_, index) => ({
            data: { document: "s3://bucket/2026/03/01/part-00017.json", page: 17, n: first + index },
        }));
        await boss.insert(queue, batch);
    }
}
const submitStart = performance.now();
if (mode !== "sustained") await submit(0, jobs);
const submitted_s = (performance.now() - submitStart) / 1000;

const failedOnce = new Set();
let attempts = 0;
let done = 0;
const handle = (job) => {
    attempts += 1;
    if (mode === "failing" && job.data.n % 5 === 0 && !failedOnce.has(job.id)) {
        failedOnce.add(job.id);
        return { id: job.id, status: "failed", output: { message: "the first try of one in five" } };
    }
    done += 1;
    return { id: job.id, status: "completed" };
};
const drainStart = performance.now();
const options = {
    ...settings,
    pollingIntervalSeconds: 0.5,
    burstWhenBatchFull: true,
    perJobResults: mode === "failing",
};
await boss.work(queue, options, async (batch) => {
    const ends = batch.map(handle);
    if (options.perJobResults) return ends;
});
const by_second = mode === "sustained" ? await arrive(submit, () => done) : [];
while (done < jobs || (await left()) > 0) await sleep(2);
const drained_s = (performance.now() - drainStart) / 1000;
if (done !== jobs) throw new Error(`${done} of ${jobs} jobs were done`);

// Submits evenly over a time, and counts what is done in each second until all is done.
async function arrive(submit, done) {
    const start = performance.now();
    const by_second = [];
    for (let [submitted, counted] = [0, 0]; counted < jobs; await sleep(100)) {
        const due = Math.floor(Math.min((performance.now() - start) / 1000 / seconds, 1) * jobs);
        await submit(submitted, due);
        submitted = due;
        const now = done();
        if (performance.now() - start >= (by_second.length + 1) * 1000 || now >= jobs) {
            by_second.push(now - counted);
            counted = now;
        }
    }
    return by_second;
}

async function left() {
    const { rows } = await boss.getDb().executeSql(
        "SELECT count(*)::int AS n FROM pgboss.job WHERE state <> 'completed'",
    );
    return rows[0].n;
}

const manifest = new URL("./node_modules/pg-boss/package.json", import.meta.url);
console.log(
    JSON.stringify({
        version: JSON.parse(readFileSync(manifest)).version,
        settings: Object.entries(settings).map(([name, value]) => `${name} ${value}`).join(", "),
        keeps: "the job and its last output",
        submitted_s: mode === "sustained" ? drained_s : submitted_s,
        drained_s,
        by_second,
        forced_wait_s: 0,
        jobs,
        attempts,
    }),
);
await boss.stop({ graceful: false });
