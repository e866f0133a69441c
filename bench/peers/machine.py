"""The machine that measured, without its name: what a reader needs to judge figures."""

import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time


def described(folder: pathlib.Path) -> dict:
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "file_system": file_system(folder),
        "fsync_ms": round(fsync_ms(folder), 2),
    }


def processor() -> str:
    names = [line.split(":", 1)[1].strip() for line in lines_of("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.machine()


def file_system(folder: pathlib.Path) -> str:
    """The type of the nearest mount above the folder."""
    path = str(folder.resolve())
    mounts = [line.split() for line in lines_of("/proc/mounts")]
    above = [(len(at), kind) for _, at, kind, *_ in mounts if path == at or path.startswith(at.rstrip("/") + "/")]
    return max(above)[1] if above else "unknown"


def lines_of(path: str) -> list[str]:
    try:
        return pathlib.Path(path).read_text().splitlines()
    except OSError:
        return []


def fsync_ms(folder: pathlib.Path) -> float:
    """How long the disk takes to promise 8 kB, the median of a hundred."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(100):
            file.write(bytes(8192))
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def postgres(server: str) -> dict:
    """The server's version and what decides over durability; measured only if all of it is on."""
    shown = {"version": query(server, "SHOW server_version").split()[0]}
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        shown[setting] = query(server, f"SHOW {setting}")
        if shown[setting] != "on":
            raise SystemExit(f"the server has {setting} {shown[setting]}; start it by scripts/postgres --durable")
    for setting in ("shared_buffers", "max_wal_size"):
        shown[setting] = query(server, f"SHOW {setting}")
    return shown


def query(server: str, sql: str) -> str:
    command = ["psql", server, "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
