"""Made-up but plausible runs on disk, for the tests of the report."""

import json
import re
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from everlearn import report

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Browser
    from playwright.sync_api import Dialog, Page

STRATEGIES = ("naive", "cumulative", "lwf", "ewc", "si", "cwr", "cwr+", "ar1")
Written = dict[tuple[str, str], list[list[dict[str, Any]]]]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</style><b>\x1b[31m\u202e\ud800",
    "'&amp;`${1}",
)
BENCHMARKS = {"mini50": (10, *[5] * 8), "digits": (4, 3, 3)}
PATTERNS = 36  # of each class in the test set
SKILL = {"naive": 0.0, "cumulative": 1.0, "lwf": 0.45, "ewc": 0.36, "si": 0.3, "cwr": 0.55, "cwr+": 0.66, "ar1": 0.78}
PAPER = {"ewc": "2·m", "si": "2·m", "lwf": "n_i·s", "cwr": "s·pn", "cwr+": "s·pn", "ar1": "2·m + s·pn"}


def batches_of(sizes: Sequence[int], run: int) -> list[list[int]]:
    order = np.random.default_rng(run).permutation(sum(sizes)).tolist()
    cuts = np.cumsum(sizes)
    return [order[end - size : end] for end, size in zip(cuts, sizes, strict=True)]


def toy_confusion(strategy: str, run: int, i: int, sizes: Sequence[int]) -> NDArray[np.int64]:
    """A confusion matrix after B_i. Newer classes are recognised better, by how much a strategy forgets."""
    arrived = np.cumsum(sizes)
    seen, n = int(arrived[i - 1]), sum(sizes)
    rng = np.random.default_rng([run, i, *strategy.encode("utf-8", "replace")])
    confusion = np.zeros((n, n), dtype=np.int64)
    skill = SKILL.get(strategy, 0.5)
    for row in range(n):
        age = i - 1 - int(np.searchsorted(arrived, row, side="right"))
        right = 0.0 if row >= seen else 0.88 * (1.0 if age == 0 else skill * 0.985**age)
        newest = np.zeros(n)
        newest[int(arrived[i - 2]) if i > 1 else 0 : seen] = 1 - skill
        p = newest + 0.03 * (np.arange(n) < seen) + 1e-9
        p = (1 - right) * p / p.sum()
        p[row] += right
        confusion[row] = rng.multinomial(PATTERNS, p / p.sum())
    return confusion


def toy_storage(strategy: str, seen: int, s: int, m: int = 240_000, pn: int = 64) -> dict[str, Any]:
    """What the strategy keeps, and what the paper says it does."""
    formula = PAPER.get(strategy, "0")
    values = {"2·m": 2 * m, "n_i·s": 400 * s, "s·pn": s * pn, "2·m + s·pn": 2 * m + s * pn, "0": 0}[formula]
    storage = {"network": 4 * m, "sgd.v": 4 * m}
    if "2·m" in formula:
        storage |= {"regulariser.F_": 4 * m, "regulariser.theta_star_": 4 * m}
    if "s·pn" in formula:
        storage |= {"head.cw_": 4 * (s * pn + s)}
    if strategy == "cumulative":
        storage |= {"memory.batch_": 3072 * 96 * seen}
    return {"storage": storage, "storage_paper": {"formula": formula, "values": values}}


def toy_record(benchmark: str, strategy: str, run: int, i: int, sizes: Sequence[int]) -> dict[str, Any]:
    """One batch's record."""
    batches = batches_of(sizes, run)
    seen = sum(sizes[:i])
    confusion = toy_confusion(strategy, run, i, sizes)
    right = np.diag(confusion)
    rng = np.random.default_rng([run, i])
    return {
        "benchmark": benchmark,
        "strategy": strategy,
        "run": run,
        "i": i,
        "of": len(sizes),
        "classes": batches[i - 1],
        "order": [c for batch in batches for c in batch],
        "batches": batches,
        "accuracy": float(right.sum() / confusion.sum()),
        "accuracy_seen": float(right[:seen].sum() / confusion[:seen].sum()),
        "accuracy_mt": [float(rng.uniform(0.85, 0.99)) for _ in range(i)],
        "confusion": confusion.tolist(),
        "confusion_mt": confusion.tolist(),
        "lam": 1.5e4 if strategy in {"ewc", "si", "ar1"} else None,
        "importance": None,
        "change": {"conv1": 1e-4, "fc": 2e-4},
        "seconds_train": float((3.1 + (2.4 * (i - 1) if strategy == "cumulative" else 0)) * rng.uniform(0.95, 1.05)),
        "seconds_eval": float(rng.uniform(0.6, 0.7)),
        **toy_storage(strategy, seen, sum(sizes)),
    }


def toy_config(benchmark: str, strategy: str, run: int, sizes: Sequence[int], **other: Any) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "strategy": strategy,
        "run": run,
        "setting": None,
        "network": "small",
        "seed": run,
        "threads": 1,
        "knobs": {"training": {"first": {"epochs": 2}}},
        "command": f"everlearn run {benchmark} {strategy} --run {run}",
        "versions": {"everlearn": "0.1.0", "torch": "2.13.0", "numpy": "2.4.6", "python": "3.11.2"},
        "machine": {"cores": 2, "system": "Linux"},
        "synthetic": benchmark == "mini50",
        "about": f"{sum(sizes)} toys",
        "held_out": 0.0,
        "class_names": [f"object {c}" for c in range(sum(sizes))],
        **other,
    }


def write_run(
    folder: Path,
    benchmark: str = "digits",
    strategy: str = "ar1",
    run: int = 1,
    *,
    upto: int | None = None,
    config: bool = True,
    sizes: Sequence[int] | None = None,
    change: dict[str, Any] | None = None,
    **other: Any,
) -> Path:
    """One run's folder. upto: the last batch it lived to see; change: fields of its records; other: of its config."""
    sizes = sizes or BENCHMARKS.get(benchmark, BENCHMARKS["digits"])
    folder.mkdir(parents=True)
    last = len(sizes) if upto is None else upto
    records = [toy_record(benchmark, strategy, run, i, sizes) | (change or {}) for i in range(1, last + 1)]
    (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    events = [
        {"i": i, "epoch": 1, "step": 10, "steps": 30, "loss": 1.0, "eta": 0.01, "images_per_second": 500.0 + run}
        for i in range(1, last + 1)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    if config:
        (folder / "config.json").write_text(json.dumps(toy_config(benchmark, strategy, run, sizes, **other)))
    return folder


def write_all(root: Path, runs: int = 3) -> Written:
    """All strategies on both benchmarks; gives the records by benchmark and strategy, a list a run."""
    written: Written = {}
    for benchmark in BENCHMARKS:
        for strategy in STRATEGIES:
            for run in range(1, runs + 1):
                folder = write_run(root / benchmark / strategy / f"run-{run}", benchmark, strategy, run)
                lines = (folder / "records.jsonl").read_text().splitlines()
                written.setdefault((benchmark, strategy), []).append([json.loads(line) for line in lines])
    return written


class Cells(HTMLParser):
    """All elements with their attributes, and the texts of cells that carry numbers."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[tuple[dict[str, str | None], str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "td" and "data-metric" in self.tags[-1][1]:
            self.cells.append((self.tags[-1][1], data))

    def find(self, **attributes: str) -> list[tuple[dict[str, str | None], str]]:
        wanted = {f"data-{key}": value for key, value in attributes.items()}
        return [(known, text) for known, text in self.cells if wanted.items() <= known.items()]


def said(shares: Sequence[float]) -> str:
    """How the page writes shares of several runs."""
    return f"{100 * statistics.fmean(shares):.1f} ± {100 * statistics.stdev(shares):.1f}"


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Debian's Chromium, which asks nobody for anything; or the reason why there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium on the path")
    quiet = ("background-networking", "component-update", "sync", "gpu")
    args = ["--headless", "--no-sandbox", *(f"--disable-{what}" for what in quiet)]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=args)
        yield browser
        browser.close()


def opened(browser: "Browser", path: Path, width: int = 1280, **settings: Any) -> "Page":
    """The page in a window; whatever the console says, and any request but for the page itself, is a failure."""
    page = browser.new_context(viewport={"width": width, "height": 800}, **settings).new_page()
    heard: list[str] = []

    def dismiss(dialog: "Dialog") -> None:
        heard.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    assert [one for one in heard if not one.startswith("data:image/png")] == [path.as_uri()]
    return page


def themes() -> list[dict[str, str]]:
    """The colours of the light and of the dark page, by name."""
    style = (Path(report.__file__).parent / "style.css").read_text()
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in style.split("@media")[:2]]


def _light(colour: str) -> NDArray[np.float64]:
    """A colour's red, green and blue as amounts of light."""
    c = np.frombuffer(bytes.fromhex(colour[1:]), dtype=np.uint8) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one: str, two: str) -> float:
    """The contrast of two colours as WCAG 2 defines it."""
    dark, bright = sorted(float(_light(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, two))
    return (bright + 0.05) / (dark + 0.05)


_EYES = {  # Machado, Oliveira and Fernandes (2009), severity 1
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
_CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
_LAB = [
    [0.2104542553, 0.793617785, -0.0040720468],
    [1.9779984951, -2.428592205, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.808675766],
]


def seen_by(eyes: str, colour: str) -> NDArray[np.float64]:
    """Where a colour stands in OKLab, as such eyes see it."""
    light = np.clip(np.array(_EYES[eyes]) @ _light(colour), 0, 1)
    lab: NDArray[np.float64] = np.array(_LAB) @ np.cbrt(np.array(_CONES) @ light)
    return lab
