"""Options that several commands share, and what they mean."""

import argparse
import ast
import json
import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from everlearn._kit.catalogue import LOGGERS
from everlearn.errors import ConfigError, sentence

Commands = Any
"""What argparse's add_subparsers gives."""


def what_to_run(command: argparse.ArgumentParser, held_out: float = 0.0) -> None:
    """The options that settle a run."""
    command.add_argument(
        "--benchmark", required=True, help="see: everlearn list benchmarks; split-N:PATH for your data"
    )
    command.add_argument("--setting", help="hyperparameter set (default: the benchmark's)")
    command.add_argument("--network", help="default: the benchmark's")
    command.add_argument("--weights", metavar="FILE", help="what the network starts from: see pretrain and weights")
    knob_options(command)
    command.add_argument("--settings", type=Path, metavar="FILE", help="what `tune` found; --config comes after it")
    command.add_argument("--seed", type=int, help="default: the run's number")
    place_options(command)
    command.add_argument("--batches", type=int, metavar="N", help="learn the first N batches; may be raised later")
    command.add_argument(
        "--held-out", type=float, default=held_out, metavar="SHARE", help="test on held-out training data"
    )
    command.add_argument("--checkpoint-every", type=seconds, default=30.0, metavar="S", help="seconds (default 30)")
    command.add_argument(
        "--log",
        action="append",
        default=[],
        choices=list(LOGGERS),
        help="write the same scalars and pictures there as a run goes; may be repeated",
    )
    command.add_argument("--json", action="store_true", help="print records or the table as JSON")


def runs_option(command: argparse.ArgumentParser) -> None:
    """How many runs."""
    command.add_argument("--runs", type=at_least_one, default=1, metavar="R", help="runs 1 to R (default 1)")


def at_least_one(text: str) -> int:
    """A number from 1, for argparse.

    >>> at_least_one("3")
    3
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return number


def seconds(text: str) -> float:
    """A time from 0 on, for argparse.

    >>> seconds("0.5")
    0.5
    """
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:  # neither is NaN
        raise argparse.ArgumentTypeError(f"expected seconds, a number from 0, got {text!r}")
    return number


def place_options(command: argparse.ArgumentParser) -> None:
    """The options that say where to compute."""
    command.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, …")
    command.add_argument(
        "--threads",
        type=at_least_one,
        default=1,
        metavar="T",
        help="CPU threads (default 1); changes results only by rounding",
    )


def engine_options(command: argparse.ArgumentParser) -> None:
    """The options that say where many runs are learnt."""
    command.add_argument(
        "--engine", choices=["local", "ray"], default="local", help="processes here (default), or a Ray cluster"
    )
    command.add_argument("--address", metavar="HOST:PORT", help="of a Ray cluster; default: one of this machine alone")
    command.add_argument(
        "--jobs", type=at_least_one, metavar="J", help="at a time; default: 1, on Ray as many as there is room for"
    )
    command.add_argument("--cpus", type=float, metavar="N", help="a job's share on Ray; default: as many as --threads")
    command.add_argument("--gpus", type=float, metavar="N", help="a job's share on Ray; default: none")


def engine_from(arguments: argparse.Namespace) -> Any:
    """The engine that was asked for, to be entered."""
    from everlearn.runs.engine import engine_of

    if arguments.engine == "local" and (arguments.cpus, arguments.gpus) != (None, None):
        raise ConfigError(
            sentence(
                "Only a cluster has shares",
                expected="--cpus and --gpus with --engine ray",
                got="--engine local",
                do="Leave them out; --jobs and --threads say how much of this machine is used.",
            )
        )
    return engine_of(arguments.engine, address=arguments.address, jobs=arguments.jobs)


def knob_options(command: argparse.ArgumentParser) -> None:
    """The options that turn knobs."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KNOB=VALUE",
        dest="knobs",
        help="e.g. si.lam=4e5; may be repeated",
    )
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="knobs in TOML, YAML or JSON, before those of --set"
    )


def knob_value(text: str) -> Any:
    """A knob's value from the command line: JSON or Python where it is such, else a word.

    >>> knob_value("4e5"), knob_value("gradient"), knob_value("((0.5, 0.9), (0.45, 0.85))"), knob_value("None")
    (400000.0, 'gradient', [[0.5, 0.9], [0.45, 0.85]], None)
    """
    with suppress(ValueError):
        return json.loads(text)
    with suppress(ValueError, SyntaxError, TypeError):  # as Python writes it
        return json.loads(json.dumps(ast.literal_eval(text)))
    return text


def knobs_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The knobs of --config and --set together."""
    from everlearn.runs.config import knobs_from

    knobs = knobs_from(arguments.config) if arguments.config else {}
    for text in arguments.knobs:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(sentence("A bad --set", expected="KNOB=VALUE", got=text, do="E.g. --set si.lam=4e5."))
        knobs[name] = knob_value(value)
    return knobs


def config_of(arguments: argparse.Namespace, strategy: str, run: int) -> Any:
    """The config of one run."""
    from everlearn.runs.config import Config, read_settings

    found = read_settings(arguments.settings, strategy) if arguments.settings else {}
    return Config(
        benchmark=arguments.benchmark,
        strategy=strategy,
        run=run,
        setting=arguments.setting,
        network=arguments.network,
        weights=arguments.weights,
        knobs={**found, **knobs_of(arguments)},
        seed=arguments.seed,
        device=arguments.device,
        threads=arguments.threads,
        batches=arguments.batches,
        held_out=arguments.held_out,
        cpus=getattr(arguments, "cpus", None),
        gpus=getattr(arguments, "gpus", None),
    )


def say(text: str, file: Any = None) -> None:
    """Print a line. Where its reader has left, go on in silence: what a command does and its exit code still count."""
    file = sys.stdout if file is None else file
    try:
        print(text, file=file, flush=True)
    except BrokenPipeError:
        _silence(file)


def tell(text: str) -> None:
    """Print a line beside the output proper."""
    say(text, file=sys.stderr)


def flush() -> None:
    """Write out what is still to be printed, or drop it where its reader has left."""
    for file in (sys.stdout, sys.stderr):
        try:
            file.flush()
        except BrokenPipeError:
            _silence(file)


def _silence(file: Any) -> None:
    """Point a stream at nothing, so that neither we nor the interpreter, when it ends, meet the broken pipe again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, file.fileno())
    os.close(nowhere)
