"""The table, the page and the plots, from recorded results.

    report.py RESULTS.json [DOCS_FOLDER]

Without a folder it prints the table; with one it writes benchmarks.md and the plots there.
"""

import json
import pathlib
import statistics
import sys
from dataclasses import dataclass

import plots
from contests import CONTESTS, JOBS, SECONDS, Contest


@dataclass(frozen=True)
class Line:
    """A peer in a contest: what came of its turns."""

    peer: str
    reference: bool
    entry: dict
    figures: tuple[float, ...]  # of each turn, without waits that the peer forces
    ratios: tuple[float, ...]  # of each round: how many times as good Redrive is, or what the peer keeps of its rate

    @property
    def median(self) -> float:
        return statistics.median(self.figures)

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def lower_quartile(self) -> float:
        if len(self.ratios) < 2:
            return self.ratios[0]
        return statistics.quantiles(self.ratios, n=4, method="inclusive")[0]

    def of_turns(self, value) -> float:
        return statistics.median(value(turn) for turn in self.entry["rounds"])


def net(contest: Contest, jobs: float, turn: dict) -> float:
    return contest.measure.of(jobs, turn["drained_s"] - turn["forced_wait_s"])


def figure(contest: Contest, took: dict) -> str:
    """A turn, in words."""
    return number(contest, net(contest, took["jobs"], took)) + " " + contest.measure.unit


def lines(contest: Contest, entries: dict) -> list[Line]:
    """In the order of merit; who failed comes last."""
    figures = {
        name: tuple(net(contest, entry["jobs"], turn) for turn in entry["rounds"])
        for name, entry in entries.items()
        if "failed" not in entry
    }
    own = figures.get("redrive", ())
    free = {name: [net(contest, entries[name]["jobs"], turn) for turn in entries[name].get("free", ())] for name in figures}
    found = []
    for peer in contest.peers:
        if peer.name not in entries:
            continue
        turns = figures.get(peer.name, ())
        pairs = zip(turns, free.get(peer.name, ())) if contest.held else zip(own, turns)
        pairs = [pair if contest.measure.higher_is_better else pair[::-1] for pair in pairs]
        ratios = tuple(better / worse for better, worse in pairs)
        found.append(Line(peer.name, peer.reference, entries[peer.name], turns, ratios))
    found.sort(key=lambda line: (not line.figures, -line.median if contest.held and line.figures else line.ratio or 0.0))
    return found


def number(contest: Contest, value: float) -> str:
    return f"{value:,.{contest.measure.decimals}f}".replace(",", " ")


def whole(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def ratio(contest: Contest, line: Line) -> str:
    is_own = line.peer == "redrive" and not contest.held
    return "" if line.ratio is None or is_own else f"{line.ratio:.2f}"


def spread(line: Line) -> str:
    return f"{min(line.ratios):.2f} to {max(line.ratios):.2f}, lower quartile {line.lower_quartile:.2f}"


def reached(contest: Contest, line: Line) -> str:
    return f"target {contest.target:g}: {'reached' if line.lower_quartile >= contest.target else 'missed'}"


def verdict(contest: Contest, found: list[Line]) -> str:
    """Whether the target is reached, in a sentence: three quarters of the rounds have to."""
    if contest.held:
        kept = [line for line in found if line.peer == "redrive" and line.ratio is not None]
        return "".join(
            f"Redrive keeps {line.ratio:.2f} of {contest.kept_of} ({spread(line)}); {reached(contest, line)}." for line in kept
        )
    rivals = [line for line in found if line.ratio is not None and line.peer != "redrive" and not line.reference]
    rivals = [line for line in rivals if contest.rival in ("", line.peer)]
    if not rivals:
        return "There is nobody to compare with."
    best = min(rivals, key=lambda line: line.ratio)
    whom = best.peer if contest.rival else f"{best.peer}, the best of the others"
    return f"Redrive is {best.ratio:.2f} times as fast as {whom} ({spread(best)}); {reached(contest, best)}."


def contests(results: dict) -> list[tuple[Contest, list[Line]]]:
    by_name = {contest.name: contest for contest in CONTESTS}
    return [(by_name[name], lines(by_name[name], entries)) for name, entries in results["contests"].items()]


def table(results: dict) -> str:
    """All contests as one table for a terminal."""
    rows = [("CONTEST", "PEER", "MEDIAN", "LEAST – MOST", "UNIT", "RATIO")]
    verdicts = []
    for contest, found in contests(results):
        for line in found:
            if line.figures:
                figures = f"{number(contest, min(line.figures))} – {number(contest, max(line.figures))}"
                middle = (number(contest, line.median), figures, contest.measure.unit, ratio(contest, line))
            else:
                middle = ("failed", line.entry["failed"], "", "")
            rows.append((contest.name, line.peer, *middle))
        verdicts.append(f"{contest.name}: {verdict(contest, found)}")
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    right = {2, 3, 5}
    printed = [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*printed, "", *verdicts])


def page(results: dict) -> str:
    machine, postgres = results["machine"], results["postgres"]
    short = results["jobs"] < JOBS or results["rounds"] < 3 or results.get("seconds", SECONDS) < SECONDS
    warning = ["**This was a short run, to try things out: its figures say little.**", ""] if short else []
    parts = [
        "# Beside other systems",
        "",
        "Written by `scripts/peers`, which runs the same workloads through Redrive and other systems on one machine, in",
        "turn; [the drivers](../bench/peers/README.md) say how, and what is fair about it and what is not. Figures of",
        "another machine differ; ratios differ less. Numbers that Redrive loses are here like those it wins.",
        "",
        *warning,
        "| | |",
        "| --- | --- |",
        f"| processor | {machine['processor']}, {machine['cores']} cores, shared by all that take part |",
        f"| memory | {machine['memory_gb']} GB |",
        f"| system | {machine['system']} |",
        f"| disk | {machine['file_system']}; a fsync of 8 kB takes {machine['fsync_ms']:g} ms |",
        f"| PostgreSQL | {postgres['version']}, on the same machine; "
        + ", ".join(f"`{name}` {value}" for name, value in postgres.items() if name != "version")
        + ", else as it comes |",
        f"| rounds | {results['rounds']}, in which all take turns, each in a new database or folder; figures are medians, "
        "with the least and the most; ratios compare the turns of one round |",
        "",
    ]
    for contest, found in contests(results):
        parts += section(contest, found, results["dates"][contest.name])
    return "\n".join(parts)


def section(contest: Contest, found: list[Line], measured_on: str) -> list[str]:
    unit = contest.measure.unit
    waits = any(turn["forced_wait_s"] for line in found for turn in line.entry["rounds"])
    jobs_word = "jobs" if contest.measure.higher_is_better else unit.split("/")[1] + "s"
    compared = f"of {contest.kept_of}" if contest.held else "Redrive is times as fast"
    columns = ["", "version", unit, "least – most", compared]
    if waits:
        columns += ["forced wait", f"{unit} with it"]
    if contest.measure.higher_is_better:
        columns += ["submitted/s"]
    columns += ["dead rows, most"] if contest.held else []
    columns += [jobs_word, "keeps"]
    numeric = {"dead rows, most", unit, "least – most", compared, "forced wait", f"{unit} with it", "submitted/s", jobs_word}
    rows = [columns, [("---:" if column in numeric else "---") for column in columns]]
    for line in found:
        entry = line.entry
        name = f"**{line.peer}**" if line.peer == "redrive" else line.peer
        if not line.figures:
            rows.append([name, entry.get("version", ""), "failed", *[""] * (len(columns) - 4), entry["failed"]])
            continue
        row = [name, entry["version"], number(contest, line.median)]
        row += [f"{number(contest, min(line.figures))} – {number(contest, max(line.figures))}", ratio(contest, line)]
        jobs = entry["jobs"]
        if waits:
            wait = line.of_turns(lambda turn: turn["forced_wait_s"])
            gross = line.of_turns(lambda turn: contest.measure.of(jobs, turn["drained_s"]))
            row += [f"{wait:.1f} s" if wait else "", number(contest, gross)]
        if contest.measure.higher_is_better:
            row += [number(contest, line.of_turns(lambda turn: jobs / turn["submitted_s"]))]
        if contest.held:
            # Results of earlier versions have no count.
            row += [whole(max(turn.get("dead_rows", 0) for turn in entry["rounds"]))]
        rows.append([*row, whole(jobs), entry["keeps"]])
    timeline = [f"![{contest.title}: {unit} over time](benchmarks/{contest.name}-time.svg)", ""] if over_time(found) else []
    settings = [f"- {line.peer}: {line.entry['settings']}" for line in found if line.figures]
    return [
        f"## {contest.title}",
        "",
        f"Measured on {measured_on}. {verdict(contest, found)}",
        "",
        f"![{contest.title}: {unit} of each](benchmarks/{contest.name}.svg)",
        "",
        *timeline,
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "Settings:",
        "",
        *settings,
        "",
    ]


def over_time(found: list[Line]) -> list[tuple[str, list[float]]]:
    """What each peer did in each second, where that was recorded."""
    return [(line.peer, line.entry["by_second"]) for line in found if line.figures and line.entry.get("by_second")]


def write(results: dict, docs: pathlib.Path) -> None:
    (docs / "benchmarks.md").write_text(page(results))
    (docs / "benchmarks").mkdir(exist_ok=True)
    for contest, found in contests(results):
        (docs / f"benchmarks/{contest.name}.svg").write_text(plots.bars(contest, found))
        if series := over_time(found):
            (docs / f"benchmarks/{contest.name}-time.svg").write_text(plots.lines(contest, series))


if __name__ == "__main__":
    recorded = json.loads(pathlib.Path(sys.argv[1]).read_text())
    if len(sys.argv) > 2:
        write(recorded, pathlib.Path(sys.argv[2]))
    else:
        print(table(recorded))
