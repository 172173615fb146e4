"""The command line: parse, call, print. PyTorch is imported only by commands that learn."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from everlearn.errors import ConfigError, EverlearnError, sentence

INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    top = argparse.ArgumentParser(prog="everlearn", description="Learn a stream of batches without forgetting.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list strategies, benchmarks or models")
    listing.add_argument("what", choices=["strategies", "benchmarks", "models"])
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

    tune = commands.add_parser(
        "tune", help="search hyperparameters on run 1, freeze them, and run the others with them"
    )
    _what_to_run(tune, held_out=0.2)
    tune.add_argument("--strategies", required=True, help="names, with commas between them")
    tune.add_argument("--trials", type=int, default=20, metavar="N", help="for every strategy (default 20)")
    tune.add_argument("--seeds", type=int, default=1, metavar="S", help="a trial's score is the mean over S seeds")
    tune.add_argument("--etas", type=float, nargs=2, default=[1e-4, 1e-1], metavar=("LOW", "HIGH"), help="range of η")
    tune.add_argument("--runs", type=int, default=0, metavar="R", help="then runs 1 to R with what was found")
    tune.add_argument("--jobs", type=int, default=1, metavar="J", help="processes at a time")
    tune.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the search and of the runs")

    report = commands.add_parser("report", help="write the page of all runs below a folder")
    report.add_argument("folder", type=Path)
    report.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in the folder")
    report.add_argument("--json", action="store_true", help="print the table as JSON")

    data = commands.add_parser("data", help="get a benchmark's data, so that runs find it in place")
    data.add_argument("action", choices=["get"])
    data.add_argument("name", help="a benchmark's name; core50 for the files of all of CORe50's benchmarks")

    weights = commands.add_parser(
        "weights", help="import Caffe's or PyTorch's weights for a network, into a file of ours"
    )
    weights.add_argument("file", type=Path, help=".caffemodel, .safetensors, .pth or .pt")
    weights.add_argument("--model", required=True, metavar="NAME", help="the network that the weights are for")
    weights.add_argument("--classes", type=int, metavar="N", help="default: the network's usual number")
    weights.add_argument("--half", action="store_true", help="write float16, half the bytes")
    weights.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .safetensors to write")
    weights.add_argument("--json", action="store_true", help="print the report as JSON")
    return top


def _what_to_run(command: argparse.ArgumentParser, held_out: float = 0.0) -> None:
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
    command.add_argument("--config", type=Path, metavar="FILE", help="TOML, YAML or JSON; --set comes after it")
    command.add_argument("--settings", type=Path, metavar="FILE", help="what `tune` found; --config comes after it")
    command.add_argument("--seed", type=int, help="default: the run's number")
    command.add_argument("--threads", type=int, default=1, metavar="T")
    command.add_argument("--batches", type=int, metavar="N", help="learn the first N batches; may be raised later")
    command.add_argument(
        "--held-out", type=float, default=held_out, metavar="SHARE", help="test on held-out training data"
    )
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


def knobs_of(arguments: argparse.Namespace, strategy: str) -> dict[str, Any]:
    """The knobs of --settings, --config and --set together."""
    from everlearn.runs.config import from_file, read_settings

    knobs: dict[str, Any] = read_settings(arguments.settings, strategy) if arguments.settings else {}
    knobs |= from_file(arguments.config)["knobs"] if arguments.config else {}
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
        knobs=knobs_of(arguments, strategy),
        seed=arguments.seed,
        threads=arguments.threads,
        batches=arguments.batches,
        held_out=arguments.held_out,
    )


def command_list(arguments: argparse.Namespace) -> None:
    """Print names with a sentence each."""
    from everlearn.catalogue import BENCHMARKS, MODELS, STRATEGIES

    table = {"strategies": STRATEGIES, "benchmarks": BENCHMARKS, "models": MODELS}[arguments.what]
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


def command_tune(arguments: argparse.Namespace) -> None:
    """Search for several strategies, write what was found, and run with it."""
    from everlearn.tuning import Search, search_all, write_settings

    names = [name.strip() for name in arguments.strategies.split(",")]
    options = {"trials": arguments.trials, "seeds": arguments.seeds, "etas": tuple(arguments.etas)}
    searches = [
        Search(config_of(arguments, name, run=1), checkpoint_every=arguments.checkpoint_every, **options)
        for name in names
    ]
    found = search_all(searches, arguments.out / "search", jobs=arguments.jobs)
    path = arguments.out / "settings.json"
    write_settings(path, searches[0], found)
    if arguments.json:
        say(json.dumps(found))
    else:
        for name, result in found.items():
            score, knobs = 100 * result["score"], result["knobs"]
            say(f"{name:<12} {score:5.1f} % on held-out data, trial {result['trial']}: {knobs}")
    say(f"The settings: {path}", file=sys.stderr)
    if arguments.runs:
        arguments.settings, arguments.held_out, arguments.batches = path, 0.0, None
        arguments.out = arguments.out / "runs"
        command_compare(arguments)


def command_report(arguments: argparse.Namespace) -> None:
    """Write the page."""
    from everlearn import report

    page = report.write(arguments.folder, arguments.out)
    say(json.dumps(report.summary(arguments.folder)) if arguments.json else report.table(arguments.folder))
    say(f"The page: {page}", file=sys.stderr)


def command_data(arguments: argparse.Namespace) -> None:
    """Get a benchmark's data, and what its network is pre-trained with."""
    if arguments.name == "core50":
        from everlearn.data.core50_fetch import fetch

        say(fetch())
        return
    from everlearn.benchmarks import prepare

    stream, test, _ = prepare(arguments.name, strategy="naive")
    patterns = sum(map(len, stream.indices))
    say(f"{arguments.name}: {patterns} training patterns in {len(stream)} batches, {len(test)} test patterns.")


def command_weights(arguments: argparse.Namespace) -> None:
    """Import weights, print what became of each tensor and write what was taken."""
    from everlearn.weights import convert

    call = arguments
    report = convert(call.file, call.model, call.out, classes=call.classes, half=call.half)
    say(report.to_json() if call.json else str(report))
    say(f"The weights: {call.out}", file=sys.stderr)


def say(text: str, file: Any = None) -> None:
    """Print a line."""
    print(text, file=file, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code: 0 done, 1 an error that is explained, 2 a bad call, 130 interrupted."""
    arguments = parser().parse_args(argv)
    try:
        arguments.do(arguments)
    except EverlearnError as error:
        say(f"everlearn: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("everlearn: interrupted; what was learnt is saved. The same command again goes on.", file=sys.stderr)
        return INTERRUPTED
    return 0
