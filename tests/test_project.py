"""The project itself: public names, the README's code, and imports that do not wait for PyTorch."""

import re
import subprocess
import sys
from pathlib import Path

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
        "errors",
        "heads",
        "load_state",
        "memories",
        "models",
        "preset",
        "regularisers",
        "save_state",
        "streams",
    ]
    for name in everlearn.__all__:
        assert getattr(everlearn, name) is not None
    rooms = {
        "heads": ["CWR", "Head", "PerTask", "Plain"],
        "regularisers": ["EWC", "Freeze", "LWF", "NoRegulariser", "Regulariser", "SI"],
        "memories": ["Everything", "Memory", "NoMemory"],
        "models": ["Network", "Normalise", "Output", "cifarnet", "small", "wrap"],
    }
    for room, names in rooms.items():
        assert sorted(getattr(everlearn, room).__all__) == names


def snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def test_the_readmes_snippet_runs_in_ten_lines() -> None:
    snippet = snippets()[0]
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, "-W", "error", "-c", snippet], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *batches, scores = done.stdout.splitlines()[:4]
    assert [line[: line.index("]") + 1] for line in batches] == ["[0, 1, 2, 3]", "[4, 5, 6]", "[7, 8, 9]"]
    assert scores.startswith("tensor(")
    final = float(re.findall(r"seen=([\d.]+)", batches[-1])[0])
    assert final > 0.4


def test_importing_everlearn_does_not_import_torch() -> None:
    code = "import sys, everlearn; assert 'torch' not in sys.modules; everlearn.Batch; assert 'torch' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(everlearn, "nothing")
