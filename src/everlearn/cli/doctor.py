"""The command that says in words what a run shows."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everlearn.cli.options import Commands, say

if TYPE_CHECKING:
    from everlearn.records import Run

ENOUGH = 2
"""Batches from which on no alarm is good news."""
RED = 3
"""The exit code where any alarm is red."""


def add(commands: Commands) -> None:
    """This command and its options."""
    doctor = commands.add_parser(
        "doctor", help="say what went wrong in runs, and which setting to change; exit code 3 if any alarm is red"
    )
    doctor.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder, or a folder of runs")
    doctor.add_argument(
        "--among", type=Path, metavar="DIR", help="where Naive runs and repeats are looked for too; no alarms for those"
    )
    doctor.add_argument("--json", action="store_true", help="print JSON: a list of runs with their alarms")
    doctor.set_defaults(do=command_doctor)


def command_doctor(arguments: argparse.Namespace) -> int:
    """Print the alarms of all runs named."""
    from everlearn.diagnostics import Among, alarms, unchecked

    runs = _read(arguments.runs)
    among = Among([*runs, *(_read([arguments.among]) if arguments.among else [])])
    found = [(run, alarms(run, among), unchecked(run, among)) for run in runs]
    if arguments.json:
        said = [{**_about(run), "alarms": [one.to_json() for one in a], "unchecked": u} for run, a, u in found]
        say(json.dumps(said, ensure_ascii=False, indent=1))
    else:
        for run, listed, missing in found:
            say(_words(run, listed, missing))
    return RED if any(alarm.severity == "red" for _, listed, _ in found for alarm in listed) else 0


def _read(folders: list[Path]) -> list["Run"]:
    """All runs in these folders, each once."""
    from everlearn.records import read

    runs = [run for folder in folders for run in read(folder)]
    return list({run.folder.resolve() if run.folder else run.place: run for run in runs}.values())


def _about(run: "Run") -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "benchmark": run.benchmark,
        "strategy": run.strategy,
        "run": run.number,
        "batches": len(run.records),
        "of": run.of,
    }


def _words(run: "Run", listed: list[Any], missing: list[str]) -> str:
    """A run's alarms for a terminal, with nothing in them that it could obey."""
    from everlearn.diagnostics import NAMES
    from everlearn.report.markup import plain

    lines = [f"{run.strategy} on {run.benchmark}, run {run.number}, {run.progress}: {run.folder}"]
    lines += [f"  {alarm.severity.upper()}  {NAMES[alarm.name]}. {alarm.sentence}" for alarm in listed]
    if not listed and len(run.records) < ENOUGH:
        lines.append("  No alarm yet: with fewer than two batches there is nothing to judge forgetting by.")
    elif not listed:
        lines.append("  GREEN  No alarm: old classes are kept, new ones are learnt, and nothing else stands out.")
    lines += [f"  not checked  {why}" for why in missing]
    return "".join(plain(line).replace("\n", " ") + "\n" for line in lines)
