"""The figures: what is drawn are the records' numbers, and nothing in a name is obeyed."""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle, StepPatch
from numpy.typing import NDArray
from PIL import Image

from everlearn import figures, report
from everlearn._kit import catalogue
from everlearn.cli import main
from everlearn.errors import ConfigError, DataError, EverlearnError
from everlearn.figures import Series, saving, style
from everlearn.figures.album import DRAWN
from everlearn.figures.style import without_heading
from everlearn.figures.table import escaped
from everlearn.records import RunConfig, read
from everlearn.records.groups import benchmarks
from everlearn.report import pictures
from everlearn.report.labels import by_folder
from tests import report_toys as toys
from tests.report_toys import HOSTILE, chromium, opened, write_run

SIZES = (3, 2, 2)
EDGES = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
Json = dict[str, Any]
Drawn = Callable[[Sequence[Series]], Figure]


def edit(folder: Path, change: Callable[[Json], Json]) -> list[Json]:
    """Change every record of a run; gives them."""
    path = folder / "records.jsonl"
    records = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return records


def richer(record: Json) -> Json:
    """What the toys leave out: importances, the change of two layers, λ, η and the largest F̂."""
    run, i, held = record["run"], record["i"], record["strategy"] in {"ewc", "si", "ar1"}
    frozen = record["strategy"] == "cwr+" and i > 1
    importance = {
        "edges": EDGES,
        "counts": [5 * i, 0, 70 * run, 3],
        "zero": 0.25 / i,
        "saturated": 0.001 * i,
        "max": 0.002 * i,
    }
    return record | {
        "change": {"conv1": 0.0 if frozen else 1e-3 / i * run, "out": 2e-2 / run},
        "importance": importance if held else None,
        "lam": 50.0 * i if held else i / 10 if record["strategy"] == "lwf" else None,
        "eta": 0.5 if record["strategy"] == "ewc" else None,
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[list[Json]]]]:
    """Four strategies, three runs, three batches; and the records."""
    root, written = tmp_path_factory.mktemp("runs"), dict[str, list[list[Json]]]()
    for strategy in ("ar1", "ewc", "lwf", "cwr+"):
        for run in (1, 2, 3):
            folder = write_run(root / strategy / f"run-{run}", "digits", strategy, run, sizes=SIZES)
            written.setdefault(strategy, []).append(edit(folder, richer))
    return root, written


@pytest.fixture(scope="module")
def series(made: tuple[Path, Any]) -> list[Series]:
    return figures.load(made[0])["digits"]


@pytest.fixture(scope="module")
def records(made: tuple[Path, dict[str, list[list[Json]]]]) -> dict[str, list[list[Json]]]:
    """Records by label, a list a run."""
    return {{"ar1": "AR1", "ewc": "EWC", "lwf": "LWF", "cwr+": "CWR+"}[name]: runs for name, runs in made[1].items()}


def line(axes: Axes, label: str) -> Line2D:
    (found,) = [one for one in axes.get_lines() if one.get_label() == label]
    return found


def ydata(axes: Axes, label: str) -> list[float]:
    return [float(y) for y in np.asarray(line(axes, label).get_ydata())]


def texts(figure: Figure) -> str:
    return "\n".join(one.get_text() for one in cast(Any, figure).findobj(lambda a: hasattr(a, "get_text")))


def on(record: Json, classes: Sequence[int]) -> float:
    """The accuracy on these classes, by plain loops over the confusion matrix."""
    rows = [k for k, c in enumerate(record["order"]) if c in classes]
    right: int = sum(record["confusion"][k][k] for k in rows)
    return right / sum(sum(record["confusion"][k]) for k in rows)


# --- what is drawn ------------------------------------------------------------------------------------


def test_accuracy_curves_are_the_records(series: list[Series], records: dict[str, list[list[Json]]]) -> None:
    figure = figures.accuracy_curves(series)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "On the classes seen so far",
        "On the fixed test set, all classes",
    ]
    for axes, field in zip(figure.axes, ("accuracy_seen", "accuracy"), strict=True):
        assert (axes.get_xlabel(), axes.get_ylim()[0]) == ("Batch", 0)
        for k, one in enumerate(series):
            values = [[run[i][field] for run in records[one.label]] for i in range(3)]
            means = [100 * statistics.fmean(three) for three in values]
            assert ydata(axes, one.label) == pytest.approx(means)
            (band,) = axes.collections[k].get_paths()
            for i, three in enumerate(values):
                edges = sorted({round(float(y), 6) for x, y in np.asarray(band.vertices) if x == i + 1})
                std = 100 * statistics.stdev(three)
                assert edges == pytest.approx([means[i] - std, means[i] + std], abs=1e-5)
            assert f"{one.label} {means[-1]:.1f}" in texts(figure)
    assert "mean over 3 runs" in texts(figure)
    assert "one sample standard deviation" in texts(figure)


def test_colours_are_the_page_s(series: list[Series]) -> None:
    light = toys.themes()[0]
    assert [light[f"p{k}"] for k in range(9)] == list(style.PALETTE)
    assert (light["ink"], light["quiet"], light["rule"], light["firm"]) == (
        style.INK,
        style.QUIET,
        style.RULE,
        style.FIRM,
    )
    axes = figures.accuracy_curves(series).axes[0]
    for one in series:
        assert to_hex(cast(str, line(axes, one.label).get_color())) == light[f"p{one.group.style.colour}"]


def test_one_convention_and_a_bad_one(series: list[Series]) -> None:
    assert len(figures.accuracy_curves(series, conventions=["fixed"]).axes) == 1
    with pytest.raises(ConfigError, match=r"seen.*fixed"):
        figures.accuracy_curves(series, conventions=["all"])


def test_unfinished_runs_are_in_no_mean(tmp_path: Path) -> None:
    for run, upto in ((1, None), (2, 2)):
        write_run(tmp_path / f"run-{run}", run=run, upto=upto)
    (one,) = figures.load(tmp_path)["digits"]
    axes = figures.accuracy_curves([one]).axes[1]
    whole, cut = (toys.toy_record("digits", "ar1", run, 2, (4, 3, 3))["accuracy"] for run in (1, 2))
    assert ydata(axes, "AR1")[1] == pytest.approx(100 * whole)
    assert ydata(axes, "AR1, run 2")[1:] == pytest.approx([100 * cut])
    assert "unfinished" in texts(figures.accuracy_curves([one]))


def test_stability_and_plasticity_come_from_the_matrices(
    series: list[Series], records: dict[str, list[list[Json]]]
) -> None:
    old, new = figures.stability_plasticity(series).axes
    for one in series:
        for i in range(3):
            runs = [run[i] for run in records[one.label]]
            before = [[c for batch in r["batches"][:i] for c in batch] for r in runs]
            learnt = [100 * on(r, r["batches"][i]) for r in runs]
            assert ydata(new, one.label)[i] == pytest.approx(statistics.fmean(learnt))
            if i == 0:
                assert np.isnan(ydata(old, one.label)[0])
            else:
                kept = [100 * on(r, classes) for r, classes in zip(runs, before, strict=True)]
                assert ydata(old, one.label)[i] == pytest.approx(statistics.fmean(kept))


def bar_heights(axes: Axes, label: str) -> list[float]:
    (found,) = [one for one in axes.containers if one.get_label() == label and hasattr(one, "patches")]
    return [bar.get_height() for bar in cast(Any, found).patches]


def test_mt_vs_sit(series: list[Series], records: dict[str, list[list[Json]]]) -> None:
    """By hand: SIT is R_{9,j} from the confusion matrix, MT what the record says, Avg the mean over batches."""
    figure = figures.mt_vs_sit(series)
    mt, sit = figure.axes
    for one in series:
        last = [run[-1] for run in records[one.label]]
        told = [[100 * r["accuracy_mt"][j] for r in last] for j in range(3)]
        not_told = [[100 * on(r, r["batches"][j]) for r in last] for j in range(3)]
        for axes, values in ((mt, told), (sit, not_told)):
            means = [statistics.fmean(three) for three in values]
            assert bar_heights(axes, one.label) == pytest.approx([*means, statistics.fmean(means)])
    assert [tick.get_text() for tick in sit.get_xticklabels()] == ["B₁", "B₂", "B₃", "Avg"]
    assert "task told in the test only" in mt.get_title(loc="left")


def test_mt_runs_stand_beside_sit_runs(tmp_path: Path) -> None:
    """Runs with a head for each task are MT; a strategy has one name and one colour in both."""
    for run in (1, 2):
        write_run(tmp_path / f"sit-{run}", "digits", "ewc", run, knobs={})
        write_run(tmp_path / f"mt-{run}", "digits", "ewc", run, knobs={"head": "per_task"})
        write_run(tmp_path / f"cwr-{run}", "digits", "cwr", run, knobs={})
    figures.draw(tmp_path, tmp_path / "out", only=["mt_vs_sit"])
    found = figures.load(tmp_path)["digits"]
    told = [one for one in found if one.knows_task]
    assert len(told) == 1
    figure = figures.mt_vs_sit([one for one in found if not one.knows_task], told)
    mt, sit = figure.axes
    assert "a head for each task" in mt.get_title(loc="left")
    assert (len(mt.containers), len([one for one in sit.containers if hasattr(one, "patches")])) == (2, 2)
    names = [one.get_text() for one in figure.legends[0].get_texts()]
    assert sorted(names) == ["CWR", "EWC"]


FIVE = ("naive", "ewc", "lwf", "si", "cwr")
"""Who is compared in the paper's figure; CWR in SIT alone."""


def five(root: Path) -> dict[tuple[str, str], list[Json]]:
    """The paper's five strategies, two runs each, in folders named as by an experiment; the last records."""
    found: dict[tuple[str, str], list[Json]] = {}
    for strategy in FIVE:
        title = "Naive" if strategy == "naive" else strategy.upper()
        for part, knobs in (("MT", {"head": "per_task"}), ("SIT", {})):
            for run in (1, 2) if (strategy, part) != ("cwr", "MT") else ():
                folder = root / f"{title} {part}" / f"run-{run}"
                shift = {"accuracy_mt": [0.9 - 0.1 * FIVE.index(strategy) - 0.01 * run * j for j in range(3)]}
                write_run(folder, "digits", strategy, run, sizes=SIZES, knobs=knobs)
                found.setdefault((title, part), []).append(edit(folder, lambda r, s=shift: r | s)[-1])  # type: ignore[misc]
    return found


def middles(axes: Axes) -> dict[str, list[float]]:
    """Where the bars of each label stand."""
    groups = [one for one in axes.containers if hasattr(one, "patches")]
    return {
        str(one.get_label()): [bar.get_x() + bar.get_width() / 2 for bar in cast(Any, one).patches] for one in groups
    }


def colours(axes: Axes) -> dict[str, str]:
    groups = [one for one in axes.containers if hasattr(one, "patches")]
    return {str(one.get_label()): to_hex(cast(Any, one).patches[0].get_facecolor()) for one in groups}


@pytest.mark.parametrize("by", ["folder", "strategy"])
def test_a_strategy_has_one_name_and_colour_in_mt_and_sit(
    by: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five names, not nine, whether folders or heads tell MT from SIT; groups of bars stand around their ticks."""
    five(tmp_path / "runs")
    order = [f"{name} {part}" for part in ("MT", "SIT") for name in ("Naive", "EWC", "LWF", "SI", "CWR")]
    kept = drawn_by(monkeypatch, "mt_vs_sit")
    figures.draw(tmp_path / "runs", tmp_path / "out", ["mt_vs_sit"], by, order=order)
    (figure,) = kept
    names = [one.get_text() for one in figure.legends[0].get_texts()]
    assert sorted(names) == ["CWR", "EWC", "LWF", "Naive", "SI"]
    if by == "folder":
        assert names == ["Naive", "EWC", "LWF", "SI", "CWR"]
    mt, sit = figure.axes
    assert (len(middles(mt)), len(middles(sit))) == (4, 5)
    for axes in (mt, sit):
        ticks = list(axes.get_xticks())
        for k, tick in enumerate(ticks):
            assert statistics.fmean(xs[k] for xs in middles(axes).values()) == pytest.approx(tick)
    both = [{label.split()[0]: shade for label, shade in colours(axes).items()} for axes in (mt, sit)]
    assert both[0].items() <= both[1].items()
    assert len(set(both[1].values())) == 5


def test_the_numbers_of_mt_and_sit_stand_beside_the_figure(tmp_path: Path) -> None:
    """MT is what the record says of runs with a head a task, SIT comes from the matrices of the others."""
    last = five(tmp_path / "runs")
    album = figures.draw(tmp_path / "runs", tmp_path / "out", ["mt_vs_sit"], "folder")
    assert [path.name for path in album.paths] == [f"digits-mt_vs_sit{end}" for end in (".png", ".svg", "-table.md")]
    lines = album.paths[-1].read_text().splitlines()
    assert lines[0] == "| Strategy | Scenario | Runs | B1 | B2 | B3 | Average |"
    rows = {
        tuple(row[:2]): row[2:] for line in lines[2:11] for row in [[c.strip() for c in line.strip("|").split("|")]]
    }
    assert rows.keys() == last.keys()
    for (name, part), records in last.items():
        each = [r["accuracy_mt"] if part == "MT" else [on(r, batch) for batch in r["batches"]] for r in records]
        columns = [*zip(*each, strict=True), tuple(statistics.fmean(row) for row in each)]
        assert rows[name, part] == ["2", *(toys.said(list(column)) for column in columns)]
    assert "a head for each task" in lines[-1]


def test_names_that_would_clash_in_a_scenario_are_kept(tmp_path: Path) -> None:
    """Two in SIT that would both be EWC keep their labels; a longer stream has MT above SIT."""
    for label, lam in (("EWC", 1.0), ("EWC SIT", 2.0)):
        write_run(tmp_path / label / "run-1", "digits", "ewc", sizes=[1] * 20, knobs={"ewc.lam": lam})
    write_run(tmp_path / "EWC MT" / "run-1", "digits", "ewc", sizes=[1] * 20, knobs={"head": "per_task"})
    found = figures.load(tmp_path, "folder")["digits"]
    figure = figures.mt_vs_sit([one for one in found if not one.knows_task], [one for one in found if one.knows_task])
    assert sorted(one.get_text() for one in figure.legends[0].get_texts()) == ["EWC", "EWC SIT"]
    mt, sit = (axes.get_position() for axes in figure.axes)
    assert (mt.x0, mt.y0 > sit.y1) == (sit.x0, True)
    assert figures.mt_vs_sit_table(found).count("\n| EWC") == 3


def test_confusion_strip(series: list[Series], records: dict[str, list[list[Json]]]) -> None:
    figure = figures.confusion_strip(series)
    grid = [axes for axes in figure.axes if axes.images]
    assert len(grid) == 4 * 3
    assert len(figure.axes) == len(grid) + 1  # one colour bar
    for k, axes in enumerate(grid):
        record = records[series[k // 3].label][0][k % 3]
        matrix = np.array(record["confusion"])
        (image,) = axes.images
        assert np.asarray(image.get_array()) == pytest.approx(matrix / matrix.sum(axis=1, keepdims=True))
        assert image.get_clim() == (0, 1)
        borders = {float(np.asarray(one.get_xdata())[0]) for one in axes.get_lines()} - {0.0}
        assert borders == {3.0, 5.0}  # 3, then 2 and 2 classes
        frame = next(one for one in axes.patches if isinstance(one, Rectangle))
        assert frame.get_width() == sum(SIZES[: record["i"]])
        assert axes.get_xlabel() == f"{100 * record['accuracy']:.1f} %"
        low, high = sorted(axes.get_ylim())
        assert (low, high, axes.get_ylim()[0]) == (0, 7, 7)  # the first class on top


def drawn_by(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Figure]:
    """The figures that the album draws under a name, as it draws them."""
    kept, draw = list[Figure](), DRAWN[name]

    def watched(*series: Any, **options: Any) -> Figure:
        kept.append(draw(*series, **options))
        return kept[-1]

    monkeypatch.setitem(DRAWN, name, watched)
    return kept


def test_the_album_hands_options_on(
    made: tuple[Path, Any],
    records: dict[str, list[list[Json]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last two matrices only, counted from the end, of whatever stream."""
    kept = drawn_by(monkeypatch, "confusion_strip")
    options = {"confusion_strip": {"batches": [-2, -1]}}
    album = figures.draw(made[0] / "ewc", tmp_path, ["confusion_strip", "table"], options=options)
    assert [path.name for path in album.paths] == [
        f"digits-{k}" for k in ("confusion_strip.png", "confusion_strip.svg", "table.md")
    ]
    (figure,) = kept
    grid = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in grid] == ["B₂", "B₃"]
    for axes, record in zip(grid, records["EWC"][0][1:], strict=True):
        matrix = np.array(record["confusion"])
        assert np.asarray(axes.images[0].get_array()) == pytest.approx(matrix / matrix.sum(axis=1, keepdims=True))
    assert "2 of the 3 batches are shown" in texts(figure)
    with pytest.raises(ConfigError, match="got \\['pies'\\]"):
        figures.draw(made[0], tmp_path, ["bars"], options={"pies": {}})


@pytest.mark.parametrize("batches", [[0], [0, 1], [4], [-4], []])
def test_bad_batches_are_said(series: list[Series], batches: list[int]) -> None:
    with pytest.raises(ConfigError, match="from 1 to 3, or -1 for the last"):
        figures.confusion_strip(series, batches=batches)


def test_order(made: tuple[Path, Any], tmp_path: Path) -> None:
    """Labels that are named come first, in the order of their names, in figures and tables; their colours too."""
    order = ["lwf", "ewc", "absent", "ar1"]
    found = figures.load(made[0], by="folder", order=order)["digits"]
    assert [one.label for one in found] == ["lwf", "ewc", "ar1", "cwr+"]
    assert found[0].style == figures.load(made[0], by="folder")["digits"][0].style
    figures.draw(made[0], tmp_path, ["table"], "folder", order=order)
    rows = (tmp_path / "digits-table.md").read_text().splitlines()[2:6]
    assert [row.split("|")[1].strip() for row in rows] == ["lwf", "ewc", "ar1", "cwr+"]
    plain = [one.label for one in figures.load(made[0])["digits"]]
    by_strategy = [one.label for one in figures.load(made[0], order=["LWF"])["digits"]]
    assert by_strategy == ["LWF", *(label for label in plain if label != "LWF")]


def test_classes_without_test_patterns_are_grey(tmp_path: Path) -> None:
    def without(record: Json) -> Json:
        record["confusion"][2] = [0] * 10
        return record | {"patterns": [36, 36, 0, *[36] * 7]}

    edit(write_run(tmp_path / "one"), without)
    (one,) = figures.load(tmp_path)["digits"]
    (image,) = figures.confusion_strip([one]).axes[0].images
    assert np.isnan(np.ma.filled(cast(Any, image.get_array()).astype(float), np.nan)[2]).all()
    figures.stability_plasticity([one])
    assert image.get_cmap().get_bad() == pytest.approx([205 / 255] * 3 + [1])


def mean_changes(runs: list[list[Json]]) -> NDArray[np.float64]:
    return np.array(
        [[statistics.fmean(run[i]["change"][name] for run in runs) for i in range(3)] for name in ("conv1", "out")]
    )


def test_weight_changes(series: list[Series], records: dict[str, list[list[Json]]]) -> None:
    heat, solid = figures.weight_change_heat(series), figures.weight_change_3d(series)
    heats, solids = [axes for axes in heat.axes if axes.images], [cast(Any, axes) for axes in solid.axes]
    for k, one in enumerate(series):
        wanted = mean_changes(records[one.label])
        image = heats[k].images[0].get_array()
        assert np.ma.filled(cast(Any, image), 0.0) == pytest.approx(wanted)
        faces = np.asarray(solids[k].collections[0]._faces)  # six faces a bar, four corners each
        tops = faces.reshape(-1, 6, 4, 3)[..., 2].max(axis=(1, 2))
        assert sorted(tops) == pytest.approx(sorted(wanted[wanted > 0]))
        hatched = {(p.get_x() + 0.5, p.get_y() + 0.5) for p in cast(list[Rectangle], list(heats[k].patches))}
        assert hatched == ({(2.0, 0.0), (3.0, 0.0)} if one.label == "CWR+" else set())  # frozen after B_1
    assert len({axes.get_zlim() for axes in solids[:4]}) == 1
    assert [tick.get_text() for tick in heats[0].get_yticklabels()] == ["conv1", "out"]


def test_importance_histograms(series: list[Series], records: dict[str, list[list[Json]]]) -> None:
    figure = figures.importance_histograms(series)
    held = [one.label for one in series if one.label in {"AR1", "EWC"}]
    assert len(figure.axes) == 2 * 3
    for k, axes in enumerate(figure.axes):
        said = records[held[k // 3]][0][k % 3]["importance"]
        (steps,) = [one for one in axes.patches if isinstance(one, StepPatch)]
        values, edges, _ = steps.get_data()
        assert (list(values), list(edges)) == (said["counts"], EDGES)
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert (
            axes.texts[0].get_text()
            == [
                "zero 25 %, saturated 0.10 %",
                "zero 12 %, saturated 0.20 %",
                "zero 8.3 %, saturated 0.30 %",
            ][k % 3]
        )
        assert axes.get_title(loc="left") == f"{held[k // 3]}, B{'₁₂₃'[k % 3]}"


def test_F_stands_above_F_hat(made: tuple[Path, Any], tmp_path: Path) -> None:
    """A row of F with a line for the batch's own, and below it F̂; max F is the dashed line where weights reach it."""
    raw = {"edges": [1e-8, 1e-6, 1e-4, 1e-2, 1, 100], "zero": 0.5, "max": 213.4}

    def told(record: Json) -> Json:
        of = {
            "F": raw | {"counts": [1, 2, 3, 4, record["i"]]},
            "F_i": raw | {"counts": [0, 0, 9, 5, 1], "negative": 0.25},
        }
        return richer(record) | {"importance": richer(record)["importance"] | of}

    records = edit(write_run(tmp_path / "si", "digits", "si", sizes=SIZES), told)
    figure = figures.importance_histograms(figures.load(tmp_path)["digits"], batches=[1, 3])
    above, below = figure.axes[:2], figure.axes[2:]
    for k, i in enumerate((1, 3)):
        area, line = (one.get_data() for one in above[k].patches if isinstance(one, StepPatch))
        assert (list(area[0]), list(area[1])) == ([1, 2, 3, 4, i], raw["edges"])
        assert list(line[0]) == [0, 0, 9, 5, 1]
        assert above[k].texts[0].get_text() == "zero 50 %, largest 213"
        (found,) = [one.get_data() for one in below[k].patches if isinstance(one, StepPatch)]
        assert list(found[0]) == records[i - 1]["importance"]["counts"]
        for axes in (above[k], below[k]):
            (clip,) = axes.get_lines()
            assert list(np.asarray(clip.get_xdata())) == [0.002 * i] * 2  # max F̂, since some are saturated
            assert axes.get_xlim() == above[0].get_xlim()
    assert [axes.get_ylabel() for axes in (above[0], below[0])] == ["Weights by F", "Weights by F̂"]
    edit(tmp_path / "si", lambda record: record | {"importance": record["importance"] | {"F": raw | {"counts": [1]}}})
    with pytest.raises(EverlearnError, match=r"F in the importance of si, run 1, batch 1 cannot be drawn"):
        figures.importance_histograms(figures.load(tmp_path)["digits"])


def test_the_pictures_of_a_page(made: tuple[Path, Any]) -> None:
    """What was recorded is drawn, without a heading in outlines: the page says it in letters. The rest is absent."""
    (bench,) = benchmarks(read(made[0]))
    found = figures.pictures(bench, "b1")
    left_out = {"mt_vs_sit", "confusion_strip"}  # nobody is told the task; the page has matrices of its own
    assert list(found) == [name for name in pictures.NAMES if name not in left_out]
    asked = figures.pictures(bench, "b1", asked=["confusion_strip"], options={"confusion_strip": {"batches": [-1]}})
    assert set(asked) - set(found) == {"confusion_strip"}
    assert "1 of the 3 batches are shown." in asked["confusion_strip"].caption
    whole = "".join(one.svg for one in found.values())
    ids = re.findall(r' id="([^"]*)"', whole)
    assert len(ids) == len(set(ids))
    assert all(one.startswith("b1-") for one in ids)
    assert "mean |Δθ|" in found["weight_change_3d"].caption
    tall, cut = (
        float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', figures.inline_svg(figure, "x"))[0])
        for figure in (
            figures.strength(figures.series_of(bench)),
            without_heading(figures.strength(figures.series_of(bench))),
        )
    )
    assert tall - cut == pytest.approx(72 * (0.1 + 0.19 + 0.145))  # a title of one line and a note of one
    alone = benchmarks([run for run in read(made[0]) if run.strategy == "cwr+"])[0]
    assert list(figures.pictures(alone, "b1")) == [
        "bars",
        "stability_plasticity",
        "weight_change_3d",
        "weight_change_heat",
    ]


def test_a_page_shows_an_experiment_s_own_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MT beside SIT where some are told the task, and the bars; curves and matrices the page draws itself."""
    five(tmp_path)
    (bench,) = benchmarks(read(tmp_path))
    found = figures.pictures(bench, "b1")
    assert list(found)[:2] == ["bars", "mt_vs_sit"]
    text = report.write(tmp_path, pictures=figures.pictures).read_text()
    for title in ("Final accuracy", "With the task known and without"):
        section = text.split(f">{title}</h3>")[1].split("</section>")[0]
        assert section.count('<figure class="picture">') == 1
    assert "MT and SIT on digits, after the last batch." in text
    headline = text.split('<p class="headline">')[1].split("</p>")[0]
    assert headline.count("plain training") == 1  # Naive that is told the task is no match for those that are not
    assert "per_task" not in headline
    kept = drawn_by(monkeypatch, "bars")
    (named,) = by_folder(read(tmp_path))
    figures.pictures(named, "b1", order=["LWF SIT", "CWR SIT"])
    names = [tick.get_text() for tick in kept[0].axes[0].get_yticklabels()]
    assert (names[:2], len(names)) == (["LWF SIT", "CWR SIT"], 9)


def test_an_upper_bound_has_a_scale_of_its_own(made: tuple[Path, Any], tmp_path: Path) -> None:
    for strategy, change in (("ewc", 0.1), ("naive", 0.2), ("cumulative", 3.0)):
        write_run(tmp_path / strategy, "digits", strategy, change={"change": {"fc": change}})
    figure = figures.weight_change_3d(figures.load(tmp_path)["digits"])
    tops = {axes.get_title(): cast(Any, axes).get_zlim()[1] for axes in figure.axes}
    assert tops == {"EWC": 0.2, "Naive": 0.2, "Cumulative, own scale": 3.0}
    assert "Cumulative moved further" in str(figure.get_label())


def test_strength(series: list[Series]) -> None:
    """By hand, EWC: η 0.5, λ_i = 50 i, max F̂ after B_{i−1} = 0.002 (i − 1), so 0.5·100·0.002 and 0.5·150·0.004.

    AR1 has no η in its records, and takes 0.01 from the logged steps.
    """
    soft, held, pull = figures.strength(series).axes
    assert ydata(soft, "LWF") == pytest.approx([0.1, 0.2, 0.3])
    assert ydata(held, "EWC") == ydata(held, "AR1") == [50, 100, 150]
    assert np.isnan(ydata(pull, "EWC")[0])
    assert ydata(pull, "EWC")[1:] == pytest.approx([0.1, 0.3])
    assert ydata(pull, "AR1")[1:] == pytest.approx([0.002, 0.006])
    assert pull.get_ylabel() == "η·λ·max F̂"


def test_strength_without_eta_or_max(tmp_path: Path) -> None:
    edit(write_run(tmp_path / "one", "digits", "ewc"), lambda record: record | {"lam": 3.0})
    (axes,) = figures.strength(figures.load(tmp_path)["digits"]).axes
    assert ydata(axes, "EWC") == [3, 3, 3]


def test_bars(series: list[Series], records: dict[str, list[list[Json]]]) -> None:
    for metric, field in (("final", "accuracy"), ("seen", "accuracy_seen")):
        figure = figures.bars(series, metric=metric)
        (axes,) = figure.axes
        for k, one in enumerate(series):
            values = [100 * run[-1][field] for run in records[one.label]]
            bar = cast(Rectangle, axes.patches[k])
            assert bar.get_width() == pytest.approx(statistics.fmean(values))
            assert bar.get_y() + bar.get_height() / 2 == pytest.approx(k)
            (whisker,) = axes.collections[k].get_paths()
            reach = np.asarray(whisker.vertices)[:, 0]
            assert (reach[1] - reach[0]) / 2 == pytest.approx(statistics.stdev(values))
            assert f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}" in texts(figure)
        assert [tick.get_text() for tick in axes.get_yticklabels()] == [one.label for one in series]
    with pytest.raises(ConfigError, match="final"):
        figures.bars(series, metric="best")


def test_variants_have_labels_and_colours_of_their_own(
    made: tuple[Path, Any], records: dict[str, list[list[Json]]]
) -> None:
    runs = report.read(made[0])
    by_label = {"with SI": [r for r in runs if r.strategy == "ar1"], "none": [r for r in runs if r.strategy == "cwr+"]}
    figure = figures.curves_by_variant(by_label, title="Two variants.")
    axes = figure.axes[1]
    wanted = [100 * statistics.fmean(run[i]["accuracy"] for run in records["AR1"]) for i in range(3)]
    assert ydata(axes, "with SI") == pytest.approx(wanted)
    assert line(axes, "with SI").get_color() != line(axes, "none").get_color()
    assert "Two variants." in texts(figure)
    mixed = {"all": runs}
    with pytest.raises(DataError, match=r"'all' cannot be averaged.*ar1 on digits; "):
        figures.curves_by_variant(mixed)
    by_folder = figures.load(made[0], by="folder")["digits"]
    assert [one.label for one in by_folder] == ["ar1", "cwr+", "ewc", "lwf"]
    (alone,) = figures.load(made[0] / "ar1" / "run-1", by="folder")["digits"]
    assert alone.label == "run-1"


def test_long_streams_and_deep_networks(tmp_path: Path) -> None:
    """Of 20 batches, 12 have bars, 10 a matrix and four a histogram; 20 layers are numbered, not named."""
    empty = {"edges": EDGES, "counts": [0] * 4, "zero": 1.0, "saturated": 0.0}
    deep = {"change": {f"layer {k}": 1e-3 for k in range(20)}, "importance": empty, "lam": 0.0}
    edit(write_run(tmp_path / "a", "long", "ewc", sizes=[1] * 20), lambda record: record | deep)
    edit(write_run(tmp_path / "b", "long", "si", sizes=[1] * 20, upto=3), lambda record: record | deep)
    found = figures.load(tmp_path)["long"]
    sit = figures.mt_vs_sit(found).axes[1]
    assert [tick.get_text() for tick in sit.get_xticklabels()][-2:] == ["B₂₀", "Avg"]
    assert len(sit.get_xticklabels()) == 12 + 1
    strip = figures.confusion_strip(found)
    assert len([axes for axes in strip.axes if axes.images]) == 10 + 2  # of the run that died after B_3: B_1 and B_3
    assert "10 of the 20 batches are shown" in texts(strip)
    titles = [axes.get_title(loc="left") for axes in figures.importance_histograms(found).axes]
    assert titles == ["EWC, B₁", "EWC, B₂", "EWC, B₃", "EWC, B₂₀", "SI, B₁", "SI, B₂", "SI, B₃", ""]
    heat = figures.weight_change_heat(found).axes[0]
    assert [tick.get_text() for tick in heat.get_yticklabels()] == ["1", "5", "10", "15", "20"]
    assert not figures.weight_change_3d(found).legends
    assert ydata(figures.accuracy_curves(found).axes[0], "SI, run 1") == pytest.approx(
        [100 * toys.toy_record("long", "si", 1, i, [1] * 20)["accuracy_seen"] for i in (1, 2, 3)]
    )


def test_a_run_that_died_before_its_first_record(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "one", upto=0)
    found = figures.load(tmp_path / "runs")["digits"]
    for drawn in DRAWN.values():
        with pytest.raises(DataError, match="has nothing to draw"):
            drawn(found)
    assert "| AR1 | 0 of 1 | — | — | — | — | — |" in figures.markdown_table(found)


# --- the table ----------------------------------------------------------------------------------------


def test_paired_table(series: list[Series]) -> None:
    """Every cell is the mean of the differences run by run, by hand; its mirror image has the other sign."""
    lines = figures.paired_table(series).splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[: 2 + len(series)])
    assert head[1:] == [row[0] for row in rows] == [escaped(one.label) for one in series]
    for k, mine in enumerate(series):
        for j, theirs in enumerate(series):
            if k == j:
                assert rows[k][1 + j] == ""
                continue
            pairs = [
                100 * (a.records[-1].accuracy - b.records[-1].accuracy)
                for a in mine.group.finished
                for b in theirs.group.finished
                if a.number == b.number and a.records[-1].accuracy is not None and b.records[-1].accuracy is not None
            ]
            mean = sum(pairs) / len(pairs)
            sign = "−" if f"{mean:.1f}".startswith("-") else "+"
            assert rows[k][1 + j].startswith(f"{sign}{abs(mean):.1f}")
            if len(pairs) > 1:
                deviation = (sum((d - mean) ** 2 for d in pairs) / (len(pairs) - 1)) ** 0.5
                assert rows[k][1 + j].endswith(f" ± {deviation:.1f}")
    assert "run by run" in lines[-1]


def test_markdown_table(series: list[Series], records: dict[str, list[list[Json]]]) -> None:
    lines = figures.markdown_table(series).splitlines()
    assert (
        lines[0]
        == "| Strategy | Runs | Epochs | Fixed test set (%) | Classes seen (%) | Backward transfer | Paper (%) |"
    )
    for k, one in enumerate(series):
        both = [toys.said([run[-1][field] for run in records[one.label]]) for field in ("accuracy", "accuracy_seen")]
        assert lines[2 + k] == f"| {one.label} | 3 | — | {both[0]} | {both[1]} | — | — |"


@pytest.mark.parametrize(
    ("hyperparameters", "words"),
    [
        ({"training.first.epochs": 60, "training.later.epochs": 25}, "60, 25"),
        ({"training.first.epochs": 4, "training.later.epochs": 4}, "4"),
        ({"training.first.epochs": "<b>"}, "—"),
        ([], "—"),
    ],
)
def test_the_table_tells_epochs_and_backward_transfer(hyperparameters: Any, words: str, tmp_path: Path) -> None:
    write_run(tmp_path / "a", hyperparameters=hyperparameters, change={"backward_transfer": -0.1564})
    table = figures.markdown_table(figures.load(tmp_path)["digits"])
    assert f"| AR1 | 1 | {words} |" in table
    assert "| −15.6 | — |" in table


@pytest.mark.parametrize(
    ("benchmark", "network", "strategy", "value"),
    [
        ("core50", "googlenet", "ar1", "about 70"),
        ("core50", "caffenet", "ar1", None),
        ("core50", None, "naive", "9–10"),
        ("core50-whole", "caffenet-128", "cumulative", "74.1"),
        ("core50-whole", "nin-128", "cumulative", "82.3"),
        ("core50-whole", "googlenet-128", "cumulative", "91.3"),
        ("core50-whole", "resnet-50", "cumulative", "92.9"),
        ("core50-whole", "resnet-18", "cumulative", None),
        ("core50-whole", "caffenet-128-conv", "cumulative", None),
        ("core50-nc", "caffenet-128", "cumulative", None),  # a curve in figure 7, no number
        ("core50-nc", "googlenet-128", "ar1", "about 70"),
        ("core50-25x2", "googlenet-128", "ar1", "backward transfer −15.64"),
        ("icifar-100", None, "cumulative", "about 51 (all data at once)"),
        ("icifar-100+joined", None, "cumulative", "about 51 (all data at once)"),
        ("icifar-100+joined", "cifarnet-cifar10", "cumulative", "about 51 (all data at once)"),
        ("icifar-100+joined", "resnet-32", "cumulative", None),
        ("cifar-100", None, "cumulative", "about 51"),
        ("icifar-100", None, "ar1", None),
        ("mini50", None, "ar1", None),
    ],
)
def test_the_paper_s_numbers(benchmark: str, network: str | None, strategy: str, value: str | None) -> None:
    from everlearn.figures.known import known

    asked: dict[str, Any] = {"raw": {}, "benchmark": benchmark, "strategy": strategy, "run": 1, "network": network}
    assert known(RunConfig(**asked)) == value
    assert known(RunConfig(**asked, held_out=0.1)) is None
    assert known(None) is None


def test_the_table_shows_the_paper_and_escapes_names(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "core50", "ar1", network="googlenet")
    write_run(tmp_path / "b", "core50", "mine | <b>*_", network="googlenet")
    table = figures.markdown_table(figures.load(tmp_path)["core50"])
    assert re.search(r"^\| AR1 \| 1 \| — \| \d+\.\d \| \d+\.\d \| \S+ \| about 70 \|$", table, flags=re.MULTILINE)
    assert r"| mine \| &lt;b&gt;\*\_ | 1 |" in table


# --- files --------------------------------------------------------------------------------------------


def test_saved_files_open_and_nothing_else_is_left(series: list[Series], tmp_path: Path) -> None:
    png, svg = figures.save(figures.accuracy_curves(series), tmp_path / "deep" / "fig.v1")
    assert sorted(path.name for path in png.parent.iterdir()) == ["fig.v1.png", "fig.v1.svg"]
    with Image.open(png) as image:
        image.load()
        assert image.format == "PNG"
        assert min(image.info["dpi"]) > 150
        assert image.size[0] == pytest.approx(7.2 * 200, abs=2)
    root = ElementTree.parse(svg).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    (tmp_path / "file").write_text("")
    with pytest.raises(EverlearnError, match="cannot be written"):
        figures.save(figures.bars(series), tmp_path / "file" / "fig")


_OTHER = """
import sys
from pathlib import Path
from everlearn import figures
assert 'matplotlib' not in sys.modules
series = figures.load(Path(sys.argv[1]))['digits']
assert 'matplotlib' not in sys.modules
figures.save(figures.accuracy_curves(series), sys.argv[2] + '/accuracy')
figures.save(figures.confusion_strip(series), sys.argv[2] + '/confusion')
assert 'torch' not in sys.modules and 'matplotlib.pyplot' not in sys.modules
"""


def test_bytes_depend_on_the_records_alone(made: tuple[Path, Any], series: list[Series], tmp_path: Path) -> None:
    """Another process, with other settings of the user's and another hash seed, writes the same; without PyTorch."""
    (tmp_path / "matplotlibrc").write_text("font.size: 20\naxes.grid: True\nsvg.fonttype: none\nlines.linewidth: 9\n")
    env = {**os.environ, "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-W", "error", "-c", _OTHER, str(made[0]), str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, drawn in (("accuracy", figures.accuracy_curves), ("confusion", figures.confusion_strip)):
        figure = drawn(series)
        assert saving.png(figure) == (tmp_path / f"{name}.png").read_bytes()
        assert saving.svg(figure) == saving.svg(figure) == (tmp_path / f"{name}.svg").read_bytes()


def test_the_user_s_settings_are_left_alone(series: list[Series]) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    saving.png(figures.bars(series))
    assert dict(mpl.rcParams) == before


NAMES = (*HOSTILE, r"$\frac{a$", "_under", "日本 🎈", "a" * 300, "-->]]>", "\n\n")


def test_hostile_names_are_drawn_and_not_obeyed(tmp_path: Path) -> None:
    for k, name in enumerate(NAMES):
        folder = write_run(tmp_path / "runs" / f"{k}", "<b>&'\"\x00$x$", name, sizes=(2, 2))
        importance = {"edges": EDGES, "counts": [1, 2, 3, 4], "zero": 0.5, "saturated": 0.0}
        changed = {"lam": 2.0, "change": {name: 1e-3, "b": 2e-3}, "importance": importance}
        edit(folder, lambda record, changed=changed: richer(record) | changed)  # type: ignore[misc]
    (found,) = figures.load(tmp_path / "runs").values()
    assert len(found) == len(NAMES)
    for drawn in DRAWN.values():
        data = saving.svg(drawn(found))
        tags = {element.tag.split("}")[1] for element in ElementTree.fromstring(data).iter()}
        assert "script" not in tags
        assert not re.search(rb"<(script|img|b)[ >]", data)
    saving.png(figures.accuracy_curves(found))
    for part in figures.markdown_table(found).splitlines()[2 : 2 + len(NAMES)]:
        assert len(re.findall(r"(?<!\\)\|", part)) == 8
        assert "<" not in part
    album = figures.draw(tmp_path / "runs", tmp_path / "out", only=["bars"])
    assert [path.name for path in album.paths] == ["b-x-bars.png", "b-x-bars.svg"]


def test_inline_svg_does_not_clash_and_needs_no_style(series: list[Series]) -> None:
    whole = [figures.inline_svg(figures.confusion_strip(series[:2]), prefix) for prefix in ("one", "two")]
    whole.append(figures.inline_svg(figures.weight_change_heat(series), "three", alt='a "heat" <map>'))
    page = ElementTree.fromstring(f"<div>{''.join(whole)}</div>")
    elements = list(page.iter())
    ids = [element.get("id") for element in elements if element.get("id")]
    assert len(ids) == len(set(ids)) > 50
    assert all(str(one).split("-")[0] in {"one", "two", "three"} for one in ids)
    used = [value[1:] for e in elements if (value := e.get("href", "")).startswith("#")]
    used += [name for e in elements for value in e.attrib.values() for name in re.findall(r"url\(#(.*?)\)", value)]
    assert used
    assert set(used) <= set(ids)
    assert not any("style" in element.attrib or element.tag.endswith(("style", "metadata")) for element in elements)
    assert [svg.get("aria-label") for svg in page][2] == 'a "heat" <map>'
    assert str(page[0].get("aria-label")).startswith("Confusion on digits")
    with pytest.raises(ConfigError, match="prefix"):
        figures.inline_svg(figures.bars(series), '"><b>')


def test_inline_svg_in_a_browser_that_forbids_styles(series: list[Series], tmp_path: Path) -> None:
    policy = "default-src 'none'; img-src data:; style-src 'none'; script-src 'none'"
    svg = figures.inline_svg(figures.confusion_strip(series), "cm")
    path = tmp_path / "page.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>Figures</title>{svg}",
        encoding="utf-8",
    )
    with chromium() as browser:
        page = opened(browser, path)
        shot = np.asarray(Image.open(BytesIO(page.locator("svg").screenshot())).convert("RGB"))
    dark = (shot == np.array([8, 45, 105])).all(axis=2).mean()
    assert dark > 0.0005  # the darkest blue of the scale is there


# --- errors and the command line ----------------------------------------------------------------------


def test_missing_fields_are_said(tmp_path: Path) -> None:
    edit(write_run(tmp_path / "one", "digits", "naive"), lambda record: record | {"change": None, "accuracy_mt": None})
    found = figures.load(tmp_path)["digits"]
    for draw, said in (
        (figures.importance_histograms, "'importance' in records"),
        (figures.weight_change_3d, "'change' in records"),
        (figures.weight_change_heat, "'change' in records"),
        (figures.strength, "'lam' in records"),
        (figures.mt_vs_sit, "accuracy_mt"),
    ):
        with pytest.raises(DataError, match=said) as error:
            cast(Drawn, draw)(found)
        assert "Naive" in str(error.value)
    for draw_one in (figures.accuracy_curves, figures.bars, figures.confusion_strip, figures.markdown_table):
        with pytest.raises(DataError, match="expected at least one series, got none"):
            cast(Any, draw_one)([])


@pytest.mark.parametrize(
    ("importance", "said"),
    [
        ({"counts": [1], "zero": 0, "saturated": 0}, "'edges' of the importance of ewc, run 1, batch 1"),
        ({"edges": [1, 2, 3], "counts": [1], "zero": 0, "saturated": 0}, "one more than counts, got 3 edges and 1"),
        ({"edges": [2, 1], "counts": [1], "zero": 0, "saturated": 0}, "rising edges"),
        ({"edges": [0, 1], "counts": [1], "zero": 0, "saturated": 0}, "above 0"),
        ({"edges": [1, 2], "counts": [-1], "zero": 0, "saturated": 0}, "'counts'"),
        ({"edges": [1, 2], "counts": [1], "zero": 2, "saturated": 0}, "'zero'"),
        ({"edges": [1, 2], "counts": [1], "zero": 0}, "'saturated'"),
        ({"edges": [1, 2], "counts": [1], "zero": 0, "saturated": 0, "max": "big"}, "'max'"),
    ],
)
def test_a_damaged_histogram_is_said(importance: Json, said: str, tmp_path: Path) -> None:
    edit(write_run(tmp_path / "one", "digits", "ewc"), lambda record: record | {"importance": importance})
    with pytest.raises(DataError, match=said):
        figures.importance_histograms(figures.load(tmp_path)["digits"])


def test_the_command_draws_all_that_can_be(
    made: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figures", str(made[0] / "ar1"), "--out", str(tmp_path / "all")]) == 0
    names = {path.name for path in (tmp_path / "all").iterdir()}
    wanted = {f"digits-{name}.{kind}" for name in DRAWN for kind in ("png", "svg")} | {
        "digits-mt_vs_sit-table.md",
        "digits-table.md",
        "digits-paired.md",
    }
    assert names == wanted
    assert {Path(path).name for path in capsys.readouterr().out.split()} == names
    assert set(DRAWN) | {"table", "paired"} == set(catalogue.FIGURES)


def test_what_cannot_be_drawn_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs" / "one", "digits", "naive")
    call = ["figures", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--only"]
    assert main([*call[:-1]]) == 0
    said = capsys.readouterr()
    assert "Left out: digits-importance_histograms." in said.err
    assert "digits-strength" not in said.out
    assert main([*call, "importance_histograms"]) == 1
    assert "'importance' in records" in capsys.readouterr().err
    assert main([*call, "bars", "pies"]) == 1
    assert "got ['pies']" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "nowhere"):
        assert main(["figures", str(tmp_path / folder), "--out", str(tmp_path / "out")]) == 1
        assert "nothing to report on" in capsys.readouterr().err


def test_real_records_can_be_drawn(tmp_path: Path) -> None:
    """What a run really leaves, not what these tests think it does."""
    short = ["--set", "training.first.epochs=1", "--set", "training.later.epochs=1"]
    assert main(["run", "--benchmark", "digits", "--strategy", "ewc", "--out", str(tmp_path / "ewc"), *short]) == 0
    found = figures.load(tmp_path)["digits"]
    drawn = {name: draw(found) for name, draw in DRAWN.items()}
    last = json.loads((tmp_path / "ewc" / "records.jsonl").read_text().splitlines()[-1])
    assert ydata(drawn["accuracy_curves"].axes[1], "EWC")[-1] == pytest.approx(100 * last["accuracy"])
    steps = cast(StepPatch, drawn["importance_histograms"].axes[-1].patches[0])
    assert list(steps.get_data()[0]) == last["importance"]["counts"]


def test_listing_does_not_wait_for_matplotlib() -> None:
    code = (
        "import sys; from everlearn.cli import main; main(['list', 'models']); assert 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_public_names() -> None:
    assert sorted(figures.__all__) == dir(figures)
    for name in figures.__all__:
        assert getattr(figures, name) is not None
    with pytest.raises(AttributeError, match="pie"):
        figures.pie  # noqa: B018
