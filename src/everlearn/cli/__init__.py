"""The command line: parse, call, print. PyTorch is imported only by commands that learn."""

import argparse
import os
import signal
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from everlearn._kit.allocation import keep_memory
from everlearn.cli import doctor, fetch, learn, model, show
from everlearn.cli.options import flush, tell
from everlearn.errors import ConfigError, EverlearnError, EverlearnWarning, sentence

INTERRUPTED = 130
TOGETHER = ("run",)  # what several processes of torchrun do as one


def parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    top = argparse.ArgumentParser(prog="everlearn", description="Learn a stream of batches without forgetting.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for part in (show, doctor, learn, model, fetch):
        part.add(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code.

    0: done; 1: an error that is explained; 2: a bad call; 3: the doctor found something red; 130: interrupted. The code
    is the same where nobody reads the output to its end, as in `everlearn doctor RUNS | head -1`.
    argv: None for this process's own arguments; the process is the command's own then, and may keep memory.
    """
    if argv is None:
        keep_memory()
    try:
        return _main(argv)
    finally:
        flush()


def _main(argv: Sequence[str] | None) -> int:
    arguments = parser().parse_args(argv)
    rank = process_number()
    try:
        check_together(arguments.command, rank)
        with plain_warnings(), kill_is_ctrl_c():
            code: int | None = arguments.do(arguments)
    except EverlearnError as error:
        tell(f"everlearn, process {rank}: {error}" if rank else f"everlearn: {error}")
        return 1
    except KeyboardInterrupt:
        if not rank:
            tell("everlearn: interrupted; the same command again goes on from what was saved last.")
        return INTERRUPTED
    return code or 0


def process_number() -> int | None:
    """The number of this process among those that torchrun started, from 0; None without torchrun."""
    return int(os.environ["RANK"]) if "TORCHELASTIC_RUN_ID" in os.environ else None


def check_together(command: str, rank: int | None) -> None:
    """Refuse commands that several processes would do several times."""
    if rank is not None and command not in TOGETHER:
        raise ConfigError(
            sentence(
                "torchrun starts several processes for one learner",
                expected=f"one of {list(TOGETHER)}",
                got=command,
                do="Give this command without torchrun; --jobs learns several runs at a time.",
            )
        )


@contextmanager
def kill_is_ctrl_c() -> Iterator[None]:
    """SIGTERM, too, saves what was learnt and stops."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
