"""What README, CONTRIBUTING and the pages under docs/ name is there: files, names, links, and the room list."""

import importlib
import inspect
import pkgutil
import re
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import everlearn
from everlearn._kit.plugins import NETWORKS, RECIPES, SOURCES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "everlearn"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "results"),
]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def spans(page: Path) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


# --- files and names ------------------------------------------------------------------------------


@EVERY_PAGE
def test_files_that_a_page_names_exist(page: Path) -> None:
    """In the repository or under src/everlearn/; `yours.py` and `my_package/` are the reader's own."""
    named = {span for span in spans(page) if re.fullmatch(r"[\w./-]+\.py", span)}
    ours = {name for name in named if Path(name).stem != "yours" and not name.startswith("my_package/")}
    homes = (ROOT, ROOT / "src", PACKAGE)
    assert [name for name in sorted(ours) if not any((home / name).exists() for home in homes)] == []


@EVERY_PAGE
def test_names_that_a_page_gives_can_be_imported(page: Path) -> None:
    groups = {plugins.group for plugins in (RECIPES, NETWORKS, SOURCES)}
    named = {found[0] for span in spans(page) if (found := re.match(r"everlearn(\.\w+)+", span))}
    assert [name for name in sorted(named - groups) if not resolves(name)] == []


def resolves(name: str) -> bool:
    """Whether a dotted name leads somewhere: through modules as far as they go, then through attributes."""
    found = name.split(".")
    for end in range(len(found), 0, -1):
        try:
            value: object = importlib.import_module(".".join(found[:end]))
        except ImportError:
            continue
        for part in found[end:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@cache
def modules() -> list[ModuleType]:
    """Every module of the package that needs no extra."""
    names = [module.name for module in pkgutil.walk_packages(everlearn.__path__, "everlearn.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def is_ours(name: str) -> bool:
    """Whether some module has a function, a class, or an attribute or a field of a class of this name."""
    first, *rest = name.split(".")
    for module in modules():
        value = getattr(module, first, None)
        if value is not None and not rest:
            return True
        if isinstance(value, type) and len(rest) == 1:
            fields = {field for kind in value.__mro__ for field in getattr(kind, "__annotations__", {})}
            return hasattr(value, rest[0]) or rest[0] in fields
    return False


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "strategies").glob("*.md")), ids=lambda page: page.stem)
def test_equations_lead_to_code_that_is_there(page: Path) -> None:
    """Files, classes, functions and verbs of the tables "Equation → code"."""
    section = re.search(r"^## Equation → code\n(.*?)^## ", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    where = [row.split("|")[2] for row in section[1].splitlines() if row.startswith("| ")] if section else []
    named = {span for cell in where for span in re.findall(r"`([^`]+)`", cell)}
    names = {span for span in named if re.fullmatch(r"[A-Z]\w*\.\w+|\w+", span)} - {"shared_only"}  # an argument
    assert [name for name in sorted(names) if not is_ours(name)] == []


# --- links ----------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """What a heading is linked by, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@EVERY_PAGE
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page)):
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


# --- rooms ----------------------------------------------------------------------------------------


def rooms_of_the_table() -> list[set[str]]:
    """CONTRIBUTING's list, a row each."""
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| room |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return [{name.rstrip("/") for name in re.findall(r"`([\w/]+)`", cell)} for cell in cells]


def test_the_list_of_rooms_is_that_of_the_import_linter_and_of_the_package() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [set(layer.split(" | ")) for layer in config["layers"] if layer != "__main__"]
    assert rooms_of_the_table() == layers
    there = {module.name for module in pkgutil.iter_modules(everlearn.__path__)} - {"__main__"}
    assert {room for layer in layers for room in layer} == there


def test_every_room_says_what_belongs_in_it() -> None:
    """In at most three lines, so that a newcomer knows where to look and where to put things."""
    for folder in sorted(path.parent for path in PACKAGE.glob("*/__init__.py")):
        said = inspect.getdoc(importlib.import_module(f"everlearn.{folder.name}"))
        assert said, folder.name
        assert len([line for line in said.splitlines() if line]) <= 3, folder.name
