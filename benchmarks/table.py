"""What was measured as Markdown, and the page that shows it filled from the stored JSON.

    python -m benchmarks.table docs/performance.md docs/performance

Numbers come from JSON alone: the page has a pair of comments around each table, and what is between them is replaced.
"""

import argparse
import json
import re
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from benchmarks import folder, long_stream, memory_kept, start
from benchmarks.contestants import COUNTERPART
from benchmarks.worker import FISHER
from everlearn._kit.files import write_atomically

Result = dict[str, Any]
MB = 1e6
OTHERS = {module.__name__.rpartition(".")[2]: module.lines for module in (folder, long_stream, memory_kept, start)}
"""What shows measurements other than those of contestants."""


class Row(NamedTuple):
    """One contestant's figures: seconds of every round, those of parts and of a minibatch, and peak memory in bytes.

    Seconds are those of a machine on which a step of the floor always takes its median: each round's are divided by
    what a step of the floor took between the contestant's own.
    """

    program: str
    name: str
    job: str
    seconds: list[float]
    parts: dict[str, list[float]]
    steps: list[float]
    peak: int
    start: int

    @property
    def step(self) -> float | None:
        """A minibatch alone, without what a batch costs before the first and after the last."""
        return median(self.steps) if self.steps else None

    @property
    def has_fisher(self) -> bool:
        """Whether it has a Fisher pass."""
        return "ewc" in self.name.lower()

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def own(self) -> int:
        """The memory that came after everything was imported and the data made."""
        return self.peak - self.start

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / 2 / self.median


class Goal(NamedTuple):
    """What we want to reach: a figure, and the limit that it must not pass."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


class Table:
    """The figures of one measurement; clock: `seconds`, or `cpu`, processors' time, which others disturb less."""

    def __init__(self, result: Result, clock: str = "seconds") -> None:
        self.result = result
        step = median(answer["floor"][clock] for one in result["contestants"] for answer in one["answers"])
        self.rows = {}
        for one in result["contestants"]:
            answers, names = one["answers"], (one["program"], one["name"], one["job"])
            speeds = [step / answer["floor"][clock] for answer in answers]
            seconds = [answer[clock] * speed for answer, speed in zip(answers, speeds, strict=True)]
            parts = {
                part: [answer["parts"][part][clock] * speed for answer, speed in zip(answers, speeds, strict=True)]
                for part in answers[0]["parts"]
            }
            steps = [a["step"][clock] * speed for a, speed in zip(answers, speeds, strict=True) if a.get("step")]
            self.rows[names] = Row(*names, seconds, parts, steps, one["peak"], one["start"])

    def floor(self, job: str) -> Row | None:
        """The fastest plain loop; what trains the output layer alone is beside training all."""
        job = "train" if job == "frozen" else job
        plain = [row for row in self.rows.values() if row.program == "plain" and row.job == job]
        return min(plain, key=lambda row: row.median) if plain else None

    def counterpart(self, row: Row) -> Row | None:
        """Avalanche's strategy beside one of ours."""
        name = "Naive" if row.job == "evaluate" else COUNTERPART.get(row.name, "")
        return self.rows.get(("avalanche", name, row.job)) if row.program == "ours" else None

    def lines(self) -> list[str]:
        """The table, a line a contestant."""
        head = [
            "contestant",
            "job",
            "ms a minibatch",
            "× floor",
            "± %",
            "a step alone, × floor",
            "Avalanche's / ours",
            "peak MB",
            "of it MB",
            "× floor",
        ]
        lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
        for row in self.rows.values():
            floor, other = self.floor(row.job), self.counterpart(row)
            cells = [
                f"{row.program}: {row.name}" if row.program != "plain" else row.name,
                row.job,
                f"{1000 * self.a_minibatch(row):.1f}",
                "" if floor is None else f"{self.a_minibatch(row) / self.a_minibatch(floor):.2f}",
                f"{100 * row.spread:.0f}",
                "" if floor is None or not (row.step and floor.step) else f"{row.step / floor.step:.2f}",
                "" if other is None else f"{other.median / row.median:.2f}",
                f"{row.peak / MB:.0f}",
                f"{row.own / MB:.0f}",
                "" if floor is None else f"{row.own / max(1, floor.own):.2f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
        return lines

    def a_minibatch(self, row: Row) -> float:
        """Seconds for a minibatch of the job; Cumulative trains on B_1's two as well."""
        steps: int = self.result["steps"][row.job]
        if row.name.lower() == "cumulative":
            steps += 2 * self.result["epochs"]
        return row.median / steps

    def goals(self) -> list[Goal]:
        """The goals that this measurement has figures for."""
        return [*self._against_the_floor(), *self._against_avalanche(), *self._evaluation()]

    def _against_the_floor(self) -> list[Goal]:
        floor, look = self.floor("train"), self.floor("look")
        if floor is None:
            return []
        goals = []
        for name in ("naive", "si", "ar1"):
            if row := self.rows.get(("ours", name, "train")):
                goals.append(self._beside(row, floor))
        if (row := self.rows.get(("ours", "lwf", "train"))) and look is not None:
            goals.append(self._beside(row, floor, look.median))
        if row := self.rows.get(("ours", "ewc", "train")):
            (_, plain), words = self._batches(row, floor)
            epochs = self.result["usual"][1] if words else self.result["epochs"]
            passed = median(row.parts["consolidate"]) + (self._more_fisher(row) if words else 0)
            goals.append(Goal(f"ewc's Fisher pass / an epoch of the plain loop{words}", passed / (plain / epochs), 1))
        return goals

    def _more_fisher(self, row: Row) -> float:
        """Seconds more for a Fisher pass over the minibatches of a usual epoch; none where there is no such pass."""
        if not row.has_fisher:
            return 0.0
        steps, epochs = self.result["usual"]
        more: float = steps / epochs - self.result["steps"]["train"] / self.result["epochs"]
        return more * median(row.parts[FISHER])

    def _beside(self, row: Row, floor: Row, less: float = 0.0) -> Goal:
        """A batch, less a bare forward pass, beside the plain loop's."""
        (seconds, plain), words = self._batches(row, floor)
        what = f"({row.name} − a bare forward pass)" if less else row.name
        return Goal(f"{what} / plain loop{words}", (seconds - less) / plain, 1.05)

    def _batches(self, *rows: Row) -> tuple[list[float], str]:
        """Seconds of each one's batch, as it was measured or with the usual number of steps; and that in words.

        As measured also where it is not known what a step took, or a minibatch of EWC's Fisher pass.
        """
        usual, measured = self.result.get("usual"), self.result["steps"]["train"]
        known = all(row.step and (FISHER in row.parts or not row.has_fisher) for row in rows)
        if not usual or not known or any(row.job != "train" for row in rows):
            return [row.median for row in rows], ""
        more = [(usual[0] - measured) * (row.step or 0.0) + self._more_fisher(row) for row in rows]
        seconds = [row.median + extra for row, extra in zip(rows, more, strict=True)]
        return seconds, f", a batch of {usual[0]} steps"

    def _against_avalanche(self) -> list[Goal]:
        goals = []
        for row in self.rows.values():
            if (other := self.counterpart(row)) is not None and row.job != "evaluate":
                least = 10.0 if row.name in ("cwr", "cwr+") else 1.0
                (ours, theirs), words = self._batches(row, other)
                goals.append(Goal(f"Avalanche's {other.name} / {row.name}{words}", theirs / ours, least, at_least=True))
        return goals

    def _evaluation(self) -> list[Goal]:
        floor = self.floor("evaluate")
        rows = [row for row in self.rows.values() if row.program == "ours" and row.job == "evaluate"]
        if floor is None:
            return []
        return [
            Goal(f"{row.name}'s evaluation rate / bare", floor.median / row.median, 0.95, at_least=True) for row in rows
        ]

    def goal_lines(self) -> list[str]:
        """The goals as a table."""
        lines = ["| goal | limit | measured | reached |", "|---|---:|---:|---|"]
        for goal in self.goals():
            sign = "≥" if goal.at_least else "≤"
            lines.append(
                f"| {goal.what} | {sign} {goal.limit:g} | {goal.value:.3g} | {'yes' if goal.reached else '**no**'} |"
            )
        return lines


def markdown(result: Result, clock: str = "seconds") -> str:
    """Everything that a reader wants of one measurement."""
    table = Table(result, clock)
    versions = {f"{name} {version}" for packages in result["versions"].values() for name, version in packages.items()}
    about = (
        f"`{result['size']}`: medians of {result['rounds']} rounds, {result['threads']} threads, {result['machine']}; "
        f"{', '.join(sorted(versions))}; {result['when'][:10]}."
    )
    return "\n".join([about, "", *table.lines(), "", *table.goal_lines()])


def fill(page: str, results: dict[str, Result]) -> str:
    """The page with what stands between <!-- measured: NAME --> and <!-- end --> replaced."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        show = OTHERS.get(name, markdown)
        shown = show(results[name]) if name in results else "Not measured yet."
        return f"<!-- measured: {name} -->\n\n{shown}\n\n<!-- end -->"

    return re.sub(r"<!-- measured: (\S+) -->.*?<!-- end -->", replaced, page, flags=re.DOTALL)


def main() -> None:
    """Fill a page, or print one measurement."""
    parser = argparse.ArgumentParser(description="Fill the page from what was measured.")
    parser.add_argument("page", type=Path, help="the Markdown page, or one measurement's JSON to print")
    parser.add_argument("folder", type=Path, nargs="?", help="of the measurements' JSON")
    parser.add_argument("--clock", choices=["seconds", "cpu"], default="seconds", help="for printing")
    arguments = parser.parse_args()
    if arguments.folder is None:
        print(markdown(json.loads(arguments.page.read_text()), arguments.clock))
        return
    results = {path.stem: json.loads(path.read_text()) for path in sorted(arguments.folder.glob("*.json"))}
    write_atomically(arguments.page, fill(arguments.page.read_text(), results).encode())


if __name__ == "__main__":
    main()
