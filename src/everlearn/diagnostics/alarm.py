"""An alarm: what is wrong, where, by which numbers, and which way to turn."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from everlearn.diagnostics.thresholds import OFTEN

Severity = Literal["red", "amber"]
RANK: dict[str, int] = {"red": 0, "amber": 1}


@dataclass(frozen=True)
class Alarm:
    """One thing to look at in a run.

    name: one of `everlearn.diagnostics.NAMES`; batches: those concerned; evidence: the numbers behind it, one value or
    one for each batch; said: what is seen, in a sentence; do: the direction to turn. Layers' names may stand in `said`
    and come from a record: whoever shows it on a page or a terminal escapes it.
    """

    name: str
    severity: Severity
    batches: tuple[int, ...]
    said: str
    do: str
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """All of it in words."""
        return f"{self.said} {self.do}"

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "severity": self.severity,
            "batches": list(self.batches),
            "said": self.said,
            "do": self.do,
            "evidence": self.evidence,
        }


def severity(batches: Sequence[int], of: int, *, last: bool = True) -> Severity:
    """How bad it is that something holds after these batches of a run that came to batch `of`.

    last: whether it is bad already if it holds after that one: not for what concerns only the newest classes.

    >>> severity([2], 9), severity([2, 3, 4, 5], 9), severity([9], 9), severity([9], 9, last=False)
    ('amber', 'red', 'red', 'amber')
    """
    return "red" if (last and of in batches) or len(batches) >= OFTEN * (of - 1) else "amber"


def named(batches: Sequence[int]) -> str:
    """Batches in words, neighbours drawn together.

    >>> named([4]), named([2, 3]), named([2, 4, 5, 6, 9])
    ('B_4', 'B_2 and B_3', 'B_2, B_4 to B_6 and B_9')
    """
    spans: list[list[int]] = []
    for i in sorted(batches):
        if spans and i == spans[-1][-1] + 1:
            spans[-1].append(i)
        else:
            spans.append([i])
    parts = [part for span in spans for part in _span(span)]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _span(span: list[int]) -> list[str]:
    return [f"B_{span[0]} to B_{span[-1]}"] if len(span) > 2 else [f"B_{i}" for i in span]


def percent(share: float) -> str:
    """A share in per cent, with a decimal only where it says something; not quite all is never 100 %.

    >>> [percent(share).replace("\\xa0", " ") for share in (0.834, 0.0042, 0.9996, 1.0)]
    ['83 %', '0.4 %', '99.96 %', '100 %']
    """
    for digits in (0, 1, 2, 3):
        text = f"{100 * share:.{digits}f}"
        if (0 < float(text) < 100 or share in (0.0, 1.0)) and (digits or not 0 < share < 0.01):
            return f"{text}\N{NO-BREAK SPACE}%"
    return f"{100 * share:.3g}\N{NO-BREAK SPACE}%"
