"""A process that learns runs one after the other: a job a line on its input, an answer a line on its output."""

import json
import sys
from pathlib import Path

from everlearn.errors import EverlearnError
from everlearn.runs.config import Config
from everlearn.runs.runner import run


def main() -> int:
    """`worker [the command that asked for it]`."""
    sys.argv = ["everlearn", *sys.argv[1:]]
    for line in sys.stdin:
        job, error = json.loads(line), None
        try:
            run(Config(**job["config"]), Path(job["folder"]), checkpoint_every=job["checkpoint_every"])
        except EverlearnError as problem:
            error = str(problem)
        except KeyboardInterrupt:
            return 130
        sys.stdout.write(json.dumps({"error": error}) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
