"""The command line: parse, call, print. PyTorch is imported only by commands that learn."""

import argparse
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from everlearn.cli import doctor, fetch, learn, look
from everlearn.cli.options import tell
from everlearn.errors import EverlearnError, EverlearnWarning

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

    0: done; 1: an error that is explained; 2: a bad call; 3: the doctor found something red; 130: interrupted.
    """
    arguments = parser().parse_args(argv)
    try:
        with plain_warnings():
            code: int | None = arguments.do(arguments)
    except EverlearnError as error:
        tell(f"everlearn: {error}")
        return 1
    except KeyboardInterrupt:
        tell("everlearn: interrupted; what was learnt is saved. The same command again goes on.")
        return INTERRUPTED
    return code or 0


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print our warnings like our errors, without the line of code that they come from."""
    usual = warnings.formatwarning

    def form(message: Warning | str, category: type[Warning], *place: Any, **how: Any) -> str:
        ours = issubclass(category, EverlearnWarning)
        return f"everlearn: {message}\n" if ours else usual(message, category, *place, **how)

    warnings.formatwarning = form
    try:
        yield
    finally:
        warnings.formatwarning = usual
