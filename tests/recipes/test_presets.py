"""The presets: their slots, and the paper's Tables 4 and 5, cell by cell."""

import re
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from everlearn import PRESETS, Slots, build, preset
from everlearn.errors import NetworkError
from everlearn.heads import CWR, CWRStar, Plain
from everlearn.models import cifarnet
from everlearn.recipes.known import KNOWN
from everlearn.recipes.paper import PAPER
from everlearn.regularisers import EWC, LWF, SI, Freeze, NoRegulariser
from tests.toys import plain_network

PAPER_TEX = Path(__file__).parents[3] / "shared" / "paper" / "ar1.tex"

# The paper's two tables, transcribed row by row: strategy | row | CaffeNet | GoogLeNet | CifarNet
TABLES = """
Cumulative | epochs, eta | 4, 0.0025 | 4, 0.0025 | 180, 0.005
Naive | Head | Maximal | Maximal | Maximal
Naive | B_1 | 2, 0.0003 | 4, 0.005 | 60, 0.001
Naive | B_i | 2, 0.0003 | 2, 0.0003 | 60, 0.001
LWF | Head | Expanding | Expanding | Expanding
LWF | map | [0.66...0.9] -> [0.45...0.85] | [0.66...0.9] -> [0.45...0.85] | [0.5...0.9] -> [0.45...0.85]
LWF | B_1 | 2, 0.0003 | 4, 0.0003 | 20, 0.001
LWF | B_i | 2, 0.0002 | 2, 0.0002 | 20, 0.001
EWC | Head | Maximal | Maximal | Maximal
EWC | max_F | 0.001 | 0.001 | 0.001
EWC | lambda | 5.0e7 | 3.4e7 | 8.0e7
EWC | B_1 | 2, 0.001 | 4, 0.002 | 60, 0.001
EWC | B_i | 2, 0.000025 | 2, 0.000035 | 25, 0.00002
SI | Head | Maximal | Maximal | Maximal
SI | xi | 1e-7 | 1e-7 | 1e-7
SI | w | 0.00001, 0.005 | 0.00001, 0.005 | 0.00001, 0.00175
SI | max_F | 0.001 | 0.001 | 0.001
SI | lambda | 5.0e7 | 3.4e7 | 6.0e7
SI | B_1 | 2, 0.001 | 4, 0.002 | 60, 0.0005
SI | B_i | 2, 0.00002 | 2, 0.000035 | 60, 0.00002
CWR | Head | Maximal | Maximal | Maximal
CWR | w | 1.25, 1 | 1, 1 | 1, 1
CWR | B_1 | 2, 0.0003 | 4, 0.0003 | 60, 0.001
CWR | B_i | 2, 0.0003 | 2, 0.0003 | 60, 0.001
CWR+ | Head | Maximal | Maximal | Maximal
CWR+ | B_1 | 2, 0.0003 | 4, 0.0003 | 60, 0.001
CWR+ | B_i | 2, 0.0003 | 2, 0.0003 | 60, 0.001
AR1 | Head | Maximal | Maximal | Maximal
AR1 | xi | 1e-7 | 1e-7 | 1e-7
AR1 | w | 0.0015, 0.0015 | 0.0015, 0.0015 | 0.00015, 0.000005
AR1 | max_F | 0.001 | 0.001 | 0.001
AR1 | lambda | 8.0e5 | 8.0e5 | 4.0e5
AR1 | B_1 | 2, 0.0003 | 4, 0.0003 | 60, 0.001
AR1 | B_i | 2, 0.0003 | 2, 0.0003 | 60, 0.001
"""
SETTINGS = ("caffenet/core50", "googlenet/core50", "cifarnet/icifar-100")
CELLS = [
    (strategy, row, setting, cell)
    for strategy, row, *cells in ([part.strip() for part in line.split("|")] for line in TABLES.split("\n") if line)
    for setting, cell in zip(SETTINGS, cells, strict=True)
]


def of_preset(slots: Slots, row: str) -> Any:
    """The preset's value for a row of the tables."""
    first, later = slots.training.first, slots.training.later
    of_w = slots.head if isinstance(slots.regulariser, Freeze) else slots.regulariser
    if row in ("map", "xi", "max_F", "lambda"):
        return getattr(slots.regulariser, {"lambda": "lam"}.get(row, row))
    return {
        "Head": slots.head.growth,
        "B_1": (first.epochs, first.eta),
        "B_i": (later.epochs, later.eta),
        "epochs, eta": (later.epochs, later.eta) if first == later else "B_1 and B_i differ",
        "w": (getattr(of_w, "w_1", None), getattr(of_w, "w_i", None)),
    }[row]


def of_cell(cell: str, row: str) -> Any:
    """The value that a cell of the tables prints."""
    if row == "Head":
        return cell.lower()
    numbers = tuple(float(n) for n in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", cell.replace("...", " ")))
    if row == "map":
        return (numbers[:2], numbers[2:])
    return numbers if len(numbers) > 1 else numbers[0]


def test_the_transcription_has_every_cell() -> None:
    assert len(CELLS) == 34 * 3


@pytest.mark.parametrize(("strategy", "row", "setting", "cell"), CELLS)
def test_the_paper_s_tables(strategy: str, row: str, setting: str, cell: str) -> None:
    assert of_preset(preset(strategy.lower(), setting), row) == of_cell(cell, row)


@pytest.mark.skipif(not PAPER_TEX.exists(), reason="the paper's source is not at hand")
def test_the_transcription_is_that_of_the_paper() -> None:
    """Every row of the paper's two tables, in order, against the transcription."""
    text = PAPER_TEX.read_text()
    names = {"epochs,": "epochs, eta", "Head": "Head", "$map$": "map", "$B_1$:": "B_1", "$B_i,": "B_i", "$w_1,": "w"}
    names |= {"$max_F$": "max_F", "$\\lambda$": "lambda", "$\\xi$": "xi"}
    found: dict[str, list[list[str]]] = {"hyper_core50": [], "hyper_icifar100": []}
    for label, rows in found.items():
        table = text[text.index(f"\\label{{tab:{label}}}") :]
        strategy = ""
        for line in table[: table.index("\\end{longtable}")].split("\n"):
            if title := re.search(r"\\multicolumn\{\d\}\{c\}\{\\textbf\{(.+?)\}\}", line):
                strategy = title[1]
            elif "&" in line and "multicolumn" not in line:
                name, *cells = (part.strip() for part in line.rstrip("\\ \t").split("&"))
                rows.append([strategy, names[name.split()[0]], *(c.replace("$\\rightarrow$", "->") for c in cells)])
    core50, icifar = found.values()
    ours = [[part.strip() for part in line.split("|")] for line in TABLES.split("\n") if line]
    assert [row[:4] for row in ours] == [[c.strip() for c in row] for row in core50]
    assert [[*row[:2], row[4]] for row in ours] == [[c.strip().rstrip("\\").strip() for c in row] for row in icifar]


def test_every_setting_has_every_strategy() -> None:
    tables = set.intersection(*(set(knobs) for knobs in PAPER.values()))
    assert tables == {name for name in PRESETS if KNOWN[name].like is None}
    for setting in PAPER:
        for name in PRESETS:
            slots = preset(name, setting)
            assert slots.training.minibatch == (256 if setting.startswith("caffenet") else 64)
            assert (slots.training.bias_eta, slots.training.bias_decay) == (2.0, 0.0)
            assert not slots.training.reshuffle


@pytest.mark.parametrize(
    ("name", "head", "regulariser", "memory"),
    [
        ("naive", Plain, NoRegulariser, "none"),
        ("cumulative", Plain, NoRegulariser, "everything"),
        ("lwf", Plain, LWF, "none"),
        ("ewc", Plain, EWC, "none"),
        ("si", Plain, SI, "none"),
        ("fw", Plain, Freeze, "none"),
        ("cw", Plain, Freeze, "none"),
        ("cwr", CWR, Freeze, "none"),
        ("cwr+", CWR, Freeze, "none"),
        ("ar1", CWR, SI, "none"),
        ("ar1-ewc", CWR, EWC, "none"),
        ("ar1-lwf", CWR, LWF, "none"),
        ("cwr*", CWRStar, Freeze, "none"),
        ("ar1*", CWRStar, SI, "none"),
    ],
)
def test_the_slots_of_each_preset(name: str, head: type, regulariser: type, memory: str) -> None:
    for setting in (None, *PAPER):
        slots = preset(name, setting)
        assert type(slots.head) is head
        assert type(slots.regulariser) is regulariser
        assert slots.memory.name == memory
        if isinstance(slots.head, CWR | CWRStar):
            plus = name != "cwr"
            assert (slots.head.init == "zero") == plus
            assert (slots.head.shift == "batch") == plus


def test_ar1_is_cwr_plus_with_one_slot_swapped() -> None:
    ar1, swapped = (
        preset("ar1"),
        preset("cwr+", knobs={"regulariser": "si", "si.lam": 1.5e4, "si.w_1": 1e-4, "si.w_i": 1e-4}),
    )
    assert ar1 == swapped


def test_learners_share_nothing() -> None:
    a, b = (build("ar1", plain_network()) for _ in range(2))
    assert a.head is not b.head
    assert a.regulariser is not PRESETS["ar1"].regulariser


def test_the_paper_s_preset_fits_its_network() -> None:
    learner = build("ar1", cifarnet(classes=100), setting="cifarnet/icifar-100")
    assert learner.storage().paper == 100 * 512 + 2 * (1_297_028 - 100 * 512)
    assert learner.storage().formula == "s·pn + 2·(m − s·pn)"


def test_a_module_that_is_no_network_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"expected an everlearn.models.Network, got Linear\. Wrap a module"):
        build("ar1", nn.Linear(2, 2))  # type: ignore[arg-type]
