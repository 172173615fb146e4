"""A process that learns runs one after the other: a job a line on its input, an answer a line on its output."""

import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from everlearn._kit.allocation import keep_memory
from everlearn.errors import EverlearnError, LogWarning, RunWarning
from everlearn.runs.config import Config
from everlearn.runs.runner import run


def main() -> int:
    """`worker [the command that asked for it]`."""
    sys.argv = ["everlearn", *sys.argv[1:]]
    keep_memory()
    jobs: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=listen, args=(jobs,), daemon=True).start()
    try:
        while True:
            answer = learn(**json.loads(jobs.get()))
            with suppress(BrokenPipeError):  # nobody reads it: `listen` ends this process
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()
            if answer["stopped"]:
                return 130
    except KeyboardInterrupt:
        return 130


def listen(jobs: "SimpleQueue[str]") -> None:
    """Hand the input's lines on. When it ends nobody waits for answers: stop, and save what is being learnt, if any.

    So a run is not learnt on, and its lock not held, after the death of the process that asked for it.
    """
    for line in sys.stdin:
        jobs.put(line)
    os.kill(os.getpid(), signal.SIGTERM)


def learn(config: dict[str, Any], folder: str, **options: Any) -> dict[str, Any]:
    """Learn one run: what went wrong, None for nothing, and what is to be told besides."""
    warned: list[str] = []
    error: str | None = None
    stopped = False
    try:
        with heard(warned):
            run(Config(**config), Path(folder), **options)
    except EverlearnError as problem:
        error = str(problem)
    except KeyboardInterrupt:
        error, stopped = "it was stopped, and is saved", True
    return {"error": error, "warned": warned, "stopped": stopped}


@contextmanager
def heard(warned: list[str]) -> Iterator[None]:
    """Collect what runs and loggers warn of, since nobody sees what this process prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", LogWarning)
        warnings.simplefilter("always", RunWarning)
        show = warnings.showwarning

        def hear(message: Warning | str, category: type[Warning], *place: Any, **how: Any) -> None:
            if issubclass(category, LogWarning | RunWarning):
                warned.append(str(message))
            else:
                show(message, category, *place, **how)

        warnings.showwarning = hear
        yield


if __name__ == "__main__":
    raise SystemExit(main())
