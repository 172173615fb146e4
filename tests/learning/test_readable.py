"""AR1 with its maths is read in three files: the arithmetic that really runs is traced to the lines it stands on."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import everlearn
from everlearn.models import small
from tests.toys import QUICK, toy_batch

HOME = Path(everlearn.__file__).parent
READ = {"learning/loop.py", "heads/cwr.py", "regularisers/si.py"}
"""What one reads to follow AR1."""
PLAIN = {"learning/theta.py", "learning/training.py", "learning/loss.py", "models/network.py"}
"""What any training has: the network's forward pass and Θ's gradient, the cross-entropy, SGD's step."""
ARITHMETIC = {"add", "sub", "rsub", "mul", "div", "addcmul", "clamp", "neg", "sqrt", "lerp", "pow"}


class Traced(TorchDispatchMode):
    """Notes on which line of ours each arithmetic operation on real numbers was asked for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lines: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.name().removeprefix("aten::").split(".")[0].rstrip("_")
        if name in ARITHMETIC and any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in tree_leaves(out)):
            self.lines[_place(sys._getframe())] += 1
        return out


def _place(frame: FrameType | None) -> tuple[str, int]:
    """The innermost line of the package that a frame was called from."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(HOME):
            return path.relative_to(HOME).as_posix(), frame.f_lineno
        frame = frame.f_back
    return "", 0


def test_ar1_is_read_in_three_files_of_at_most_500_lines() -> None:
    learner = everlearn.build("ar1", small(4, (1, 8, 8)), knobs={**QUICK, "si.lam": 1.0})
    batches = [toy_batch(classes) for classes in ((0, 1), (2, 3))]
    with Traced() as traced:
        for batch in batches:
            learner.learn(batch)
    files = {file for file, _ in traced.lines}
    assert READ - {"learning/loop.py"} <= files  # the loop itself only calls
    assert files <= READ | PLAIN, sorted(files - READ - PLAIN)
    assert sum(len((HOME / file).read_text().splitlines()) for file in READ) <= 500
    numbers = {file: {line for name, line in traced.lines if name == file} for file in READ}
    for file, equations in (("regularisers/si.py", ("(7)", "(10)", "(11)")), ("heads/cwr.py", ("tw[j] − avg(tw)",))):
        lines = (HOME / file).read_text().splitlines()
        beside = " ".join(lines[number - 1] for number in numbers[file])
        assert all(equation in beside for equation in equations), beside
