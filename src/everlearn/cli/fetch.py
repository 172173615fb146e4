"""Commands that bring data and weights in."""

import argparse
from pathlib import Path

from everlearn.cli.options import Commands, say, tell


def add(commands: Commands) -> None:
    """These commands and their options."""
    data = commands.add_parser("data", help="get a benchmark's data, so that runs find it in place")
    data.add_argument("action", choices=["get"])
    data.add_argument("name", help="a benchmark's name; core50 for the files of all of CORe50's benchmarks")
    data.set_defaults(do=command_data)

    weights = commands.add_parser(
        "weights", help="import Caffe's or PyTorch's weights for a network, into a file of ours"
    )
    weights.add_argument("file", type=Path, help=".caffemodel, .safetensors, .pth or .pt")
    weights.add_argument("--model", required=True, metavar="NAME", help="the network that the weights are for")
    weights.add_argument("--classes", type=int, metavar="N", help="default: the network's usual number")
    weights.add_argument("--half", action="store_true", help="write float16, half the bytes")
    weights.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .safetensors to write")
    weights.add_argument("--json", action="store_true", help="print the report as JSON")
    weights.set_defaults(do=command_weights)


def command_data(arguments: argparse.Namespace) -> None:
    """Get a benchmark's data, and what its network is pre-trained with."""
    if arguments.name == "core50":
        from everlearn.data.core50_fetch import fetch

        say(fetch())
        return
    from everlearn.benchmarks import prepare
    from everlearn.recipes.known import BASELINE

    stream, test, _ = prepare(arguments.name, strategy=BASELINE)
    patterns = sum(map(len, stream.indices))
    say(f"{arguments.name}: {patterns} training patterns in {len(stream)} batches, {len(test)} test patterns.")


def command_weights(arguments: argparse.Namespace) -> None:
    """Import weights, print what became of each tensor and write what was taken."""
    from everlearn.weights import convert

    call = arguments
    report = convert(call.file, call.model, call.out, classes=call.classes, half=call.half)
    say(report.to_json() if call.json else str(report))
    tell(f"The weights: {call.out}")
