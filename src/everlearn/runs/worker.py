"""A process that learns runs one after the other: a job a line on its input, an answer a line on its output."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everlearn.errors import EverlearnError, LogWarning, RunWarning
from everlearn.runs.config import Config
from everlearn.runs.runner import run


def main() -> int:
    """`worker [the command that asked for it]`."""
    sys.argv = ["everlearn", *sys.argv[1:]]
    for line in sys.stdin:
        job, error = json.loads(line), None
        options = {"checkpoint_every": job["checkpoint_every"], "log": job["log"]}
        warned: list[str] = []
        try:
            with heard(warned):
                run(Config(**job["config"]), Path(job["folder"]), **options)
        except EverlearnError as problem:
            error = str(problem)
        except KeyboardInterrupt:
            return 130
        sys.stdout.write(json.dumps({"error": error, "warned": warned}) + "\n")
        sys.stdout.flush()
    return 0


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
