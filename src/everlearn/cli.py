"""The command line: parse, call, print. PyTorch is imported only by commands that learn."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from everlearn.catalogue import FIGURES
from everlearn.errors import ConfigError, EverlearnError, sentence

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    top = argparse.ArgumentParser(prog="everlearn", description="Learn a stream of batches without forgetting.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list strategies, benchmarks, models or figures")
    listing.add_argument("what", choices=["strategies", "benchmarks", "models", "figures"])
    listing.add_argument("--json", action="store_true", help="print JSON")

    one = commands.add_parser("run", help="learn one stream into a folder; the same command again goes on with it")
    _what_to_run(one)
    one.add_argument("--strategy", required=True)
    one.add_argument("--run", type=int, default=1, metavar="N", help="the order of the classes, from 1")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run's folder")

    many = commands.add_parser("compare", help="several strategies on several runs, and the page")
    _what_to_run(many)
    many.add_argument("--strategies", required=True, help="names, with commas between them")
    many.add_argument("--runs", type=int, default=1, metavar="R", help="runs 1 to R")
    many.add_argument("--jobs", type=int, default=1, metavar="J", help="processes at a time")
    many.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs' folders")

    report = commands.add_parser("report", help="write the page of all runs below a folder")
    report.add_argument("folder", type=Path)
    report.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in the folder")
    report.add_argument("--json", action="store_true", help="print the table as JSON")

    figures = commands.add_parser("figures", help="draw all runs below a folder, as PNG and SVG")
    figures.add_argument("folder", type=Path, metavar="RUNS")
    figures.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the figures")
    figures.add_argument("--only", nargs="+", metavar="NAME", help=f"some of: {', '.join(FIGURES)}")
    figures.add_argument(
        "--by", choices=["strategy", "folder"], default="strategy", help="folder: each folder in RUNS is a variant"
    )

    data = commands.add_parser("data", help="get a benchmark's data, so that runs find it in place")
    data.add_argument("action", choices=["get"])
    data.add_argument("name", help="a benchmark's name")
    return top


def _what_to_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--benchmark", required=True)
    command.add_argument("--setting", help="whose hyperparameters; default: the benchmark's own")
    command.add_argument("--network", help="default: the benchmark's")
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KNOB=VALUE",
        dest="knobs",
        help="e.g. si.lam=4e5; may be repeated",
    )
    command.add_argument("--config", type=Path, metavar="FILE", help="TOML or JSON with knobs; --set comes after it")
    command.add_argument("--seed", type=int, help="default: the run's number")
    command.add_argument("--threads", type=int, default=1, metavar="T")
    command.add_argument("--batches", type=int, metavar="N", help="learn the first N batches; may be raised later")
    command.add_argument("--held-out", type=float, default=0.0, metavar="SHARE", help="test on held-out training data")
    command.add_argument("--checkpoint-every", type=float, default=30.0, metavar="S", help="seconds (default 30)")
    command.add_argument("--json", action="store_true", help="print records or the table as JSON")


def knob_value(text: str) -> Any:
    """A knob's value from the command line: JSON where it is JSON, else a word.

    >>> knob_value("4e5"), knob_value("gradient"), knob_value("[[0.5, 0.9], [0.45, 0.85]]"), knob_value("None")
    (400000.0, 'gradient', [[0.5, 0.9], [0.45, 0.85]], None)
    """
    words = {"None": None, "True": True, "False": False}
    if text in words:
        return words[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def knobs_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The knobs of --config and --set together."""
    from everlearn.runs.config import from_file

    knobs: dict[str, Any] = from_file(arguments.config)["knobs"] if arguments.config else {}
    for text in arguments.knobs:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(sentence("A bad --set", expected="KNOB=VALUE", got=text, do="E.g. --set si.lam=4e5."))
        knobs[name] = knob_value(value)
    return knobs


def config_of(arguments: argparse.Namespace, strategy: str, run: int) -> Any:
    """The config of one run."""
    from everlearn.runs.config import Config

    return Config(
        benchmark=arguments.benchmark,
        strategy=strategy,
        run=run,
        setting=arguments.setting,
        network=arguments.network,
        knobs=knobs_of(arguments),
        seed=arguments.seed,
        threads=arguments.threads,
        batches=arguments.batches,
        held_out=arguments.held_out,
    )


def command_list(arguments: argparse.Namespace) -> None:
    """Print names with a sentence each."""
    from everlearn.catalogue import BENCHMARKS, MODELS, STRATEGIES

    table = {"strategies": STRATEGIES, "benchmarks": BENCHMARKS, "models": MODELS, "figures": FIGURES}[arguments.what]
    if arguments.json:
        say(json.dumps(table, ensure_ascii=False, indent=1))
    else:
        width = max(map(len, table))
        for name, about in table.items():
            say(f"{name:<{width}}  {about}")


def command_run(arguments: argparse.Namespace) -> None:
    """Learn one stream."""
    config = config_of(arguments, arguments.strategy, arguments.run)
    from everlearn.runs.progress import Bar
    from everlearn.runs.runner import run

    with Bar(f"{config.strategy} {config.benchmark} run {config.run}") as bar:
        records = run(config, arguments.out, checkpoint_every=arguments.checkpoint_every, on_progress=bar)
    for record in records:
        if arguments.json:
            say(json.dumps(record))
        else:
            say(
                f"B_{record['i']:<3} accuracy {100 * record['accuracy']:5.1f} %   on classes seen "
                f"{100 * record['accuracy_seen']:5.1f} %   {record['seconds_train']:.1f} s"
            )


def command_compare(arguments: argparse.Namespace) -> None:
    """Learn several strategies on several runs, print the table and write the page."""
    names = [name.strip() for name in arguments.strategies.split(",")]
    configs = [config_of(arguments, name, run) for name in names for run in range(1, arguments.runs + 1)]
    from everlearn import report
    from everlearn.runs.engine import run_all

    run_all(configs, arguments.out, jobs=arguments.jobs, checkpoint_every=arguments.checkpoint_every)
    page = report.write(arguments.out)
    say(json.dumps(report.summary(arguments.out)) if arguments.json else report.table(arguments.out))
    say(f"The page: {page}", file=sys.stderr)


def command_report(arguments: argparse.Namespace) -> None:
    """Write the page."""
    from everlearn import report

    page = report.write(arguments.folder, arguments.out)
    say(json.dumps(report.summary(arguments.folder)) if arguments.json else report.table(arguments.folder))
    say(f"The page: {page}", file=sys.stderr)


def command_figures(arguments: argparse.Namespace) -> None:
    """Draw the figures."""
    from everlearn import figures

    album = figures.draw(arguments.folder, arguments.out, arguments.only, arguments.by)
    for name, why in album.left_out.items():
        say(f"Left out: {name}. {why}", file=sys.stderr)
    for path in album.paths:
        say(str(path))


def command_data(arguments: argparse.Namespace) -> None:
    """Get a benchmark's data, and what its network is pre-trained with."""
    from everlearn.benchmarks import prepare

    stream, test, _ = prepare(arguments.name, strategy="naive")
    patterns = sum(map(len, stream.indices))
    say(f"{arguments.name}: {patterns} training patterns in {len(stream)} batches, {len(test)} test patterns.")


def say(text: str, file: Any = None) -> None:
    """Print a line."""
    print(text, file=file, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code: 0 done, 1 an error that is explained, 2 a bad call, 130 interrupted."""
    arguments = parser().parse_args(argv)
    commands = {"list": command_list, "run": command_run, "compare": command_compare, "report": command_report}
    try:
        {**commands, "figures": command_figures, "data": command_data}[arguments.command](arguments)
    except EverlearnError as error:
        say(f"everlearn: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("everlearn: interrupted; what was learnt is saved. The same command again goes on.", file=sys.stderr)
        return INTERRUPTED
    return 0
