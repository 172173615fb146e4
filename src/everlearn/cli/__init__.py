"""The command line: parse, call, print. PyTorch is imported only by commands that learn."""

import argparse
from collections.abc import Sequence

from everlearn.cli import doctor, fetch, learn, look
from everlearn.cli.options import flush, tell
from everlearn.errors import EverlearnError

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    top = argparse.ArgumentParser(prog="everlearn", description="Learn a stream of batches without forgetting.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for part in (look, doctor, learn, fetch):
        part.add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code.

    0: done; 1: an error that is explained; 2: a bad call; 3: the doctor found something red; 130: interrupted. The code
    is the same where nobody reads the output to its end, as in `everlearn doctor RUNS | head -1`.
    """
    try:
        return _main(argv)
    finally:
        flush()


def _main(argv: Sequence[str] | None) -> int:
    arguments = parser().parse_args(argv)
    try:
        code: int | None = arguments.do(arguments)
    except EverlearnError as error:
        tell(f"everlearn: {error}")
        return 1
    except KeyboardInterrupt:
        tell("everlearn: interrupted; what was learnt is saved. The same command again goes on.")
        return INTERRUPTED
    return code or 0
