"""Strategies by name: ours, those of a program, and those that other packages bring by an entry point."""

import difflib
import re
import warnings

from everlearn._kit import plugins
from everlearn._kit.knobs import check
from everlearn._kit.plugins import RECIPES
from everlearn.errors import ConfigError, EverlearnWarning, sentence
from everlearn.recipes.known import ELSEWHERE, KNOWN
from everlearn.recipes.recipe import Recipe

_NAME = re.compile(r"[\w+*.-]+", re.ASCII)
_registered: dict[str, Recipe] = {}
_outside: dict[str, dict[str, Recipe]] = {}  # by entry point, and by name


def register(recipe: Recipe) -> Recipe:
    """Make a strategy known to this process, for a program or a test of one's own.

    Processes that are started for runs do not know it: a package with an entry point of the group `everlearn.recipes`
    is what `--jobs` and clusters take.

    Args:
        recipe: the strategy; one that was registered under the same name before gives way.

    Returns:
        The same recipe.

    Raises:
        ConfigError: it is no recipe, or its name is one of ours, or cannot be given to `--strategy`.
    """
    _checked(recipe)
    check(
        recipe.name not in KNOWN,
        f"There is a strategy {recipe.name!r} already",
        expected="another name than ours",
        got=repr(recipe.name),
        do="Rename yours.",
    )
    _registered[recipe.name] = recipe
    return recipe


def forget() -> None:
    """Forget what was registered, and look for entry points again when next asked."""
    _registered.clear()
    _outside.clear()
    plugins.forget()


def recipes() -> dict[str, Recipe]:
    """Every strategy that can be used here, by name: ours first. What is broken elsewhere is warned of, and left out.

    >>> list(recipes())[:3]
    ['naive', 'cumulative', 'lwf']
    """
    found = {**KNOWN, **_registered}
    for point in RECIPES.points:
        for name, recipe in _of_point(point).items():
            found.setdefault(name, recipe)
    return found


def unusable() -> dict[str, str]:
    """What other packages promise and do not keep: the entry points, each with the reason."""
    for point in RECIPES.points:
        _of_point(point)
    return dict(RECIPES.broken)


def recipe_of(name: str) -> Recipe:
    """The recipe of a strategy.

    Args:
        name: as `everlearn list strategies` has it.

    Raises:
        ConfigError: there is no such strategy, or the package that brings it is broken.

    >>> recipe_of("ar1").title
    'AR1'
    >>> recipe_of("awc")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    everlearn.errors.ConfigError: Unknown strategy: expected one of [...], got 'awc'. Did you mean 'ewc'?
    """
    found = _known(name, asked=True)
    if found is not None:
        return found
    if name in RECIPES:
        raise _error_of(name)
    names = list(recipes())
    near = difflib.get_close_matches(name, names, n=1)
    raise ConfigError(
        sentence(
            "Unknown strategy",
            expected=f"one of {names}",
            got=repr(name),
            do=f"Did you mean {near[0]!r}?" if near else "Choose one.",
        )
    )


def words_of(name: str) -> Recipe:
    """The words, colours and advice for the records of any strategy, also of one that is not installed here.

    Args:
        name: as a record has it.

    >>> words_of("icarl").title, words_of("someone's").title
    ('iCaRL', "someone's")
    """
    return _known(name) or ELSEWHERE.get(name) or Recipe(name)


def _known(name: str, *, asked: bool = False) -> Recipe | None:
    """The recipe of this name, with as few imports as it takes to find it. asked: whoever asks tells what is broken."""
    if name in KNOWN or name in _registered:
        return KNOWN.get(name) or _registered[name]
    if name in RECIPES and (recipe := _of_point(name, asked=asked).get(name)):
        return recipe
    return recipes().get(name)


def _of_point(point: str, *, asked: bool = False) -> dict[str, Recipe]:
    """The recipes that an entry point brings, by name; none where it is broken, which is told of unless `asked` for."""
    if point not in _outside:
        try:
            _outside[point] = _loaded(point)
        except ConfigError as error:
            _outside[point] = {}
            if not asked:
                RECIPES.tell(error)
    return _outside[point]


def _loaded(point: str) -> dict[str, Recipe]:
    brought = RECIPES.load(point)
    try:
        given = brought() if callable(brought) else brought
        each = [_checked(one) for one in ([given] if isinstance(given, Recipe) else list(given))]
    except Exception as error:  # whatever somebody else's function does
        raise RECIPES.refusal(point, f"{type(error).__name__}: {error}") from error
    found = {recipe.name: recipe for recipe in each}
    for name in [name for name in found if name in KNOWN]:
        package = RECIPES.package(point)
        said = f"The strategy {name!r} of the package {package} is not used: there is one of ours with this name."
        warnings.warn(said, EverlearnWarning, stacklevel=2)
        RECIPES.broken[f"{name} ({package})"] = "unusable: there is one of ours with this name"
        del found[name]
    return found


def _error_of(point: str) -> ConfigError:
    """Why an entry point gives no recipe of its own name."""
    try:
        _loaded(point)
    except ConfigError as error:
        return error
    return RECIPES.refusal(point, "its recipes have other names")


def _checked(recipe: object) -> Recipe:
    if not isinstance(recipe, Recipe):
        raise ConfigError(
            sentence("This is no recipe", expected="a Recipe", got=type(recipe).__name__, do="Give one, or a list.")
        )
    check(
        _NAME.fullmatch(recipe.name) is not None,
        "A bad name for a strategy",
        expected="letters, digits and any of +*.-_",
        got=repr(recipe.name),
        do="Rename it.",
    )
    return recipe
