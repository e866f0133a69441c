"""Handlers in Python: copy this file beside yours. It needs only the standard library, 3.9 or later.

    import redrive

    @redrive.handler
    def work(call):                       # or: async def work(call)
        return {"answer": 42}             # any JSON value

    redrive.serve()

A call is a dict: a run has call["payload"], a sample has call["data"]. call.key is the same for every
attempt at the unit: pass it to services that accept an idempotency key. call["id"] differs.

With `in-flight = 8` in redrive.toml, a function runs in up to 8 threads at once, an async function in up
to 8 tasks. If the function is not safe in threads, set `processes = 8` instead.

Raise Final if a retry cannot help, Error to state class, code and wait, Skip to skip a sample. Any
other exception is a retryable error; an interrupt (Ctrl-C) ends the program. Printed text goes to stderr, because stdout carries the replies;
each line is marked with its call, so that it is shown with that call only. Import this module before you set
up logging.
"""

import asyncio
import concurrent.futures
import contextvars
import inspect
import json
import os
import signal
import sys
import threading
import traceback


class Error(Exception):
    """A failure: its class (final, retryable, rate_limited), code, and seconds to wait."""

    def __init__(self, message, class_=None, code=None, retry_after=None):
        super().__init__(message)
        self.fields = {"class": class_, "code": code, "message": str(message), "retry_after": retry_after}


class Final(Error):
    def __init__(self, message, code=None):
        super().__init__(message, "final", code)


class Skip(Exception):
    """Skips a sample, with a reason."""


class Judged:
    """An answer with a verdict on a run: passed, needs_review or failed."""

    def __init__(self, value, verdict):
        self.value, self.verdict = value, verdict


class Call(dict):
    """The call as Redrive sent it."""

    @property
    def key(self):
        """The idempotency key of the work: the unit, the same for every attempt."""
        return self["unit"]


_handle = None
_call = contextvars.ContextVar("call", default=None)


def handler(function):
    """Registers a function of the call as the handler of this program."""
    global _handle
    _handle = function
    return function


class _Lines:
    """Marks each line that is written during a call: record separator, id, space, text."""

    def __init__(self, stream):
        self._stream, self._lock, self._unfinished = stream, threading.RLock(), {}

    def write(self, text):
        call = _call.get()
        with self._lock:
            if call is None:
                self._stream.write(text)
            else:
                *lines, rest = (self._unfinished.pop(call["id"], "") + text).split("\n")
                self._unfinished[call["id"]] = rest
                self._stream.write("".join(f"\x1e{call['id']} {line}\n" for line in lines))
            self._stream.flush()
        return len(text)

    def writelines(self, lines):
        self.write("".join(lines))

    def finish(self):
        """Ends the last line of the current call."""
        with self._lock:
            if self._unfinished.get(_call.get()["id"]):
                self.write("\n")
            self._unfinished.pop(_call.get()["id"], None)

    def __getattr__(self, name):
        return getattr(self._stream, name)


_stderr = sys.stderr = _Lines(sys.stderr)


def _line(call, **reply):
    return json.dumps({"id": call["id"], **reply}, allow_nan=False).encode() + b"\n"


def _answered(call, answer):
    if isinstance(answer, Judged):
        return _line(call, ok=answer.value, verdict=answer.verdict)
    return _line(call, ok=answer)


def _failed(call, error):
    if isinstance(error, Skip):
        return _line(call, skip=str(error))
    if isinstance(error, Error):
        return _line(call, error=error.fields)
    traceback.print_exception(type(error), error, error.__traceback__)
    message = traceback.format_exception_only(type(error), error)[-1].strip()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if "/lib/python" not in frame.filename and frame.filename[:1] != "<"]
    if frames:
        frame = (own or frames)[-1]
        message += f" ({os.path.basename(frame.filename)}:{frame.lineno} in {frame.name})"
    return _line(call, error={"code": type(error).__name__[:64], "message": message})


def _reply(call):
    _call.set(call)
    try:
        return _answered(call, _handle(call))
    except BaseException as error:  # also an answer that is not JSON
        return _failed(call, error)
    finally:
        _stderr.finish()
        _call.set(None)


async def _reply_async(call):
    _call.set(call)
    try:
        return _answered(call, await _handle(call))
    except BaseException as error:  # also a cancelled task
        return _failed(call, error)
    finally:
        _stderr.finish()


async def _serve_async(send):
    async def serve_one(call):
        send(await _reply_async(call))

    # A thread of its own for the input: handlers may use all threads of asyncio.
    with concurrent.futures.ThreadPoolExecutor(1) as reader:
        loop, tasks = asyncio.get_running_loop(), set()
        while line := await loop.run_in_executor(reader, sys.stdin.buffer.readline):
            task = asyncio.create_task(serve_one(Call(json.loads(line))))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)


def _can_start_threads():
    try:
        threading.Thread(target=int).start()
        return True
    except RuntimeError:
        return False


def serve(threads=True):
    """Handles calls until the input ends, as many at once as `in-flight` in redrive.toml says.

    With threads=False, a function that is not async gets one call at a time.
    """
    replies, lock = os.fdopen(os.dup(sys.stdout.fileno()), "wb"), threading.Lock()
    os.dup2(_stderr.fileno(), sys.stdout.fileno())
    sys.stdout.flush()
    sys.stdout = _stderr

    def send(reply):
        with lock:
            replies.write(reply)
            replies.flush()

    # An interrupt ends the program, so that a KeyboardInterrupt is an exception of the handler.
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    in_flight = int(os.environ.get("REDRIVE_IN_FLIGHT", "1"))
    if inspect.iscoroutinefunction(_handle):
        return asyncio.run(_serve_async(send))
    calls = (Call(json.loads(line)) for line in iter(sys.stdin.buffer.readline, b""))
    if in_flight > 1 and threads and _can_start_threads():
        with concurrent.futures.ThreadPoolExecutor(in_flight) as pool:
            for call in calls:
                pool.submit(lambda call: send(_reply(call)), call)
        return
    if in_flight > 1:
        print(
            f"redrive: this program takes one call at a time, but in-flight is {in_flight}: calls wait in "
            f"the program and may exceed their time limit; set in-flight = 1 and processes = {in_flight}",
            file=sys.stderr,
        )
    for call in calls:
        send(_reply(call))
