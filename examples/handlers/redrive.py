"""Handlers in Python: copy this file beside yours. It needs the standard library alone.

    import redrive

    @redrive.handler
    def work(call):                       # the call as a dict; its payload is call["payload"]
        return {"answer": 42}             # anything JSON can say

    redrive.serve()

Raise Final when trying again cannot help, Error to say more, Skip for a sample to pass over. Any
other exception is an error that may be tried again. What you print goes to stderr: stdout belongs
to the replies.
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
    """Passes a sample over, and says why."""


class Judged:
    """An answer with a verdict on a run: passed, needs_review or failed."""

    def __init__(self, value, verdict):
        self.value, self.verdict = value, verdict


_handle = None


def handler(function):
    """Makes a function of the call the handler of this program."""
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
    except Exception as error:  # also an answer that JSON cannot say
        traceback.print_exc()
        return _line(call, error={"code": type(error).__name__[:64], "message": str(error)})


def _line(call, **reply):
    return json.dumps({"id": call["id"], **reply}, allow_nan=False).encode() + b"\n"


def serve():
    """Answers calls, one after the other, until the input ends."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in iter(sys.stdin.buffer.readline, b""):
        replies.write(_reply(json.loads(line)))
        replies.flush()
