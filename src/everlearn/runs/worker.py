"""The process of one run among many: reads a config, learns it."""

import json
import sys
from pathlib import Path

from everlearn.errors import EverlearnError
from everlearn.runs.config import Config
from everlearn.runs.runner import run


def main() -> int:
    """`worker FOLDER SECONDS [the command that asked for it]`, the config on standard input."""
    folder, seconds, *command = sys.argv[1:]
    sys.argv = ["everlearn", *command]
    try:
        run(Config(**json.loads(sys.stdin.readline())), Path(folder), checkpoint_every=float(seconds))
    except EverlearnError as error:
        sys.stderr.write(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
