"""The report: its numbers are the records', nothing in it is obeyed, and a real browser opens it in peace."""

import base64
import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everlearn import figures, report
from everlearn.errors import EverlearnError
from everlearn.records import names
from everlearn.report.colours import EMPTY, colours, picture
from everlearn.report.labels import by_folder
from tests import report_toys as toys
from tests.report_toys import BENCHMARKS, HOSTILE, STRATEGIES, Cells, Written, chromium, opened, said, write_run

Full = tuple[Path, Written]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Full:
    """Eight strategies, three runs, two benchmarks; and the page."""
    root = tmp_path_factory.mktemp("runs")
    written = toys.write_all(root)
    return report.write(root), written


def test_the_final_table_is_the_records(full: Full) -> None:
    cells = Cells(full[0])
    for (benchmark, strategy), runs in full[1].items():
        values = {
            "final": [run[-1]["accuracy"] for run in runs],
            "seen": [run[-1]["accuracy_seen"] for run in runs],
            "average": [statistics.fmean(r["accuracy"] for r in run) for run in runs],
            "average_seen": [statistics.fmean(r["accuracy_seen"] for r in run) for run in runs],
            "mt": [statistics.fmean(run[-1]["accuracy_mt"]) for run in runs],
        }
        for metric, three in values.items():
            ((known, text),) = cells.find(benchmark=benchmark, strategy=strategy, metric=metric)
            mean, std = statistics.fmean(three), statistics.stdev(three)
            assert (float(str(known["data-value"])), float(str(known["data-std"]))) == (mean, std)
            assert (text, known["data-n"]) == (said(three), "3")


def test_curves_storage_and_seconds_are_the_records(full: Full) -> None:
    cells = Cells(full[0])
    for (benchmark, strategy), runs in full[1].items():
        here = {"benchmark": benchmark, "strategy": strategy}
        for metric in ("accuracy", "accuracy_seen", "seconds_eval"):
            for i in range(len(BENCHMARKS[benchmark])):
                ((known, _),) = cells.find(metric=metric, batch=str(i + 1), **here)
                assert float(str(known["data-value"])) == statistics.fmean(run[i][metric] for run in runs)
        last = runs[0][-1]
        for name, size in last["storage"].items():
            assert cells.find(metric=f"storage:{name}", **here)[0][0]["data-value"] == str(size)
        assert cells.find(metric="storage", **here)[0][0]["data-value"] == str(sum(last["storage"].values()))
        assert cells.find(metric="formula", **here)[0][1] == last["storage_paper"]["formula"]
        assert cells.find(metric="values", **here)[0][0]["data-value"] == str(last["storage_paper"]["values"])


def test_means_and_deviations_by_hand(tmp_path: Path) -> None:
    """Runs that end at 0.6, 0.7 and 0.8: mean 0.7; sample deviation √((0.01 + 0 + 0.01) / 2) = 0.1."""
    for run, accuracy in enumerate((0.6, 0.7, 0.8), start=1):
        write_run(tmp_path / f"{run}", run=run, change={"accuracy": accuracy, "seconds_train": 2.0})
    write_run(tmp_path / "once", strategy="naive", change={"accuracy": 0.25})
    write_run(tmp_path / "all", strategy="cumulative", change={"accuracy": 0.9})
    (found,) = report.summary(tmp_path)["benchmarks"]
    assert [one["strategy"] for one in found["strategies"]] == ["ar1", "naive", "cumulative"]
    ar1, naive, cumulative = found["strategies"]
    assert (ar1["final"]["mean"], ar1["final"]["std"]) == (pytest.approx(0.7), pytest.approx(0.1))
    assert (ar1["average"]["mean"], ar1["seconds_train"]["mean"]) == (pytest.approx(0.7), 2.0)
    assert naive["final"] == {"mean": 0.25, "std": None, "n": 1}
    assert (found["best_without_rehearsal"], cumulative["rehearses"], cumulative["upper_bound"]) == ("ar1", True, True)
    lines = [re.split(r"  +", line) for line in report.table(tmp_path).splitlines()]
    assert [*lines[4][:3], *lines[4][4:]] == ["ar1 *", "3", "70.0 ± 10.0", "70.0 ± 10.0", "2.00 ± 0.00"]
    assert lines[5][:3] == ["naive", "1", "25.0"]
    json.dumps(report.summary(tmp_path), allow_nan=False)


def test_matrices_are_the_records(full: Full) -> None:
    text = full[0].read_text()
    confusion = np.array(full[1]["digits", "ar1"][0][1]["confusion"])
    uri = picture(confusion / confusion.sum(axis=1, keepdims=True))
    assert f'href="{uri}"' in text
    assert text.count('<li data-batch="') == len(STRATEGIES) * (9 + 3)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (50, 50), (1, 252), (0, 0)])
def test_a_picture_has_a_pixel_a_cell_in_the_one_scale(shape: tuple[int, int]) -> None:
    """By hand: a share s has the colour round(62 √s) of the scale, and what is not there the last one."""
    rng = np.random.default_rng(0)
    shares = rng.random(shape)
    shares[rng.random(shape) < 0.3] = np.nan
    kind, data = picture(shares).split(",")
    assert kind == "data:image/png;base64"
    with Image.open(BytesIO(base64.b64decode(data))) as image:
        assert (image.format, image.mode) == ("PNG", "P")
        cells, pixels = np.asarray(image), np.asarray(image.convert("RGB"))
    expected = [[EMPTY if math.isnan(s) else round(62 * math.sqrt(s)) for s in row] for row in shares.tolist()]
    assert cells.tolist() == (expected or [[EMPTY]])
    np.testing.assert_array_equal(pixels, colours()[cells])


def test_nothing_in_a_record_is_obeyed(tmp_path: Path) -> None:
    script, image, style, other = HOSTILE
    names_ = [script, image, style, other, *"abcdef"]
    for k, (benchmark, strategy) in enumerate(((script, image), (image, script), (style, other))):
        made: dict[str, Any] = {"command": script + image, "class_names": names_, "knobs": {script: image}}
        change = {"storage": {image: 3}, "storage_paper": {"formula": script, "values": 1}}
        write_run(
            tmp_path / f"{k}", benchmark, strategy, change=change, network=style, versions={script: image}, **made
        )
    page = report.write(tmp_path)
    text, found = page.read_text(encoding="utf-8"), Cells(page)
    assert not any(hostile in text for hostile in (script, "<img", "<b>\x1b", "\x1b", "\u202e", "\ud800"))
    assert [tag for tag, _ in found.tags].count("script") == [tag for tag, _ in found.tags].count("style") == 1
    assert not any(key.startswith("on") or key == "style" for _, known in found.tags for key in known)
    assert found.find(benchmark=script, strategy=image, metric="final")
    policy = next(str(known["content"]) for tag, known in found.tags if known.get("http-equiv"))
    assert re.fullmatch(r"default-src 'none'; img-src data:;( (style|script)-src 'sha256-\S+';){2} .*", policy)
    assert "\x1b" not in report.table(tmp_path)


def test_joined_batches_stand_beside_the_stream(tmp_path: Path) -> None:
    """Cumulative on B_2 to B_4, B_5 to B_7 and B_8 to B_10 joined: one benchmark, and its values at 1, 4, 7 and 10."""
    for strategy in ("naive", "ar1"):
        write_run(tmp_path / strategy, "icifar-100", strategy, sizes=[2] * 10, about="ten batches")
    sizes = (2, 6, 6, 6)
    write_run(tmp_path / "all", "icifar-100+joined", "cumulative", sizes=sizes, about="four batches")
    (found,) = report.summary(tmp_path)["benchmarks"]
    assert (found["benchmark"], [one["strategy"] for one in found["strategies"]]) == (
        "icifar-100",
        ["ar1", "naive", "cumulative"],
    )
    assert report.table(tmp_path).count("icifar-100") == 1
    page = report.write(tmp_path)
    cells, text = Cells(page), page.read_text()
    wanted = [toys.toy_record("", "cumulative", 1, i, sizes)["accuracy"] for i in (1, 2, 3, 4)]
    curve = cells.find(benchmark="icifar-100", strategy="cumulative", metric="accuracy")
    assert [(known["data-batch"], float(str(known["data-value"]))) for known, _ in curve] == [
        *zip(("1", "4", "7", "10"), wanted, strict=True)
    ]
    assert len(cells.find(benchmark="icifar-100", strategy="ar1", metric="accuracy")) == 10
    row = text[text.index('data-strategy="cumulative" data-metric="accuracy"') - 200 :].split("</tr>")[0]
    assert row.count("<td") == 10  # a column a batch, for the script that reads them
    assert [i for i in range(1, 11) if text.count(f'<li data-batch="{i}"') == 3] == [1, 4, 7, 10]
    assert "Cumulative, the upper bound" in text
    assert "20 classes arrive in 10 batches, 2 in each" in text
    assert "The benchmark is ten batches." in text
    assert "where as many classes have been seen: Cumulative." in text
    assert "joined" not in re.sub(r"<details.*?</details>", "", text.split("<main>")[1].split("Storage")[0]).replace(
        "batches joined", ""
    )


def test_joined_batches_alone_and_beside_their_namesake(tmp_path: Path) -> None:
    write_run(tmp_path / "joined", "icifar-100+joined", "cumulative", sizes=(2, 6))
    assert [one["benchmark"] for one in report.summary(tmp_path)["benchmarks"]] == ["icifar-100+joined"]
    write_run(tmp_path / "plain", "icifar-100", "cumulative", sizes=[2] * 4)
    (found,) = report.summary(tmp_path)["benchmarks"]
    assert {one["strategy"] for one in found["strategies"]} == {"cumulative", "cumulative (joined)"}
    series = figures.load(tmp_path)["icifar-100"]
    assert {one.label for one in series} == {"Cumulative", "Cumulative (joined)"}
    assert "icifar-100" in report.write(tmp_path, pictures=figures.pictures).read_text()


def test_variants_are_called_by_their_folders(tmp_path: Path) -> None:
    """Labels of an experiment, not knobs; what is learnt alike under two labels is two lines, and nothing repeated."""
    for label, strategy, accuracy in (
        ("CWR+ (both)", "cwr+", 0.6),
        ("CWR+ again", "cwr+", 0.7),
        ("all", "cumulative", 0.9),
    ):
        for run in (1, 2):
            place, name = tmp_path / label / f"run-{run}", "digits+joined" if label == "all" else "digits"
            write_run(
                place, name, strategy, run, sizes=(4, 6) if label == "all" else None, change={"accuracy": accuracy}
            )
    page = report.write(tmp_path, by="folder")
    cells, text = Cells(page), page.read_text()
    finals = [(known["data-strategy"], known["data-n"]) for known, _ in cells.find(metric="final")]
    assert finals == [("CWR+ again", "2"), ("CWR+ (both)", "2"), ("all", "2")]
    assert "repeats another run" not in text
    assert "all, the upper bound, 90.0" in text
    assert "repeats another run" in report.write(tmp_path).read_text()
    write_run(tmp_path / "CWR+ again" / "run-3", "digits", "naive", 3)
    (found,) = (bench for bench in by_folder(report.read(tmp_path)) if bench.name == "digits")
    assert sorted(group.title for group in found.groups) == ["CWR+ (both)", "CWR+ again: CWR+", "CWR+ again: Naive"]
    assert len({(group.style.dash, group.style.marker) for group in found.groups if group.strategy == "cwr+"}) == 2


def test_half_written_dead_and_bare_runs(tmp_path: Path) -> None:
    write_run(tmp_path / "whole", run=1, change={"accuracy": 0.5})
    cut = write_run(tmp_path / "cut", run=2, change={"accuracy": 0.9}) / "records.jsonl"
    cut.write_bytes(cut.read_bytes()[:-200] + "é".encode()[:1])
    write_run(tmp_path / "bare", run=3, config=False, change={"accuracy": 0.7})
    born = write_run(tmp_path / "born", run=4, upto=0)
    events = '{"i": 1, "epoch": 1, "step": 7}\n{"i": 1, "epoch": 2, "step": 8, "loss": NaN}\n{"i"'
    (born / "events.jsonl").write_text(events)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "config.json").write_text('{"some": "other program"}')
    runs = report.read(tmp_path)
    assert [(run.number, len(run.records), len(run.events)) for run in runs] == [
        (1, 3, 3),
        (2, 2, 3),
        (3, 3, 3),
        (4, 0, 2),
    ]
    assert [run.finished for run in runs] == [True, False, True, False]
    (one,) = report.summary(tmp_path)["benchmarks"][0]["strategies"]
    assert (one["runs"], one["finished"], one["final"]["mean"]) == (4, 2, pytest.approx(0.6))
    text = report.write(tmp_path).read_text()
    for said_ in ("run 2, unfinished, 2 of 3 batches: it is in no mean", "epoch 2, step 8", "bare has no config.json"):
        assert said_ in text
    assert text.count('class="cross"') == 4
    assert "2 of 4" in report.table(tmp_path)


def test_streams_of_other_shapes_make_pages(tmp_path: Path) -> None:
    """One batch; no finished run; the same classes in each (NI); many batches; no test patterns; a memory; transfer."""
    for k, strategy in enumerate(("si", "ar1")):
        write_run(tmp_path / strategy, "died", strategy, upto=k)
    same = {"batches": [list(range(10))] * 3, "backward_transfer": -0.1, "forgetting": 0.2, "storage_paper": None}
    write_run(tmp_path / "one", "one", sizes=[10], change={"accuracy": 0.0, "seconds_train": 0.0, "seconds_eval": None})
    write_run(tmp_path / "same", "same", "mine", change=same | {"storage": {"memory.latent": 8}})
    write_run(tmp_path / "many", "many", sizes=[1] * 40, change={"patterns": [0, *[36] * 39]})
    found = {one["benchmark"]: one for one in report.summary(tmp_path)["benchmarks"]}
    assert found["same"]["strategies"][0]["backward_transfer"]["mean"] == pytest.approx(-0.1)
    assert found["same"]["best_without_rehearsal"] is None
    text = report.write(tmp_path).read_text()
    for said_ in (
        "10 in each",
        "−10.0",
        "keeps patterns",
        "30 of the 40 batches are shown",
        "grey: no test",
        "No run without rehearsal has",
    ):
        assert said_ in text


def test_other_knobs_are_another_line_and_repeats_count_once(tmp_path: Path) -> None:
    for k, lam in enumerate((1.0, 2.0, 2.0)):
        write_run(tmp_path / f"{k}", knobs={"si": {"lam": lam}}, change={"accuracy": lam / 4})
    (found,) = report.summary(tmp_path)["benchmarks"]
    assert {one["strategy"]: one["runs"] for one in found["strategies"]} == {
        "ar1 (si.lam 2.0)": 1,
        "ar1 (si.lam 1.0)": 1,
    }
    assert "2 repeats another run and is left out" in report.write(tmp_path).read_text()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"accuracy": 74.1}, "'accuracy' of x/records.jsonl, line 1 is wrong: expected a number from 0 to 1, got 74.1"),
        ({"accuracy": math.nan}, "'accuracy' .* got nan"),
        ({"confusion": [[1, 2]]}, "'confusion' .* expected a square list"),
        ({"confusion": [[0.5]]}, "'confusion' .* expected a square list"),
        ({"order": [1]}, "contradicts itself: expected .* got i 1, of 3, 3 batches, 10 rows and 1 classes"),
        ({"i": 3}, "has gaps: expected a record for each batch from the first on, got batches .3."),
        ({"storage": {"network": "much"}}, "'storage' .* got .'network': 'much'."),
    ],
)
def test_wrong_records_are_clear_errors(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    write_run(tmp_path / "x", change=change)
    with pytest.raises(EverlearnError, match=said):
        report.write(tmp_path)


def test_folders_and_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    for folder, got in ((tmp_path, "no run"), (tmp_path / "none", "no such folder")):
        with pytest.raises(EverlearnError, match=rf"nothing to report on .* expected a folder .* got {got}\. Make"):
            report.table(folder)
    place = write_run(tmp_path / "x")
    with pytest.raises(EverlearnError, match=r"cannot be written: expected .* Give another out"):
        report.write(tmp_path, place)
    assert report.write(tmp_path, tmp_path / "new" / "page.html").is_file()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]
    lines = (place / "records.jsonl").read_text().splitlines()
    (place / "records.jsonl").write_text("\n".join([lines[0][:50], *lines[1:]]))
    with pytest.raises(EverlearnError, match="line 1, cannot be read: expected a JSON object"):
        report.read(tmp_path)
    (place / "config.json").write_text("[]")
    with pytest.raises(EverlearnError, match=r"x/config.json cannot be read"):
        report.read(tmp_path)


def test_another_process_writes_the_same_bytes_without_torch(full: Full, tmp_path: Path) -> None:
    code = "import sys, everlearn.report as r; r.write(*sys.argv[1:]); sys.exit('torch' in sys.modules)"
    arguments = [sys.executable, "-W", "error", "-c", code, str(full[0].parent), str(tmp_path / "again.html")]
    assert subprocess.run(arguments, check=False).returncode == 0
    assert (tmp_path / "again.html").read_bytes() == full[0].read_bytes()
    assert str(full[0].parent) not in full[0].read_text()


def test_colours_are_told_apart_by_everyone() -> None:
    """Texts have a contrast of 4.5 or more and lines of 3; no two colours look alike, to the colour-blind neither."""
    assert len({names.style(strategy).colour for strategy in STRATEGIES}) == 8
    for theme in toys.themes():
        assert all(toys.contrast(theme[name], theme["paper"]) > 4.5 for name in ("ink", "quiet", "link"))
        assert toys.contrast(theme["on-mark"], theme["mark"]) > 4.5
        lines = [theme[f"p{k}"] for k in range(names.COLOURS)]
        assert all(toys.contrast(line, theme["paper"]) > 3 for line in lines)
        for eyes in ("all", "protan", "deutan", "tritan"):
            labs = [toys.seen_by(eyes, line) for line in lines]
            assert min(float(np.linalg.norm(a - b)) for k, a in enumerate(labs) for b in labs[:k]) > 0.1


@pytest.fixture(scope="module")
def browser() -> Iterator["toys.Browser"]:
    with chromium() as browser:
        yield browser


def test_a_browser_shows_the_numbers_and_asks_for_nothing(full: Full, browser: "toys.Browser") -> None:
    page = opened(browser, full[0])
    for (benchmark, strategy), runs in full[1].items():
        three = [run[-1]["accuracy"] for run in runs]
        cell = page.locator(f'td[data-benchmark="{benchmark}"][data-strategy="{strategy}"][data-metric="final"]')
        assert cell.inner_text() == said(three)
    levels = [int(tag[1]) for tag in page.eval_on_selector_all("h1,h2,h3,h4,h5", "all => all.map(one => one.tagName)")]
    assert all(later <= earlier + 1 for earlier, later in pairwise([0, *levels]))
    assert page.locator("h2 .badge", has_text="synthetic").count() == 1
    assert page.locator('svg[role="img"]:not([aria-label])').count() == 0


def test_the_slider_shows_the_latest_matrix_of_joined_batches(tmp_path: Path, browser: "toys.Browser") -> None:
    write_run(tmp_path / "naive", "icifar-100", "naive", sizes=[2] * 10)
    write_run(tmp_path / "all", "icifar-100+joined", "cumulative", sizes=(2, 6, 6, 6))
    page = opened(browser, report.write(tmp_path))
    slider = page.locator("input[type=range]")
    slider.focus()
    page.keyboard.press("Home")
    seen = [page.locator(".large .after").all_inner_texts()]
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        seen.append(page.locator(".large .after").all_inner_texts())
    assert [[one.split(",")[0].split()[1] for one in both] for both in seen] == [
        ["1", "1"],
        ["2", "1"],
        ["3", "1"],
        ["4", "4"],
        ["5", "4"],
    ]


def test_the_slider_moves_all_matrices_by_keyboard(full: Full, browser: "toys.Browser") -> None:
    page = opened(browser, full[0])
    figure = page.locator("article:has(#b2) .matrices")
    figure.locator("input[type=range]").focus()
    for key, batch in (("Home", 1), ("ArrowRight", 2), ("End", 9)):
        page.keyboard.press(key)
        assert figure.locator("output").inner_text() == f"{batch} of 9"
        hrefs = "all => all.map(one => one.getAttribute('href'))"
        small = figure.locator(f'.strip li[data-batch="{batch}"] image').evaluate_all(hrefs)
        assert figure.locator(".large image").evaluate_all(hrefs) == small
        assert len(set(small)) == len(STRATEGIES) or batch == 1


def test_charts_are_read_by_keyboard_and_thinned_by_their_legend(full: Full, browser: "toys.Browser") -> None:
    page = opened(browser, full[0])
    figure = page.locator("article:has(#b2) .curves").first
    figure.locator(".chart").first.focus()
    page.keyboard.press("End")
    tip = figure.locator(".tip").first.inner_text().split()
    three = [run[-1]["accuracy"] for run in full[1]["mini50", "cumulative"]]
    assert tip[:6] == ["Batch", "9", "Cumulative", *said(three).split()]
    figure.get_by_label("Naive", exact=True).focus()
    page.keyboard.press("Space")
    assert not figure.locator(".series.k6").first.is_visible()
    assert figure.locator(".series.k5").first.is_visible()


def test_a_narrow_a_dark_and_a_scriptless_page(full: Full, browser: "toys.Browser") -> None:
    page = opened(browser, full[0], width=360)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    dark = opened(browser, full[0], color_scheme="dark")
    read = "name => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3).map(Number)"
    ink, paper = ("#" + bytes(dark.evaluate(read, name)).hex() for name in ("color", "backgroundColor"))
    assert (ink, paper) == (toys.themes()[1]["ink"], toys.themes()[1]["paper"])
    still = opened(browser, full[0], java_script_enabled=False)
    assert not still.locator(".slider").first.is_visible()
    assert [still.locator(what).count() for what in (".strip .cm", ".series title")] == [8 * 12, 2 * 2 * 8 * 12]


def test_a_hostile_page_does_nothing(tmp_path: Path, browser: "toys.Browser") -> None:
    long = "x" * 300
    for k, (benchmark, strategy) in enumerate(((HOSTILE[0], HOSTILE[1]), (HOSTILE[1], long), (long, HOSTILE[0]))):
        write_run(tmp_path / f"{k}", benchmark, strategy, command=HOSTILE[0], class_names=list(HOSTILE), upto=3 - k)
    page = opened(browser, report.write(tmp_path), width=360)
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert page.locator("img, body script:not(:last-of-type)").count() == 0
    add = "document.body.append(Object.assign(document.createElement('script'), {text: 'bad = 1'})), window.bad"
    assert page.evaluate(add) is None
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_the_page_holds_the_pictures(tmp_path: Path, browser: "toys.Browser") -> None:
    """Drawn elsewhere and handed in; they fit a phone, clash with nothing, and a browser shows them in peace."""
    for strategy in ("cwr", "naive"):
        write_run(tmp_path / strategy, "digits", strategy)
    page = opened(browser, report.write(tmp_path, pictures=figures.pictures), width=390)
    assert page.locator(".picture svg").count() == 4  # neither has an importance, nor a λ
    titles = page.locator("section:has(.picture) h3").all_inner_texts()
    assert titles == ["Final accuracy", "Old classes and new ones", "How far the weights moved"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    assert not opened(browser, report.write(tmp_path)).locator(".picture").count()
