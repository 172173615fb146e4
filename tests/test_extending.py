"""docs/extending.md, followed to the letter: its files are written, its commands run, and what they print compared."""

import inspect
import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import everlearn
from everlearn import Batch, Learner, Step
from everlearn.cli import main
from everlearn.heads import Head
from everlearn.learning.bench import Bench
from everlearn.memories import Memory
from everlearn.recipes import Recipe, SlotRecipe, registry
from everlearn.regularisers import Regulariser
from tests.toys import QUICK, assert_same_state, three_outputs, toy_stream

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
START = "Start a package"
ADDING = [title for title in SECTIONS if title.startswith("Add a ")]
NUMBER = re.compile(r"\d+\.\d+")


class Block(NamedTuple):
    """A block of code, and the words before it: "Write `FILE`" or "Add to `FILE`"."""

    kind: str
    text: str
    before: str

    @property
    def verb_and_file(self) -> tuple[str, str]:
        found = re.findall(r"(Write|Add to) `([\w./]+)`", self.before)
        return found[-1] if found else ("", "")


def blocks(section: str) -> list[Block]:
    fence = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", flags=re.DOTALL | re.MULTILINE)
    found, end = [], 0
    for match in fence.finditer(SECTIONS[section]):
        before = SECTIONS[section][end : match.start()]
        found.append(Block(match[2], textwrap.dedent(match[3]), before))
        end = match.end()
    return found


class Reader:
    """Somebody who does what the page says, in a folder of their own. pip's part is a dist-info on the path."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def follow(self, section: str, *, commands: bool = True) -> None:
        printed = ""
        for block in blocks(section):
            verb, name = block.verb_and_file
            if block.kind == "bash" and commands:
                printed = "".join(map(self.run, block.text.splitlines()))
            elif block.kind == "text" and commands:
                assert_alike(block.text, printed)
            elif verb == "Write":
                Path(name).write_text(block.text)
            elif verb == "Add to":
                self.add(Path(name), block.text)
            else:
                assert block.kind in ("bash", "text"), f"Nothing says what to do with:\n{block.text}"

    def add(self, path: Path, text: str) -> None:
        """At the end; or behind its header, where the file has that already."""
        header = text.splitlines()[0]
        before = path.read_text()
        path.write_text(before.replace(header, text.rstrip()) if header in before else f"{before}\n{text}")

    def run(self, line: str) -> str:
        program, *words = shlex.split(line)
        if program == "mkdir":
            assert words[0] == "-p"
            Path(words[1]).mkdir(parents=True)
        elif program == "cd":
            self.monkeypatch.chdir(words[0])
        elif program == "pip":
            assert words == ["install", "--no-deps", "-e", "."]
            self.install()
        else:
            assert program == "everlearn"
            self.capsys.readouterr()
            assert main(words) == 0, self.capsys.readouterr().err
            return self.capsys.readouterr().out
        return ""

    def install(self) -> None:
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        info = Path(f"{project['name'].replace('-', '_')}-{project['version']}.dist-info")
        info.mkdir(exist_ok=True)
        lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", ""]
        (info / "METADATA").write_text("\n".join(lines))
        groups = project.get("entry-points", {}).items()
        points = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in named.items()) for group, named in groups]
        (info / "entry_points.txt").write_text("\n".join(points))
        here = str(Path.cwd())
        if here not in sys.path:
            self.monkeypatch.syspath_prepend(here)
            path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
            self.monkeypatch.setenv("PYTHONPATH", path)
        registry.forget()


def assert_alike(shown: str, printed: str) -> None:
    """Every line that the page shows is printed, in this order. Per cents to 5; a line's last number is seconds."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        words = _words(line)
        got = next((one for one in lines if _words(one) == words), None)
        assert got is not None, f"{line}\nis not in\n{printed}"
        expected, numbers = ([float(x) for x in NUMBER.findall(one)[:-1]] for one in (line, got))
        assert numbers == pytest.approx(expected, abs=5), f"{line}\n{got}"


def _words(line: str) -> list[str]:
    return NUMBER.sub("#", line).split()


@pytest.fixture
def reader(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    yield Reader(capsys, monkeypatch)
    monkeypatch.undo()
    registry.forget()
    for name in [name for name in sys.modules if name.split(".")[0] == "my_package"]:
        del sys.modules[name]


def test_there_is_a_section_for_each() -> None:
    kinds = ("regulariser", "head", "memory", "learner", "network", "source")
    assert [f"Add a {kind}" for kind in kinds] == ADDING


@pytest.mark.parametrize("section", ADDING)
def test_each_section_does_what_it_says(section: str, reader: Reader) -> None:
    """By itself, in a new package."""
    kinds = [block.kind for block in blocks(section)]
    assert kinds[0] == "python"
    assert kinds[-3:] == ["toml", "bash", "text"]
    reader.follow(START)
    reader.follow(section)


def test_all_sections_go_together_in_one_package(reader: Reader) -> None:
    reader.follow(START)
    for section in ADDING:
        reader.follow(section, commands=False)
    reader.install()
    shown = reader.run("everlearn list")
    for name in ("my-mas", "my-ncm", "my-replay", "my-means", "my-linear", "split-N:my-stripes"):
        assert re.search(rf"^{name} ", shown, flags=re.MULTILINE)
    assert "unusable" not in shown


def _asked_and_saved(learner: Learner, batch: Batch, states: list[Any], _: Step) -> None:
    learner.predict(batch.x)
    states.append(learner.state_dict())


@pytest.mark.parametrize("growth", ["maximal", "expanding"])
def test_what_the_page_writes_resumes_within_a_batch(growth: str, reader: Reader) -> None:
    """Bit for bit, as the page promises; with rows that grow, too."""
    reader.follow(START)
    for section in ADDING[:4]:
        reader.follow(section, commands=False)
    reader.install()
    for name in ("my-mas", "my-ncm", "my-replay", "my-means"):
        knobs = {} if name == "my-means" else {**QUICK, "head.growth": growth}
        whole, again = (everlearn.build(name, three_outputs(), knobs=knobs, seed=3) for _ in range(2))
        first, *later = toy_stream()
        whole.learn(first)
        states = [whole.state_dict()]
        on_step = partial(_asked_and_saved, whole, first, states)
        whole.learn(later[0], on_step=on_step)
        again.load_state_dict(states[len(states) // 2])
        again.learn(later[0])
        for batch in later[1:]:
            whole.learn(batch)
            again.learn(batch)
        assert_same_state(whole.state_dict(), again.state_dict())


def test_without_a_package() -> None:
    code, shown = blocks("Without a package")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code.text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert _words(done.stdout) == _words(shown.text)
    expected = [float(x) for x in NUMBER.findall(shown.text)]
    assert [float(x) for x in NUMBER.findall(done.stdout)] == pytest.approx(expected, abs=0.05)


# --- the tables -----------------------------------------------------------------------------------

HEADINGS = re.findall(r"^### (.*)$", SECTIONS["The verbs"], flags=re.MULTILINE)


def rows(text: str) -> list[str]:
    """The first column of a table, whose entries are in backticks."""
    return [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]


def verbs_of(heading: str) -> str:
    """What stands under one heading of the verbs."""
    return re.split(r"^### ", SECTIONS["The verbs"], flags=re.MULTILINE)[1:][HEADINGS.index(heading)]


def public(kind: type) -> set[str]:
    """The methods and properties that a class of ours has for others."""
    ours = [one for one in kind.__mro__ if one.__module__.startswith("everlearn")]
    found = [(name, value) for one in ours for name, value in vars(one).items() if not name.startswith("_")]
    return {name for name, value in found if inspect.isfunction(value) or isinstance(value, property)}


@pytest.mark.parametrize(
    ("heading", "kind"), [("Regulariser", Regulariser), ("Head", Head), ("Memory", Memory), ("Learner", Learner)]
)
def test_every_verb_is_in_its_table(heading: str, kind: type) -> None:
    """With the arguments that it has."""
    assert public(kind) - set(re.findall(r"`(\w+)", verbs_of(heading))) == set()
    for cell in rows(verbs_of(heading)):
        for name, arguments in re.findall(r"`(\w+)(?:\((.*?)\))?`", cell):
            verb = getattr(kind, name)
            takes = list(inspect.signature(verb).parameters)[1:] if inspect.isfunction(verb) else []
            assert [argument.strip() for argument in arguments.split(",") if argument] == takes, name


def test_the_bench_is_in_its_table() -> None:
    named = {name for cell in rows(verbs_of(HEADINGS[0])) for name in re.findall(r"`(\w+)`", cell)}
    assert named == public(Bench) | {"scope", "theta", "rows", "memory", "training", "seed"}


def test_the_arguments_of_a_recipe_are_in_their_table() -> None:
    named = {name for cell in rows(SECTIONS["Recipes"]) for name in re.findall(r"`(\w+)`", cell)}
    assert named == {*inspect.signature(Recipe).parameters, *inspect.signature(SlotRecipe).parameters}
