"""What other packages bring: entry points, each loaded when it is first asked for.

A package names them in its `pyproject.toml`:

    [project.entry-points."everlearn.recipes"]
    mine = "my_package.recipes:MINE"
"""

import inspect
import warnings
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from everlearn.errors import ConfigError, EverlearnWarning, sentence


class Plugins:
    """The entry points of one group. One that is broken breaks nothing else: it is told of, and refused by its name.

    Args:
        group: the group of entry points.
        what: what each of them is, in a word.
    """

    def __init__(self, group: str, what: str) -> None:
        self.group, self.what = group, what
        self.forget()

    def forget(self) -> None:
        """Look again when next asked: for tests, and after an installation in a running program."""
        self._points: dict[str, EntryPoint] | None = None
        self._loaded: dict[str, Any] = {}
        self.broken: dict[str, str] = {}

    @property
    def points(self) -> dict[str, EntryPoint]:
        """The entry points by name; nothing is imported to find them."""
        if self._points is None:
            found: dict[str, EntryPoint] = {}
            for point in sorted(entry_points(group=self.group)):
                first = found.setdefault(point.name, point)
                if first.value != point.value:
                    said = (
                        f"Two packages bring the {self.what} {point.name!r}: {first.value} is used, not {point.value}."
                    )
                    warnings.warn(said, EverlearnWarning, stacklevel=3)
            self._points = found  # whole, for other threads
        return self._points

    def __contains__(self, name: str) -> bool:
        return name in self.points

    def package(self, name: str) -> str:
        """The package that brings it."""
        dist = self.points[name].dist
        return dist.name if dist else self.points[name].module

    def load(self, name: str) -> Any:
        """What an entry point stands for.

        Args:
            name: the name of an entry point of this group.

        Raises:
            ConfigError: it cannot be imported; the sentence names the package and its error.
        """
        if name not in self._loaded:
            try:
                self._loaded[name] = self.points[name].load()
            except Exception as error:  # whatever somebody else's module does
                raise self.refusal(name, f"{type(error).__name__}: {error}") from error
        return self._loaded[name]

    def refusal(self, name: str, why: str) -> ConfigError:
        """The error that says why an entry point cannot be used; it is remembered."""
        package = self.package(name)
        self.broken[name] = f"unusable: {package} says {why}"
        return ConfigError(
            sentence(
                f"The {self.what} {name!r} cannot be used",
                expected=f"what the package {package} promises by {self.points[name].value!r}",
                got=why,
                do=f"Mend, update or remove {package}.",
            )
        )

    def tell(self, error: ConfigError) -> None:
        """Warn of an entry point that nobody asked for by its name."""
        warnings.warn(str(error), EverlearnWarning, stacklevel=3)

    def abouts(self) -> dict[str, str]:
        """Every name with the first line of its documentation, or with why it cannot be used."""
        found: dict[str, str] = {}
        for name in self.points:
            try:
                words = inspect.getdoc(self.load(name)) or f"from the package {self.package(name)}"
                found[name] = words.splitlines()[0]
            except ConfigError:
                found[name] = self.broken[name]
        return found


RECIPES = Plugins("everlearn.recipes", "strategy")
"""Each a `Recipe`, a list of them, or a function that gives either."""
NETWORKS = Plugins("everlearn.networks", "network")
"""Each a function (classes, input_shape, *, normalise, seed) -> Network; its first line of documentation is listed."""
SOURCES = Plugins("everlearn.sources", "source")
"""Each a function () -> Source, for split-N:NAME and whole:NAME."""


def forget() -> None:
    """Look for all entry points again when next asked."""
    for plugins in (RECIPES, NETWORKS, SOURCES):
        plugins.forget()
