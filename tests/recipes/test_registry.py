"""Names lead to recipes: ours, a program's, and those of packages, whole or broken."""

import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import everlearn
from everlearn._kit import plugins
from everlearn.benchmarks import benchmark_of, make_network
from everlearn.cli import main
from everlearn.errors import ConfigError, EverlearnWarning
from everlearn.recipes import Recipe, recipe_of, recipes, register, words_of
from everlearn.recipes.known import ELSEWHERE, KNOWN
from everlearn.recipes.registry import forget, unusable
from everlearn.recipes.style import drawn
from everlearn.runs import Config
from tests.packages import Bring, bringing
from tests.toys import plain_network

WHOLE = """
from everlearn.recipes import Recipe

MINE = Recipe("mine", "a sentence", "nowhere:build", {"k": 5})

def several():
    return [Recipe("first", "one", "nowhere:build"), Recipe("second", "two", "nowhere:build")]
"""


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    with bringing(tmp_path, monkeypatch) as function:
        yield function


@pytest.fixture
def afterwards_forgotten() -> Iterator[None]:
    yield
    forget()


def test_a_recipe_a_list_and_a_function_are_all_brought(bring: Bring) -> None:
    bring("whole_one", WHOLE, {"everlearn.recipes": {"mine": "MINE", "some": "several"}})
    assert recipe_of("mine").about == "a sentence"
    assert {"mine", "first", "second"} < set(recipes())
    assert list(recipes())[: len(KNOWN)] == list(KNOWN)
    assert Config("digits", "mine", knobs={"k": 7}).hyperparameters == {"k": 7}
    assert unusable() == {}


def test_a_name_is_found_without_importing_other_packages(bring: Bring) -> None:
    bring("whole_two", WHOLE, {"everlearn.recipes": {"mine": "MINE"}})
    bring("broken_two", "raise RuntimeError('no')", {"everlearn.recipes": {"theirs": "NONE"}})
    assert recipe_of("mine").name == "mine"
    assert recipe_of("ar1").name == "ar1"
    assert "broken_two" not in sys.modules


BROKEN = {
    "import": ("raise RuntimeError('no GPU here')", "RuntimeError: no GPU here"),
    "missing": ("", "AttributeError"),
    "no_recipe": ("X = 3", "TypeError"),
    "wrong_list": ("X = [3]", "expected a Recipe, got int"),
    "raises": ("def X(): return 1 / 0", "ZeroDivisionError"),
    "bad_name": ("from everlearn.recipes import Recipe\nX = Recipe('a, b')", "'a, b'"),
    "other_name": ("from everlearn.recipes import Recipe\nX = Recipe('z')", "other names"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_package_breaks_nothing_else(bring: Bring, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    source, why = BROKEN[how]
    bring(f"bad_{how}", source, {"everlearn.recipes": {"theirs": "X"}})
    bring(f"good_{how}", WHOLE, {"everlearn.recipes": {"mine": "MINE"}})
    with pytest.raises(ConfigError, match=rf"The strategy 'theirs' cannot be used: .*bad_{how}") as refused:
        recipe_of("theirs")
    assert why in str(refused.value)
    assert "mine" in recipes()
    with pytest.raises(ConfigError, match="Unknown strategy"):
        recipe_of("nothing")
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["list", "strategies"]) == 0
    shown = capsys.readouterr().out
    assert "\nmine " in shown
    if how != "other_name":  # which is a recipe all the same
        assert f"\ntheirs      unusable: bad_{how} says" in shown
        forget()
        with pytest.warns(EverlearnWarning, match="'theirs' cannot be used"):
            recipes()


def test_scripts_are_told_only_what_can_be_used(bring: Bring, capsys: pytest.CaptureFixture[str]) -> None:
    bring("bad_for_scripts", "", {"everlearn.recipes": {"theirs": "X"}, "everlearn.networks": {"net": "Y"}})
    with pytest.warns(EverlearnWarning, match="theirs"):
        assert main(["list", "--json"]) == 0
    shown = capsys.readouterr().out
    assert "theirs" not in shown
    assert '"net"' not in shown


def test_ours_wins_and_it_is_said(bring: Bring) -> None:
    source = "from everlearn.recipes import Recipe\nX = Recipe('ar1', 'another')"
    bring("same_name", source, {"everlearn.recipes": {"ar1": "X"}})
    with pytest.warns(EverlearnWarning, match="'ar1' of the package same_name is not used"):
        assert recipes()["ar1"] is KNOWN["ar1"]
    assert unusable() == {"ar1 (same_name)": "unusable: there is one of ours with this name"}


def test_two_packages_of_one_name_are_told_apart(bring: Bring) -> None:
    bring("one_of_two", WHOLE, {"everlearn.recipes": {"mine": "MINE"}})
    bring("two_of_two", WHOLE, {"everlearn.recipes": {"mine": "MINE"}})
    with pytest.warns(EverlearnWarning, match="Two packages bring the strategy 'mine': one_of_two:MINE is used"):
        recipe_of("mine")


@pytest.mark.usefixtures("afterwards_forgotten")
def test_a_program_registers_its_own() -> None:
    mine = register(Recipe("mine", "of a program", lambda *_, **__: 3))  # type: ignore[arg-type]
    assert recipe_of("mine") is mine
    assert words_of("mine") is mine
    with pytest.raises(ConfigError, match=r"expected an everlearn.Learner from its function, got int"):
        everlearn.build("mine", plain_network())
    with pytest.raises(ConfigError, match="There is a strategy 'ar1' already"):
        register(Recipe("ar1"))
    with pytest.raises(ConfigError, match="A bad name"):
        register(Recipe("a/b"))
    with pytest.raises(ConfigError, match="not made of slots"):
        everlearn.preset("mine")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"Unknown strategy: expected one of .*'ar1'.*, got 'cwr\+\+'. Did you mean 'cwr\+'\?"
    ):
        recipe_of("cwr++")
    with pytest.raises(ConfigError, match=r"got 'zzz'. Choose one\."):
        recipe_of("zzz")


def test_records_of_strategies_that_are_not_here_have_words() -> None:
    unknown = words_of("theirs, perhaps")
    assert (unknown.title, unknown.style, unknown.keeps) == ("theirs, perhaps", drawn("theirs, perhaps"), "nothing")
    assert unknown.advice("forgetting") == Recipe("other").advice("forgetting")
    for name, words in ELSEWHERE.items():
        assert words_of(name) is words
        with pytest.raises(ConfigError, match="Unknown strategy"):
            recipe_of(name)


def test_networks_and_sources_are_brought_too(bring: Bring, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
from everlearn.data import digits
from everlearn.models import small

def net(classes, input_shape, *, normalise, seed):
    "a small one\\n\\nmore"
    return small(classes, input_shape, normalise=normalise, seed=seed)

def none(classes, input_shape, **_):
    return 3

def patterns():
    return digits()
"""
    points = {
        "everlearn.networks": {"net": "net", "none": "none"},
        "everlearn.sources": {"theirs": "patterns", "no": "none"},
    }
    bring("parts_of_mine", source, points)
    chosen = benchmark_of("split-5:theirs")
    assert make_network("net", chosen.source(), seed=1).rows == 10
    with pytest.raises(ConfigError, match=r"The network 'none' cannot be used: .*parts_of_mine.*gave a int"):
        make_network("none", chosen.source(), seed=1)
    with pytest.raises(ConfigError, match=r"Unknown network: expected one of .*'net'"):
        make_network("nothing", chosen.source(), seed=1)
    with pytest.raises(ConfigError, match=r"Unknown source: expected one of .*'theirs'"):
        benchmark_of("split-5:nothing").source()
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "\nnet " in shown
    assert "a small one\n" in shown
    assert "split-N:theirs" in shown


def test_the_registry_is_light(bring: Bring) -> None:
    """Neither our names nor a package that names its function by its place import anything heavy."""
    code = (
        "import sys; from everlearn.recipes import recipes; recipes();"
        "assert not {'torch', 'numpy'} & set(sys.modules), sorted(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_plugins_forget() -> None:
    plugins.forget()
    assert plugins.RECIPES.group == "everlearn.recipes"
    assert plugins.RECIPES.broken == {}


def test_words_are_there_for_a_broken_package_too(bring: Bring) -> None:
    bring("bad_words", "raise RuntimeError('no')", {"everlearn.recipes": {"theirs": "X"}})
    with pytest.warns(EverlearnWarning, match="'theirs' cannot be used: .*bad_words"):
        assert words_of("theirs").title == "theirs"
    with pytest.raises(ConfigError, match="RuntimeError: no"):
        recipe_of("theirs")
