"""Runs the contests in rounds, each peer in turn, and has the report written. Started by scripts/peers.

Some contests alone replace their part of the page, if the other parts are of the same machine.

    run.py CACHE [--rounds N] [--jobs N] [--seconds N] [--only PEER]… [--contest CONTEST]… [--print]

Peers take turns within a round, so that a slow minute of the machine hits all of them. Every turn has a
database or a folder of its own.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading

import machine
import report
from contests import CONTESTS, JOBS, SECONDS, Contest, Peer

SOURCE = pathlib.Path(__file__).resolve().parent
ROOT = SOURCE.parent.parent
RECORDED = ROOT / "docs/benchmarks/results.json"
TURN_LIMIT_S = 240
DEAD_ROWS_INTERVAL_S = 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/peers")
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--contest", action="append", default=[])
    parser.add_argument("--print", action="store_true")
    arguments = parser.parse_args()

    server = os.environ["REDRIVE_TEST_POSTGRES_URL"]
    results = {
        "machine": machine.described(arguments.cache),
        "postgres": machine.postgres(server),
        "rounds": arguments.rounds,
        "jobs": arguments.jobs,
        "seconds": arguments.seconds,
    }
    named = arguments.contest or [contest.name for contest in CONTESTS]
    writes = not arguments.print and not arguments.only
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    results["dates"], others = recorded_contests(results) if arguments.contest and writes else ({}, {})
    results["dates"] |= {name: today for name in named}
    results["contests"] = {contest.name: {} if contest.name in named else others.get(contest.name, {}) for contest in CONTESTS}
    for round_number in range(1, arguments.rounds + 1):
        for contest in CONTESTS:
            if round_number > (contest.rounds or round_number) or contest.name not in named:
                continue
            entries = results["contests"][contest.name]
            for peer in contest.peers:
                if not takes_part(peer, arguments.only):
                    continue
                entry = entries.setdefault(peer.name, {"rounds": []})
                if "failed" in entry:
                    continue
                count, seconds = round(contest.count * peer.share * arguments.jobs / JOBS), ()
                if contest.half_of:
                    rate = half_rate(results["contests"][contest.half_of].get(peer.name, {}))
                    count, seconds = round(rate * arguments.seconds), (arguments.seconds,)
                    entry["free"] = [{"drained_s": arguments.seconds, "forced_wait_s": 0}]
                # Without the open transaction first; a load needs no turn to be known.
                for held in (False, True)[bool(contest.half_of) : 1 + contest.held]:
                    say(f"round {round_number} of {arguments.rounds}, {contest.name}, {peer.name}: ")
                    took = turn(contest, peer, arguments.cache, server, held, max(1, count), *seconds)
                    say(took.get("failed") or report.figure(contest, took))
                    say("\n")
                    record(entry, took, "free" if contest.held and not held else "rounds")
                    if "failed" in took:
                        break

    results["contests"] = {name: entries for name, entries in results["contests"].items() if entries}
    recorded = json.dumps(results, indent=1) + "\n"
    (arguments.cache / "results.json").write_text(recorded)
    print(report.table(results))
    if writes:
        RECORDED.parent.mkdir(exist_ok=True)
        RECORDED.write_text(recorded)
        report.write(results, ROOT / "docs")
        say("written: docs/benchmarks.md\n")


def recorded_contests(results: dict) -> tuple[dict, dict]:
    """When contests were run that are not run again, and what came of them. Figures of another machine do not stand beside new
    ones."""
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    same = all(
        describe(recorded) == describe(results)
        for describe in (
            lambda it: it.get("jobs"),
            lambda it: {name: value for name, value in it.get("machine", {}).items() if name != "fsync_ms"},
            lambda it: it.get("postgres"),
        )
    )
    if not same:
        say("docs/benchmarks.md has figures of another machine or number of jobs; they are dropped\n")
    return (recorded["dates"], recorded["contests"]) if same else ({}, {})


def takes_part(peer: Peer, only: list[str]) -> bool:
    return not only or peer.name == "redrive" or peer.folder in only


def half_rate(entry: dict) -> float:
    """Half of what a peer can do when jobs are submitted and done at the same time."""
    took = [turn["submitted_s"] + turn["drained_s"] for turn in entry.get("free", ())]
    return entry["jobs"] / statistics.median(took) / 2 if took else 0.0


def turn(contest: Contest, peer: Peer, cache: pathlib.Path, server: str, held: bool, count: int, *seconds: int) -> dict:
    """One peer's turn, or why there was none."""
    cache = cache.resolve()
    missing = cache / peer.folder / "failed"
    if seconds and count == 1:
        return {"failed": f"has no rate in {contest.half_of}"}
    if missing.exists():
        return {"failed": "cannot be installed: " + reason(missing.read_text(), server)}
    limit_s = TURN_LIMIT_S + 2 * sum(seconds)
    with place(contest, cache, server, held) as where, dead_rows(contest, where) as dead:
        command = [
            part.format(source=SOURCE / peer.folder, cache=cache / peer.folder, built=cache / "built/release")
            for part in peer.command
        ]
        try:
            ended = subprocess.run(
                [*command, contest.mode, str(count), where, *map(str, seconds)],
                capture_output=True,
                text=True,
                timeout=limit_s,
                cwd=cache,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"{count} were not done within {limit_s} s"}
        except OSError as error:
            return {"failed": f"cannot be started: {error.strerror}"}
    if ended.returncode != 0:
        (cache / f"{peer.name}.log").write_text(ended.stderr)
        return {"failed": reason(ended.stderr, server) or f"exit code {ended.returncode}"}
    took = json.loads(ended.stdout.splitlines()[-1])
    return {**took, "dead_rows": dead.most} if contest.held else took


def record(entry: dict, took: dict, turns: str) -> None:
    """What is the same in each round is kept once."""
    if "failed" in took:
        entry["failed"] = took["failed"]
        return
    for words in ("version", "settings", "keeps", "jobs"):
        entry[words] = took.pop(words)
    if by_second := took.pop("by_second", []):
        entry["by_second"] = by_second
    entry.setdefault(turns, []).append({name: round(value, 6) for name, value in took.items()})


class dead_rows:
    """Watches how many dead rows a database has at most."""

    def __init__(self, contest: Contest, url: str) -> None:
        self.url, self.most, self.over = url, 0, threading.Event()
        self.watching = threading.Thread(target=self.watch) if contest.held else None

    def watch(self) -> None:
        while not self.over.wait(DEAD_ROWS_INTERVAL_S):
            count = machine.query(self.url, "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables")
            self.most = max(self.most, int(count))

    def __enter__(self) -> "dead_rows":
        if self.watching:
            self.watching.start()
        return self

    def __exit__(self, *_) -> None:
        self.over.set()
        if self.watching:
            self.watching.join()


class place:
    """Somewhere that nobody used before: a database, a folder, or nothing."""

    def __init__(self, contest: Contest, cache: pathlib.Path, server: str, held: bool) -> None:
        self.kind, self.cache, self.server, self.held = contest.place, cache, server, held

    def __enter__(self) -> str:
        if self.kind == "postgres":
            machine.query(self.server, "CREATE DATABASE contest")
            # The log of those before is not written out at the cost of this one.
            machine.query(self.server, "CHECKPOINT")
            url = self.server.rsplit("/", 1)[0] + "/contest"
            if self.held:
                # Its snapshot keeps the server from removing dead rows. It ends with the database.
                subprocess.Popen(["psql", url, "-XAtqc", "SELECT pg_sleep(1e6)"], stderr=subprocess.DEVNULL)
            return url
        self.folder = tempfile.mkdtemp(prefix="turn-", dir=self.cache)
        os.sync()
        return self.folder

    def __exit__(self, *_) -> None:
        if self.kind == "postgres":
            machine.query(self.server, "DROP DATABASE contest WITH (FORCE)")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def reason(text: str, server: str) -> str:
    """The last line of what was said, without where this machine keeps things."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1][:200] if lines else ""
    for private, instead in ((server.rsplit("/", 1)[0], "postgres:"), (str(ROOT), "."), ("|", "/")):
        last = last.replace(private, instead)
    return last


def say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
