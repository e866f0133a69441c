"""Handlers in Python: copy this file beside yours. It needs only the standard library.

    import redrive

    @redrive.handler
    def work(call):                       # the call as a dict; its payload is call["payload"]
        return {"answer": 42}             # any JSON value

    redrive.serve()

Raise Final if a retry cannot help, Error to state class, code and wait, Skip to skip a sample. Any
other exception is a retryable error. Printed text goes to stderr, because stdout carries the replies.
"""

import json
import os
import sys
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


_handle = None


def handler(function):
    """Registers a function of the call as the handler of this program."""
    global _handle
    _handle = function
    return function


def _reply(call):
    try:
        answer = _handle(call)
        if isinstance(answer, Judged):
            return _line(call, ok=answer.value, verdict=answer.verdict)
        return _line(call, ok=answer)
    except Skip as skip:
        return _line(call, skip=str(skip))
    except Error as error:
        return _line(call, error=error.fields)
    except Exception as error:  # also an answer that is not JSON
        traceback.print_exc()
        return _line(call, error={"code": type(error).__name__[:64], "message": str(error)})


def _line(call, **reply):
    return json.dumps({"id": call["id"], **reply}, allow_nan=False).encode() + b"\n"


def serve():
    """Handles calls one after the other, until the input ends."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in iter(sys.stdin.buffer.readline, b""):
        replies.write(_reply(json.loads(line)))
        replies.flush()
