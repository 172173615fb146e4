"""The command that takes a model out of a run."""

import argparse
import json
from pathlib import Path

from everlearn.cli.options import Commands, say, tell


def add(commands: Commands) -> None:
    """This command and its options."""
    model = commands.add_parser("model", help="take the learner out of a run, as one file that can be taught further")
    model.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    model.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write: NAME.everlearn")
    model.add_argument("--json", action="store_true", help="print what the file says of itself as JSON")
    model.set_defaults(do=command_model)


def command_model(arguments: argparse.Namespace) -> None:
    """Write the file, and say what is in it."""
    from everlearn.runs.model import take_model

    header = take_model(arguments.run, arguments.out)
    if arguments.json:
        say(json.dumps(header))
    else:
        say(f"{header['recipe']['name']}, {header['batches']} batches, {header['classes']} classes.")
    tell(f"The model: {arguments.out}. In Python: everlearn.load({str(arguments.out)!r})")
