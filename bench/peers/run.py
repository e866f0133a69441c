"""Runs the contests in rounds, each peer in turn, and has the report written. Started by scripts/peers.

    run.py CACHE [--rounds N] [--jobs N] [--only PEER]… [--print]

Peers take turns within a round, so that a slow minute of the machine hits all of them. Every turn has a
database or a folder of its own.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import machine
import report
from contests import CONTESTS, JOBS, Contest, Peer

SOURCE = pathlib.Path(__file__).resolve().parent
ROOT = SOURCE.parent.parent
TURN_LIMIT_S = 240


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/peers")
    parser.add_argument("cache", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--print", action="store_true")
    arguments = parser.parse_args()

    server = os.environ["REDRIVE_TEST_POSTGRES_URL"]
    results = {
        "machine": machine.described(arguments.cache),
        "postgres": machine.postgres(server),
        "rounds": arguments.rounds,
        "jobs": arguments.jobs,
        "contests": {contest.name: {} for contest in CONTESTS},
    }
    for round_number in range(1, arguments.rounds + 1):
        for contest in CONTESTS:
            entries = results["contests"][contest.name]
            for peer in contest.peers:
                if not takes_part(peer, arguments.only):
                    continue
                entry = entries.setdefault(peer.name, {"rounds": []})
                if "failed" in entry:
                    continue
                # Without the open transaction first.
                for held in (False, True)[: 1 + contest.held]:
                    say(f"round {round_number} of {arguments.rounds}, {contest.name}, {peer.name}: ")
                    took = turn(contest, peer, arguments, server, held)
                    say(took.get("failed") or report.figure(contest, took))
                    say("\n")
                    record(entry, took, "free" if contest.held and not held else "rounds")
                    if "failed" in took:
                        break

    results["contests"] = {name: entries for name, entries in results["contests"].items() if entries}
    recorded = json.dumps(results, indent=1) + "\n"
    (arguments.cache / "results.json").write_text(recorded)
    print(report.table(results))
    if not arguments.print and not arguments.only:
        (ROOT / "docs/benchmarks").mkdir(exist_ok=True)
        (ROOT / "docs/benchmarks/results.json").write_text(recorded)
        report.write(results, ROOT / "docs")
        say("written: docs/benchmarks.md\n")


def takes_part(peer: Peer, only: list[str]) -> bool:
    return not only or peer.name == "redrive" or peer.folder in only


def turn(contest: Contest, peer: Peer, arguments: argparse.Namespace, server: str, held: bool) -> dict:
    """One peer's turn, or why there was none."""
    cache = arguments.cache.resolve()
    missing = cache / peer.folder / "failed"
    if missing.exists():
        return {"failed": "cannot be installed: " + reason(missing.read_text(), server)}
    count = max(1, round(contest.count * peer.share * arguments.jobs / JOBS))
    with place(contest, cache, server, held) as where:
        command = [
            part.format(source=SOURCE / peer.folder, cache=cache / peer.folder, built=cache / "built/release")
            for part in peer.command
        ]
        try:
            ended = subprocess.run(
                [*command, contest.mode, str(count), where],
                capture_output=True,
                text=True,
                timeout=TURN_LIMIT_S,
                cwd=cache,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"{count} were not done within {TURN_LIMIT_S} s"}
        except OSError as error:
            return {"failed": f"cannot be started: {error.strerror}"}
    if ended.returncode != 0:
        (cache / f"{peer.name}.log").write_text(ended.stderr)
        return {"failed": reason(ended.stderr, server) or f"exit code {ended.returncode}"}
    return json.loads(ended.stdout.splitlines()[-1])


def record(entry: dict, took: dict, turns: str) -> None:
    """What is the same in each round is kept once."""
    if "failed" in took:
        entry["failed"] = took["failed"]
        return
    for words in ("version", "settings", "keeps", "jobs"):
        entry[words] = took.pop(words)
    entry.setdefault(turns, []).append({name: round(value, 6) for name, value in took.items()})


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
