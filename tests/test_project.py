"""The project itself: public names, the README's code, and imports that do not wait for PyTorch."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import everlearn

ROOT = Path(__file__).parents[1]


def test_the_public_names_are_pinned() -> None:
    assert sorted(everlearn.__all__) == dir(everlearn)
    assert sorted(everlearn.__all__) == [
        "Batch",
        "EverlearnError",
        "EverlearnWarning",
        "Learner",
        "PRESETS",
        "Phase",
        "Slots",
        "Step",
        "Strategy",
        "Training",
        "build",
        "data",
        "equations",
        "errors",
        "evaluation",
        "figures",
        "heads",
        "load",
        "load_state",
        "memories",
        "models",
        "paper",
        "parallel",
        "preset",
        "pretraining",
        "recipes",
        "regularisers",
        "report",
        "runs",
        "save",
        "save_state",
        "streams",
        "weights",
    ]
    for name in everlearn.__all__:
        assert getattr(everlearn, name) is not None
    rooms = {
        "heads": ["CWR", "CWRStar", "Head", "PerTask", "Plain"],
        "regularisers": ["EWC", "Freeze", "LWF", "Minibatch", "NoRegulariser", "Regulariser", "SI", "Term", "Terms"],
        "pretraining": ["cifarnet_cifar10", "efficientnet_lite0_imagenet", "small_mini50"],
        "memories": ["Everything", "Memory", "NoMemory", "Replayed"],
        "weights": [
            "CAFFE",
            "Known",
            "Layout",
            "NETWORKS",
            "Report",
            "TORCHVISION",
            "TensorEntry",
            "convert",
            "import_weights",
            "load_weights",
            "read_about",
            "read_caffemodel",
            "read_state_dict",
            "save_weights",
        ],
        "models": [
            "CaffeInput",
            "Network",
            "Normalise",
            "Output",
            "caffenet",
            "caffenet_128",
            "cifarnet",
            "efficientnet_lite0",
            "googlenet",
            "googlenet_128",
            "nin_128",
            "resnet_18",
            "resnet_32",
            "resnet_50",
            "small",
            "wrap",
        ],
    }
    for room, names in rooms.items():
        assert sorted(getattr(everlearn, room).__all__) == names


PAGES = [*sorted((ROOT / "docs" / "strategies").glob("*.md")), ROOT / "docs" / "learner.md"]


def snippets(page: Path) -> list[tuple[str, str]]:
    """Every Python block of a page, with the text block that shows what it prints, or ''."""
    blocks = re.findall(r"```(\w+)\n(.*?)```", page.read_text(), flags=re.DOTALL)
    shown = [*(text if kind == "text" else "" for kind, text in blocks[1:]), ""]
    return [(code, text) for (kind, code), text in zip(blocks, shown, strict=True) if kind == "python"]


EACH = """
import contextlib, io, json, sys, traceback
for page in json.load(sys.stdin):
    told, wrong, names = [], "", {"__name__": "__main__"}
    for code in page:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(code, "<page>", "exec"), names)
        except BaseException:
            wrong = traceback.format_exc()
            break
        finally:
            told.append(out.getvalue())
    print(json.dumps([told, wrong]), flush=True)
"""
"""What the blocks of each page print, and what went wrong; every page has names of its own, its blocks share them."""


def printed(*pages: list[str]) -> list[list[str]]:
    """What each block of each page prints, in one process for all of them: PyTorch takes longest to import."""
    command = [sys.executable, "-W", "error", "-c", EACH]
    done = subprocess.run(command, input=json.dumps(pages), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(pages), done.stderr
    for (_, wrong), page in zip(answers, pages, strict=True):
        assert not wrong, "\n".join([*page, wrong])
    return [told for told, _ in answers]


def test_every_strategy_has_a_page() -> None:
    names = {name.replace("+", "-plus").replace("*", "-star") for name in everlearn.PRESETS}
    assert names <= {page.stem for page in PAGES}


@pytest.mark.parametrize("half", [0, 1])
def test_the_pages_print_what_they_show(half: int) -> None:
    """Words to the letter; accuracies to 0.05, since other processors round otherwise."""
    pages = PAGES[half::2]
    every = [snippets(page) for page in pages]
    number = re.compile(r"0\.\d+")
    for page, blocks, outputs in zip(pages, every, printed(*([code for code, _ in b] for b in every)), strict=True):
        for (_, shown), got in zip(blocks, outputs, strict=True):
            if shown:
                assert number.sub("#", got).strip() == number.sub("#", shown).strip(), page
                expected = [float(x) for x in number.findall(shown)]
                assert [float(x) for x in number.findall(got)] == pytest.approx(expected, abs=0.05), page


def test_the_readmes_snippet_runs_in_ten_lines() -> None:
    snippet = snippets(ROOT / "README.md")[0][0]
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 10
    *batches, scores = printed([snippet])[0][0].splitlines()[:4]
    assert [line[: line.index("]") + 1] for line in batches] == ["[0, 1, 2, 3]", "[4, 5, 6]", "[7, 8, 9]"]
    assert scores.startswith("tensor(")
    final = float(re.findall(r"seen=([\d.]+)", batches[-1])[0])
    assert final > 0.4


def test_importing_everlearn_does_not_import_torch() -> None:
    code = "import sys, everlearn; assert 'torch' not in sys.modules; everlearn.Batch; assert 'torch' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(everlearn, "nothing")
