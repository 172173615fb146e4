"""Commands that learn."""

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from everlearn.cli.options import (
    Commands,
    at_least_one,
    config_of,
    engine_from,
    engine_options,
    knob_options,
    knobs_of,
    place_options,
    runs_option,
    say,
    seconds,
    tell,
    what_to_run,
)
from everlearn.errors import ConfigError, EverlearnWarning, sentence


def add(commands: Commands) -> None:
    """These commands and their options."""
    _add_runs(commands)
    _add_experiments(commands)


def _add_runs(commands: Commands) -> None:
    one = commands.add_parser("run", help="train on one stream; run the command again to resume")
    what_to_run(one)
    one.add_argument("--strategy", required=True)
    one.add_argument("--run", type=int, default=1, metavar="N", help="the order of the classes, from 1")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run's folder")
    one.set_defaults(do=command_run)

    many = commands.add_parser("compare", help="compare strategies over several runs and write an HTML report")
    what_to_run(many)
    many.add_argument("--strategies", required=True, help="names, with commas between them")
    runs_option(many)
    engine_options(many)
    many.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs' folders")
    many.set_defaults(do=command_compare)

    whole = commands.add_parser("pretrain", help="train a network on a source as one batch, and save its weights")
    what_to_run(whole)
    whole.add_argument("--half", action="store_true", help="write float16, half the bytes")
    whole.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .safetensors to write")
    whole.set_defaults(do=command_pretrain)


def _add_experiments(commands: Commands) -> None:
    again = commands.add_parser("reproduce", help="an experiment of the paper: learn, draw, and write its table")
    again.add_argument("name", help="see: everlearn list experiments")
    again.add_argument("--budget", choices=["cpu", "paper"], default="cpu", help="fewer epochs, or the paper's")
    runs_option(again)
    again.add_argument("--benchmark", help="in place of the experiment's own")
    knob_options(again)
    again.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="[NETWORK=]FILE",
        help="what the networks start from, or one of them; may be repeated: see pretrain and weights",
    )
    engine_options(again)
    place_options(again)
    again.add_argument("--checkpoint-every", type=seconds, default=30.0, metavar="S", help="seconds (default 30)")
    again.add_argument("--out", type=Path, metavar="DIR", help="default: runs/NAME, or runs/NAME-BENCHMARK-paper")
    again.set_defaults(do=command_reproduce)

    tune = commands.add_parser(
        "tune", help="search hyperparameters on run 1, freeze them, and run the others with them"
    )
    what_to_run(tune, held_out=0.2)
    tune.add_argument("--strategies", required=True, help="names, with commas between them")
    tune.add_argument("--trials", type=int, default=20, metavar="N", help="for every strategy (default 20)")
    tune.add_argument("--seeds", type=int, default=1, metavar="S", help="a trial's score is the mean over S seeds")
    tune.add_argument("--etas", type=float, nargs=2, default=[1e-4, 1e-1], metavar=("LOW", "HIGH"), help="range of η")
    tune.add_argument(
        "--score",
        choices=["patterns", "batches"],
        default="patterns",
        help="held-out accuracy with every pattern alike (default), or every batch",
    )
    tune.add_argument(
        "--start",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="what an earlier `tune` found: tried first, in place of the present settings; may be repeated",
    )
    tune.add_argument("--runs", type=at_least_one, metavar="R", help="then runs 1 to R with what was found")
    engine_options(tune)
    tune.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the search and of the runs")
    tune.set_defaults(do=command_tune)


def command_run(arguments: argparse.Namespace) -> None:
    """Learn one stream."""
    config = config_of(arguments, arguments.strategy, arguments.run)
    from everlearn.learning import parallel
    from everlearn.runs.progress import Bar
    from everlearn.runs.runner import run

    config = replace(config, device=parallel.own_device(config.device))
    ranks = parallel.join(config.device)
    with Bar(f"{config.strategy} {config.benchmark} run {config.run}") as bar:
        options: dict[str, Any] = {"checkpoint_every": arguments.checkpoint_every, "log": arguments.log}
        if ranks.first:
            options["on_progress"] = bar
        else:
            warnings.simplefilter("ignore", EverlearnWarning)  # the first process gives the same
        records = run(config, arguments.out, ranks=ranks, **options)
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
    with engine_from(arguments) as engine:
        compare(arguments, engine)


def compare(arguments: argparse.Namespace, engine: Any) -> None:
    """The same on an engine that is there."""
    names = [name.strip() for name in arguments.strategies.split(",")]
    configs = [config_of(arguments, name, run) for name in names for run in range(1, arguments.runs + 1)]
    from everlearn import figures, loggers, report
    from everlearn.runs.engine import check_configs, run_folder

    loggers.check(arguments.log)
    check_configs(configs)
    work = [(config, run_folder(arguments.out, config)) for config in configs]
    engine.run_all(work, checkpoint_every=arguments.checkpoint_every, log=arguments.log)
    page = report.write(arguments.out, pictures=figures.pictures)
    say(json.dumps(report.summary(arguments.out)) if arguments.json else report.table(arguments.out))
    tell(f"The page: {page}")


def command_pretrain(arguments: argparse.Namespace) -> None:
    """Train on everything at once; the run's folder stands beside the weights, and resumes."""
    from everlearn.recipes.known import BASELINE

    config = config_of(arguments, BASELINE, run=1)
    from everlearn.runs.pretrain import pretrain
    from everlearn.runs.progress import Bar

    with Bar(f"pre-training on {config.benchmark}") as bar:
        about = pretrain(
            config,
            arguments.out,
            half=arguments.half,
            checkpoint_every=arguments.checkpoint_every,
            on_progress=bar,
            log=arguments.log,
        )
    where = "held-out training patterns" if about.get("held_out") else "the test patterns"
    say(json.dumps(about) if arguments.json else f"{100 * about['accuracy']:.1f} % on {where}.")
    tell(f"The weights: {arguments.out}")


def command_reproduce(arguments: argparse.Namespace) -> None:
    """Learn what is left of an experiment, draw its figures and print its table."""
    from everlearn.experiments import reproduce
    from everlearn.experiments.reproduce import Order, described, folder_of

    order = Order(
        budget=arguments.budget,
        runs=arguments.runs,
        benchmark=arguments.benchmark,
        knobs=knobs_of(arguments),
        weights=tuple(arguments.weights),
        device=arguments.device,
        threads=arguments.threads,
        cpus=arguments.cpus,
        gpus=arguments.gpus,
    )
    tell(described(arguments.name, order))
    out = arguments.out or folder_of(arguments.name, order)
    with engine_from(arguments) as engine:
        written = reproduce(arguments.name, out, order, engine=engine, checkpoint_every=arguments.checkpoint_every)
    for path in written:
        if path.suffix == ".md":
            say(path.read_text())
        tell(str(path))


def command_tune(arguments: argparse.Namespace) -> None:
    """Search for several strategies, write what was found, and run with it."""
    check_log(arguments)
    with engine_from(arguments) as engine:
        tune(arguments, engine)


def tune(arguments: argparse.Namespace, engine: Any) -> None:
    """The same on an engine that is there."""
    from everlearn.runs.config import read_settings
    from everlearn.runs.engine import check_configs
    from everlearn.tuning import Search, search_all, write_settings

    names = [name.strip() for name in arguments.strategies.split(",")]
    options = {
        "trials": arguments.trials,
        "seeds": arguments.seeds,
        "etas": tuple(arguments.etas),
        "score": arguments.score,
    }
    searches = [
        Search(
            config_of(arguments, name, run=1),
            starts=tuple(read_settings(path, name) for path in arguments.start),
            checkpoint_every=arguments.checkpoint_every,
            **options,
        )
        for name in names
    ]
    check_configs(search.config for search in searches)
    found = search_all(searches, arguments.out / "search", engine=engine)
    path = arguments.out / "settings.json"
    write_settings(path, searches[0], found)
    if arguments.json:
        say(json.dumps(found))
    else:
        for name, result in found.items():
            score, knobs = 100 * result["score"], result["knobs"]
            say(f"{name:<12} {score:5.1f} % on held-out data, trial {result['trial']}: {knobs}")
    tell(f"The settings: {path}")
    if arguments.runs:
        arguments.settings, arguments.held_out, arguments.batches = path, 0.0, None
        arguments.out = arguments.out / "runs"
        compare(arguments, engine)


def check_log(arguments: argparse.Namespace) -> None:
    """Trials are scored and removed: a search logs the runs that follow it."""
    from everlearn import loggers

    if arguments.log and not arguments.runs:
        raise ConfigError(
            sentence(
                "--log has nothing to log",
                expected="runs after the search, since trials are scored and removed",
                got="no --runs",
                do="Give --runs, or leave --log out.",
            )
        )
    loggers.check(arguments.log)
