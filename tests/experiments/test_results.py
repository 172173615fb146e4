"""The published results: every table can be drawn again from the records beside it."""

import sys
import tarfile
from pathlib import Path

import pytest

from everlearn import figures
from everlearn.experiments import EXPERIMENTS
from everlearn.experiments.reproduce import slug
from tests import report_toys as toys

RESULTS = Path(__file__).parents[2] / "docs" / "results"
sys.path.append(str(RESULTS))

from publish import packed, publish  # noqa: E402

PUBLISHED = sorted(path.parent for path in RESULTS.glob("*/records.tar.xz"))


def unpacked(archive: Path, there: Path) -> Path:
    with tarfile.open(archive) as file:
        file.extractall(there, filter="data")
    return there


def drawn_as(name: str) -> tuple[list[str], list[str]]:
    """What has tables, and an experiment's variants in their order."""
    wanted, order = ["table", "paired"], list[str]()
    if name in EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        wanted += [figure for figure in experiment.figures if figure == "mt_vs_sit"]
        order = [slug(variant.label) for variant in experiment.variants(experiment.benchmark)]
    return wanted, order


@pytest.mark.parametrize("folder", PUBLISHED, ids=[folder.name for folder in PUBLISHED])
def test_the_tables_are_those_of_the_records(folder: Path, tmp_path: Path) -> None:
    runs = unpacked(folder / "records.tar.xz", tmp_path / "runs")
    wanted, order = drawn_as(folder.name)
    album = figures.draw(runs, tmp_path / "drawn", wanted, by="folder", order=order)
    tables = [path for path in album.paths if path.suffix == ".md"]
    assert {path.name for path in folder.glob("*.md")} - {"README.md", "about.md"} == {path.name for path in tables}
    page = (folder / "README.md").read_text()
    if (folder / "about.md").exists():
        assert (folder / "about.md").read_text() in page
    for path in tables:
        assert (folder / path.name).read_text() == path.read_text()
        assert path.read_text() in page


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """What `everlearn reproduce` leaves, made up."""
    folder = tmp_path / "made" / "ablation"
    for label, strategy in (("CWR", "cwr"), ("CWR+ (both)", "cwr+")):
        for run in (1, 2):
            toys.write_run(folder / label / f"run-{run}", strategy=strategy, run=run)
    figures.draw(folder, folder / "figures", ["bars", "table", "paired"], by="folder")
    return folder


def test_an_experiment_is_published(experiment: Path, tmp_path: Path) -> None:
    target = tmp_path / "docs" / "ablation"
    publish(experiment, target)
    (target / "about.md").write_text("What came out.\n")
    publish(experiment, target)  # again, over what is there
    test_the_tables_are_those_of_the_records(target, tmp_path)
    page = (target / "README.md").read_text()
    assert page.startswith("# ablation: from CWR to CWR+, one step at a time\n\nWhat came out.\n\n```bash")
    assert "![digits-bars](digits-bars.png)" in page
    assert (target / "digits-bars.png").stat().st_size > 1000
    runs = unpacked(target / "records.tar.xz", tmp_path / "again")
    kept = sorted(path.relative_to(runs).as_posix() for path in runs.rglob("*") if path.is_file())
    assert kept == sorted(
        f"{label}/run-{run}/{name}"
        for label in ("CWR", "CWR+ (both)")
        for run in (1, 2)
        for name in ("config.json", "records.jsonl")
    )


def test_what_is_not_there_is_not_published(experiment: Path, tmp_path: Path) -> None:
    target = tmp_path / "docs" / "ablation"
    publish(experiment, target)
    before = sorted(path.name for path in target.iterdir())
    with pytest.raises(SystemExit, match="nothing was published"):
        publish(experiment.parent / "misspelt", target)
    assert sorted(path.name for path in target.iterdir()) == before


def test_the_archive_does_not_depend_on_when_it_is_made(experiment: Path) -> None:
    files = sorted(experiment.rglob("records.jsonl"))
    before = packed(experiment, files)
    for path in files:
        path.touch()
    assert packed(experiment, files) == before
