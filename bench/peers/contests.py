"""What is compared with what. A peer is a program; a contest is one workload that several of them do.

A driver is called with a mode, a count and a place (a database URL, or an empty folder). It submits that
many jobs, has them done, checks that they were, and prints one JSON object. In the mode "sustained" it is also
called with a number of seconds; it submits the jobs evenly over them, and has them done meanwhile.

    version, settings, keeps    what was measured, in words
    jobs, attempts              what was done, as counted by the handler
    submitted_s, drained_s      how long each took
    forced_wait_s               how long a failed job has to wait at least, whatever one asks for
    by_second                   how many jobs were done in each second (sustained)
"""

from dataclasses import dataclass

# The contests' counts are for so many; fewer or more scale all of them.
JOBS = 100_000
# How long jobs arrive in a sustained contest.
SECONDS = 600


@dataclass(frozen=True)
class Peer:
    name: str
    command: tuple[str, ...]  # {source}: a folder here, {cache}: where it is installed, {built}: what cargo built
    folder: str = ""  # unset: the name
    share: float = 1.0  # of the jobs, for those that would take more than a minute for all of them
    reference: bool = False  # not a rival: shown beside them, and no target is about it

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.folder or self.name)


def node(name: str, *arguments: str, **more) -> Peer:
    return Peer(name, ("{cache}/node_modules/.bin/node", "{cache}/driver.mjs", *arguments), **more)


def graphile_worker(settings: str, processes: int) -> Peer:
    name = f"graphile-worker, {settings}" + (f", {processes} processes" if processes > 1 else "")
    return node(name, settings, str(processes), folder="graphile-worker")


def python(name: str, **more) -> Peer:
    return Peer(name, ("{cache}/venv/bin/python", "{source}/driver.py"), **more)


def rust(name: str, folder: str, *arguments: str, **more) -> Peer:
    return Peer(name, (f"{{built}}/peer-{folder}", *arguments), folder, **more)


@dataclass(frozen=True)
class Measure:
    """How a turn becomes a figure: jobs in a second, or time for each job."""

    unit: str
    times_of: float = 0.0  # so many of the unit in a second; 0: jobs in a second
    decimals: int = 0

    @property
    def higher_is_better(self) -> bool:
        return self.times_of == 0.0

    def of(self, jobs: float, seconds: float) -> float:
        return jobs / seconds if self.higher_is_better else seconds * self.times_of / jobs


RATE = Measure("jobs/s")
NS = Measure("ns/call", 1e9, 1)
MS = Measure("ms/partition", 1e3, 3)


@dataclass(frozen=True)
class Contest:
    name: str
    title: str
    mode: str
    place: str  # postgres or folder
    measure: Measure
    peers: tuple[Peer, ...]
    target: float  # Redrive is to be so many times as good as the best rival
    count: int = JOBS
    rival: str = ""  # the target is about this one alone
    held: bool = False  # each also works while a transaction stays open; the target is what Redrive keeps of its rate
    half_of: str = ""  # jobs arrive at half the rate at which this contest says the peer can take and do them
    rounds: int = 0  # at most so many; 0: all

    @property
    def kept_of(self) -> str:
        return "the load" if self.half_of else "its rate without"


REDRIVE = Peer("redrive", ("python3", "{source}/driver.py"))
ON_POSTGRES = (
    REDRIVE,
    *(graphile_worker(settings, processes) for settings in ("documented", "tuned") for processes in (1, 2)),
    node("pg-boss"),
    rust("apalis", "apalis"),
    rust("awa", "awa"),
    python("procrastinate", share=0.02),
)
WITH_A_HELD_HORIZON = (REDRIVE, graphile_worker("tuned", 1), node("pg-boss"), rust("awa", "awa", share=0.1))
ON_SQLITE = (REDRIVE, rust("apalis", "apalis", share=0.03), python("huey"))
IN_PROCESS = (
    rust("redrive", "retry", "redrive"),
    rust("backon", "retry", "backon"),
    rust("tokio-retry2", "retry", "tokio-retry2"),
    rust("by hand", "retry", "by-hand", reference=True),
)
OF_PARTITIONS = (REDRIVE, python("dagster"), python("prefect"))

CONTESTS = (
    Contest("postgres", "Jobs on PostgreSQL", "plain", "postgres", RATE, ON_POSTGRES, 3),
    Contest(
        "postgres-failing",
        "Jobs on PostgreSQL, one in five failing once",
        "failing",
        "postgres",
        RATE,
        ON_POSTGRES,
        2.5,
    ),
    Contest(
        "postgres-held",
        "Jobs on PostgreSQL while a transaction stays open",
        "plain",
        "postgres",
        RATE,
        WITH_A_HELD_HORIZON,
        0.9,
        count=2_000_000,
        held=True,
        rounds=2,
    ),
    Contest(
        "postgres-sustained",
        "Jobs that arrive on PostgreSQL at half the possible rate, while a transaction stays open",
        "sustained",
        "postgres",
        RATE,
        # Each takes ten minutes; the others are slower by far.
        WITH_A_HELD_HORIZON[:2],
        0.9,
        held=True,
        half_of="postgres-held",
        rounds=1,
    ),
    Contest("sqlite", "Jobs on SQLite", "plain", "folder", RATE, ON_SQLITE, 10, rival="huey"),
    Contest(
        "sqlite-failing",
        "Jobs on SQLite, one in five failing once",
        "failing",
        "folder",
        RATE,
        ON_SQLITE,
        10,
        rival="huey",
    ),
    Contest("partitions", "Partitions", "partitions", "folder", MS, OF_PARTITIONS, 50, count=200),
    Contest(
        "retry",
        "A call in a process that succeeds at once",
        "success",
        "folder",
        NS,
        IN_PROCESS,
        1,
        count=10_000_000,
    ),
)
