"""Who takes part, and which of Avalanche's strategies is the counterpart of which preset."""

import shutil
from dataclasses import dataclass

from everlearn.recipes.known import KNOWN

COMPILED = "plain channels_last fused, compiled"
PLAIN = (
    "plain",
    "plain channels_last",
    "plain channels_last foreach",
    "plain channels_last fused",
    "plain fused",
    *([COMPILED] if any(map(shutil.which, ("c++", "g++", "clang++"))) else []),
)
FROZEN = ("fw", "cw", "cwr", "cwr+", "cwr*")
COUNTERPART = {
    "naive": "Naive",
    "si": "SynapticIntelligence",
    "ewc": "EWC",
    "lwf": "LwF",
    "cumulative": "Cumulative",
    "cwr": "CWRStar",
    "cwr+": "CWRStar",
    "cwr*": "CWRStar",
}


@dataclass(frozen=True, order=True)
class Entry:
    """A program (a module here), who it is to be, and the job that it is to do."""

    program: str
    name: str
    job: str

    @property
    def key(self) -> str:
        """Its name in what is stored."""
        return f"{self.program}: {self.name}: {self.job}"


def entries(without: set[str], only: set[str], plain: tuple[str, ...] = ()) -> list[Entry]:
    """All contestants, or those of programs that are not left out and, where names are given, of these names.

    plain: the loops that train, all if none are named.
    """
    everybody = [
        *(Entry("plain", name, "train") for name in plain or PLAIN),
        *(Entry("plain", name, "evaluate") for name in PLAIN[:2]),
        *(Entry("plain", name, "look") for name in PLAIN[:2]),
        *(Entry("ours", name, "frozen" if name in FROZEN else "train") for name in KNOWN),
        *(Entry("ours", name, "evaluate") for name in ("naive", "ar1")),
        *(Entry("avalanche", name, "frozen" if name == "CWRStar" else "train") for name in _counterparts()),
        Entry("avalanche", "Naive", "evaluate"),
    ]
    kept = [entry for entry in everybody if entry.program not in without]
    return [entry for entry in kept if not only or entry.program == "plain" or entry.name in only]


def _counterparts() -> list[str]:
    return sorted(set(COUNTERPART.values()))
