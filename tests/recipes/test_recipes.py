"""What a recipe promises, and that a strategy's name stands in one place."""

import ast
from pathlib import Path

import pytest

import everlearn
from everlearn import preset
from everlearn.diagnostics import NAMES
from everlearn.errors import ConfigError, DataError
from everlearn.learning.parallel import Ranks
from everlearn.recipes import Range, Recipe, SlotRecipe, Style, recipe_of
from everlearn.recipes.known import BASELINE, ELSEWHERE, KNOWN
from everlearn.recipes.presets import PRESETS, SETTINGS
from everlearn.recipes.slot_space import SlotSpace
from tests.toys import plain_network

SRC = Path(everlearn.__file__).parent

KINDS_OF_SLOTS = {
    "heads/cwr.py",
    "regularisers/ewc.py",
    "regularisers/lwf.py",
    "regularisers/si.py",
}
"""A slot has a name of its own, `name = "si"`: strategies that are made of it may be called the same."""

THE_PAPER = {"experiments/paper.py", "figures/known.py"}
"""The paper's experiments, and what its text says in numbers: data that is keyed by strategy."""


def test_a_strategy_s_name_stands_in_one_place() -> None:
    names, found = {*KNOWN, *ELSEWHERE}, {}
    for path in SRC.rglob("*.py"):
        here = path.relative_to(SRC).as_posix()
        constants = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        used = names & {value for value in constants if isinstance(value, str)}
        if used and not here.startswith("recipes/"):
            found[here] = used
    assert set(found) == KINDS_OF_SLOTS | THE_PAPER


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_recipe_says_without_torch_is_what_its_slots_say(name: str) -> None:
    recipe = KNOWN[name]
    assert isinstance(recipe, SlotRecipe)
    assert recipe.holds == PRESETS[name].regulariser.name
    assert recipe.holds_rows == (getattr(PRESETS[name].head, "old_rows", "") == "frozen")
    assert recipe.keeps == {"none": "nothing", "everything": "everything"}[PRESETS[name].memory.name]
    for setting in (None, *SETTINGS):
        assert recipe.hyperparameters(setting) == preset(name, setting).hyperparameters
    assert recipe.about
    assert recipe.words == recipe.about


def test_styles_tell_strategies_apart() -> None:
    styles = [recipe.style for recipe in (*KNOWN.values(), *ELSEWHERE.values())]
    assert len({(style.colour, style.dash, style.marker) for style in styles}) == len(styles)


def test_the_baseline_does_nothing_against_forgetting() -> None:
    slots = PRESETS[BASELINE]
    assert (slots.regulariser.name, slots.memory.name) == ("none", "none")


def test_stars_take_the_settings_of_those_they_are_like() -> None:
    for setting in SETTINGS:
        assert SETTINGS[setting]["ar1*"] == SETTINGS[setting]["ar1"]
        assert SETTINGS[setting]["cwr*"] == SETTINGS[setting]["cwr+"]


MINE = Recipe(
    "mine",
    "a sentence",
    "nowhere.at_all:build",
    {"k": 5, "scale": 1.0, "kind": "near", "flag": True, "shape": None},
    settings={"small/digits": {"k": 3}, "ours": {"scale": 2.0}},
    searched={"k": Range(1, 50), "scale": Range(0.1, 10.0)},
    advices={"forgetting": "Raise k."},
)


def test_defaults_then_the_setting_then_knobs() -> None:
    assert MINE.hyperparameters()["k"] == 5
    assert MINE.hyperparameters("small/digits") == {**MINE.knobs, "k": 3}
    assert MINE.hyperparameters("ours", {"k": 9}) == {**MINE.knobs, "k": 9, "scale": 2.0}
    assert MINE.hyperparameters("small/mini50") == MINE.knobs  # a setting without a table of it
    with pytest.raises(ConfigError, match=r"Unknown setting: .*'ours'"):
        MINE.hyperparameters("theirs")
    assert MINE.has_knob("k")
    assert not MINE.has_knob("si.lam")


def test_a_recipe_without_a_setting_s_table_takes_that_of_one_it_is_like() -> None:
    like = SlotRecipe("like", slots=lambda s: s.Slots(s.CWR_PLUS, s.SI()), like="ar1")
    assert like.hyperparameters("caffenet/core50")["si.lam"] == 8e5
    other = SlotRecipe("other", slots=lambda s: s.Slots(s.CWR_PLUS, s.EWC(lam=2.0)), like="ar1")
    assert other.hyperparameters("caffenet/core50")["ewc.lam"] == 2.0
    assert other.hyperparameters("caffenet/core50")["training.minibatch"] == 256
    alone = SlotRecipe("alone", slots=lambda s: s.Slots(s.CWR_PLUS, s.SI(lam=3.0)))
    assert alone.hyperparameters("caffenet/core50")["si.lam"] == 3.0


@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("other", 1, r"Unknown knob: expected one of \['k', 'scale', 'kind', 'flag', 'shape'\], got 'other'"),
        ("k", 2.5, "A bad value for k: expected int, got 2.5"),
        ("k", True, "A bad value for k"),
        ("scale", "big", "A bad value for scale: expected float"),
        ("kind", 3, "A bad value for kind: expected str"),
        ("flag", 1, "A bad value for flag: expected bool"),
    ],
)
def test_knobs_are_refused_with_a_sentence(knob: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        MINE.hyperparameters(knobs={knob: value})


def test_numbers_may_be_whole_and_shapes_anything() -> None:
    knobs = {"scale": 2, "shape": [1, 2]}
    assert MINE.hyperparameters(knobs=knobs) == {**MINE.knobs, **knobs}


def test_a_function_that_is_not_there_is_told_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"The strategy mine cannot be used here: expected 'nowhere.at_all:build'"):
        MINE.build(plain_network())
    extra = Recipe("extra", "a sentence", "json:nothing", extra="mine[fast]")
    assert extra.words == "a sentence; needs pip install 'mine[fast]'"
    with pytest.raises(ConfigError, match=r"json has no 'nothing'. pip install 'mine\[fast\]'"):
        extra.build(plain_network())
    with pytest.raises(ConfigError, match=r"The strategy slots cannot be used here: expected 'nowhere:slots'"):
        SlotRecipe("slots", slots="nowhere:slots").hyperparameters()
    with pytest.raises(ConfigError, match="words only"):
        ELSEWHERE["gem"].build(plain_network())


def test_several_processes_are_refused_unless_the_recipe_takes_them() -> None:
    class Two(Ranks):
        size = 2

    with pytest.raises(ConfigError, match="Several processes cannot learn mine together: expected one process, got 2"):
        MINE.build(plain_network(), ranks=Two())


def test_the_function_gets_all_knobs_and_what_is_random() -> None:
    told: dict[str, object] = {}

    def build(_network: object, knobs: dict[str, object], **options: object) -> object:
        told.update(knobs=knobs, **options)
        return preset_learner

    preset_learner = everlearn.build("naive", plain_network())
    recipe = Recipe("told", "", build, {"k": 1}, together=True)  # type: ignore[arg-type]
    assert recipe.build(plain_network(), knobs={"k": 2}, seed=3, ranks=Ranks()) is preset_learner
    assert told.pop("ranks") is not None
    assert told == {"knobs": {"k": 2}, "seed": 3, "device": "cpu"}


def test_a_space_of_knobs() -> None:
    space = MINE.space("small/digits", {"scale": 2.0})
    assert space.ranges == {"k": Range(1, 50)}
    assert space.first == {"k": 3}
    assert space.place({"k": 99, "other": 1}) == {"k": 50}
    assert space.knobs({"k": 7.6}) == {"k": 8}
    assert Recipe("none").space().ranges == {}


def test_slots_of_others_are_searched_as_they_say() -> None:
    recipe = SlotRecipe("searched", slots=lambda s: s.Slots(s.Plain(), s.SI()), searched={"si.xi": Range(1e-9, 1e-3)})
    space = recipe.space(sizes=[5, 5])
    assert isinstance(space, SlotSpace)
    assert space.ranges["si.xi"] == Range(1e-9, 1e-3)
    assert space.first["si.xi"] == recipe.own.hyperparameters["si.xi"]
    assert space.knobs({**space.first, "si.xi": 1e-5})["si.xi"] == 1e-5


def test_advice_is_the_recipe_s_or_by_what_holds_the_weights() -> None:
    assert MINE.advice("forgetting") == "Raise k."
    for alarm in (*NAMES, "bar_and_band"):
        if alarm not in {"overshoot", "frozen_moved"}:  # which are the same for everybody
            assert recipe_of("ewc").advice(alarm) == recipe_of("ar1-ewc").advice(alarm)
            assert recipe_of("ar1").advice(alarm, {"regulariser": "ewc"}) == recipe_of("ewc").advice(alarm)
            assert recipe_of("ar1").advice(alarm) == recipe_of("si").advice(alarm)


def test_streams_are_refused_by_the_recipe() -> None:
    again = [[0, 1], [1, 2]]
    MINE.check_stream(again)
    recipe_of("cwr*").check_stream(again)
    with pytest.raises(DataError):
        recipe_of("cwr+").check_stream(again)


def test_a_style_is_given_or_by_the_letters() -> None:
    assert Recipe("a", style=Style(3, 1, 2)).style == Style(3, 1, 2)
    assert Recipe("a").style == Recipe("a", "other").style
    assert Recipe("a").style.colour > 1
