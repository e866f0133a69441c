// graphile-worker: driver.mjs documented|tuned PROCESSES plain|failing|sustained JOBS DATABASE_URL [SECONDS]
// Its guide to performance says what is fast: a local queue, and ends of jobs that are written together. The tuned
// queue is larger than in its own measurements, because it is faster so here.

import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [set, mode, url] = [process.argv[2], process.argv[4], process.argv[6]];
const [processes, jobs, seconds] = [Number(process.argv[3]), Number(process.argv[5]), Number(process.argv[7])];
const submitBatch = 1000;
const documented = { concurrency: 24, localQueue: 500 };
// More at once is as fast where nothing fails, and faster where something does.
const tuned = mode === "failing" ? { concurrency: 1000, localQueue: 10000 } : { concurrency: 200, localQueue: 5000 };
const settings = { ...(set === "tuned" ? tuned : documented), completeJobBatchDelay: 0, failJobBatchDelay: 0 };
// A failed job waits for e^attempts seconds; nothing makes it wait for less.
const retryDelay_s = Math.exp(1);

const logger = new Logger(() => () => {});
const pool = new pg.Pool({ connectionString: url, max: 10 });
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
// The counts of each process.
const counts = Array.from({ length: processes }, () => ({ attempts: 0, done: 0 }));
const total = (name) => counts.reduce((sum, count) => sum + count[name], 0);

async function work(count) {
    const noop = (payload, helpers) => {
        count.attempts += 1;
        if (mode === "failing" && payload.n % 5 === 0 && helpers.job.attempts === 1) {
            throw new Error("the first try of one in five");
        }
        count.done += 1;
    };
    const { concurrency, localQueue, ...delays } = settings;
    const worker = { concurrentJobs: concurrency, pollInterval: 100, localQueue: { size: localQueue }, ...delays };
    return await run({ pgPool: pool, taskList: { noop }, logger, noHandleSignals: true, preset: { worker } });
}

if (process.send) {
    // One of several processes: works from when it is told to until it is told to stop.
    const told = () => new Promise((resolve) => process.once("message", resolve));
    process.send(counts[0]);
    await told();
    const runner = await work(counts[0]);
    const report = setInterval(() => process.send(counts[0]), 5);
    await told();
    clearInterval(report);
    await runner.stop();
    await pool.end();
    process.send(counts[0]);
    process.disconnect();
} else {
    await measure();
}

async function measure() {
    const children = [];
    for (let number = 1; number < processes; number += 1) {
        const child = fork(fileURLToPath(import.meta.url), process.argv.slice(2));
        await new Promise((resolve) => child.once("message", resolve));
        child.on("message", (count) => (counts[number] = count));
        children.push(child);
    }
    const utils = await makeWorkerUtils({ pgPool: pool, logger });
    await utils.migrate();

    const submit = async (from, to) => {
        for (let first = from; first < to; first += submitBatch) {
            const size = Math.min(submitBatch, to - first);
            const batch = Array.from({ length: size }, (_, index) => ({
                identifier: "noop",
                payload: { document: "s3://bucket/2026/03/01/part-00017.json", page: 17, n: first + index },
            }));
            await utils.addJobs(batch);
        }
    };
    const submitStart = performance.now();
    if (mode !== "sustained") await submit(0, jobs);
    const submitted_s = (performance.now() - submitStart) / 1000;

    const drainStart = performance.now();
    children.forEach((child) => child.send("start"));
    const runner = await work(counts[0]);
    const by_second = mode === "sustained" ? await arrive(submit, () => total("done")) : [];
    while (total("done") < jobs || (await left()) > 0) await sleep(2);
    const drained_s = (performance.now() - drainStart) / 1000;
    await runner.stop();
    for (const child of children) {
        const ended = new Promise((resolve) => child.once("exit", resolve));
        child.send("stop");
        await ended;
    }
    if (total("done") !== jobs) throw new Error(`${total("done")} of ${jobs} jobs were done`);

    const manifest = new URL("./node_modules/graphile-worker/package.json", import.meta.url);
    const named = Object.entries(settings).map(([name, value]) => `${name} ${value}`);
    console.log(
        JSON.stringify({
            version: JSON.parse(readFileSync(manifest)).version,
            settings: [...named, processes === 1 ? "1 process" : `${processes} processes`].join(", "),
            keeps: "nothing: finished jobs are deleted",
            submitted_s: mode === "sustained" ? drained_s : submitted_s,
            drained_s,
            by_second,
            forced_wait_s: mode === "failing" ? retryDelay_s : 0,
            jobs,
            attempts: total("attempts"),
        }),
    );
    await utils.release();
    await pool.end();
}

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

// Jobs that are done are deleted.
async function left() {
    const { rows } = await pool.query("SELECT count(*)::int AS n FROM graphile_worker._private_jobs");
    return rows[0].n;
}
