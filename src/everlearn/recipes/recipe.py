"""A recipe: all that the rest of Everlearn knows of a strategy. PyTorch is imported when a learner is built."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from everlearn._kit.knobs import check, fits
from everlearn.errors import ConfigError, sentence
from everlearn.recipes.advice import advice
from everlearn.recipes.space import Range, Space
from everlearn.recipes.style import Style, drawn

if TYPE_CHECKING:
    import torch

    from everlearn.learning.learner import Learner
    from everlearn.learning.parallel import Ranks
    from everlearn.models.network import Network

Knobs = Mapping[str, Any]
Keeps = Literal["nothing", "some", "everything"]
Batches = Sequence[Sequence[int]]

_BY_NAME = Style(-1, -1, -1)


@dataclass(frozen=True, eq=False)
class Recipe:
    """A strategy by name: how its learner is built, its hyperparameters, and its words and colours.

    Whoever writes one outside this package gives the first four, or three where there are no knobs. The others have
    defaults. A subclass may override the methods too.

    Args:
        name: what `--strategy` takes: letters, digits and any of `+*.-_`.
        about: a sentence for `everlearn list`.
        learner: a function (network, knobs, *, seed, device) -> Learner that has seen nothing yet, or where it is found
            as "package.module:function", so that nothing is imported before a learner is built. knobs: all of them by
            name, as a dict; seed: of everything random; device: as PyTorch names it.
        knobs: every hyperparameter with its default, by the name that `--set` takes.
        title: the name as pages spell it; by default the name.
        style: how it is drawn; by default by the letters of its name.
        keeps: how much of the old patterns it keeps. Pages mark those that keep any; who keeps everything is an upper
            bound.
        holds: what holds the weights (none, freeze, lwf, ewc or si), for advice on alarms; "" for something else.
        holds_rows: whether it holds the rows of old classes as they are too.
        advices: sentences of its own, by the name of an alarm.
        searched: the range of each knob that `tune` searches for; by default none, and `tune` makes one trial.
        settings: its hyperparameters by setting, e.g. {"small/digits": {"k": 3}}; other settings leave its defaults.
        like: another strategy, whose settings it takes where it has none.
        together: whether several processes can learn it together; its function takes `ranks` too then.
        extra: what must be installed, as pip takes it, e.g. "my-package[fast]".

    >>> mine = Recipe("mine", "always the first class", "my_package:build", {"k": 5})
    >>> mine.hyperparameters(knobs={"k": 7}), mine.title, mine.keeps
    ({'k': 7}, 'mine', 'nothing')
    """

    name: str
    about: str = ""
    learner: "Callable[..., Learner] | str | None" = None
    knobs: Knobs = field(default_factory=dict)
    _: KW_ONLY
    title: str = ""
    style: Style = _BY_NAME
    keeps: Keeps = "nothing"
    holds: str = ""
    holds_rows: bool = False
    advices: Mapping[str, str] = field(default_factory=dict)
    searched: Mapping[str, Range] = field(default_factory=dict)
    settings: Mapping[str, Knobs] = field(default_factory=dict)
    like: str | None = None
    together: bool = False
    extra: str = ""

    def __post_init__(self) -> None:
        if not self.title:
            object.__setattr__(self, "title", self.name)
        if self.style == _BY_NAME:
            object.__setattr__(self, "style", drawn(self.name))

    # What it learns with

    def hyperparameters(self, setting: str | None = None, knobs: Knobs | None = None) -> dict[str, Any]:
        """Every hyperparameter, by the names of `--set`.

        Args:
            setting: the hyperparameter set; None for the strategy's own.
            knobs: turned last, by name.

        Raises:
            ConfigError: an unknown setting, an unknown knob, or a value of another type than the default's.
        """
        given = {knob: value for knob, value in self.table(setting).items() if knob in self.knobs}
        for knob, value in (knobs or {}).items():
            check(
                knob in self.knobs,
                "Unknown knob",
                expected=f"one of {list(self.knobs)}",
                got=repr(knob),
                do="Choose one.",
            )
            kind = type(self.knobs[knob])
            check(
                kind not in (bool, int, float, str) or fits(value, kind),
                f"A bad value for {knob}",
                expected=kind.__name__,
                got=repr(value),
                do="See the documentation of the strategy.",
            )
        return {**self.knobs, **given, **(knobs or {})}

    def has_knob(self, knob: str, setting: str | None = None, knobs: Knobs | None = None) -> bool:
        """Whether a knob may be one of this strategy's, with these knobs turned.

        Args:
            knob: its name.
            setting, knobs: as for `hyperparameters`.
        """
        return knob in self.knobs

    def table(self, setting: str | None) -> Knobs:
        """The knobs that a setting has for this strategy, or for the one that it is like; none without a setting.

        Args:
            setting: the hyperparameter set; None for none.
        """
        if setting is None:
            return {}
        from everlearn.recipes.settings import table  # a dozen files, read when first needed

        return table(setting, self.settings, [self.name] if self.like is None else [self.name, self.like])

    def build(
        self,
        network: "Network",
        *,
        setting: str | None = None,
        knobs: Knobs | None = None,
        seed: int = 0,
        device: "str | torch.device" = "cpu",
        ranks: "Ranks | None" = None,
    ) -> "Learner":
        """A learner that has seen nothing yet.

        Args:
            network: an `everlearn.models.Network`; `everlearn.models.wrap` makes one of a module.
            setting, knobs: as for `hyperparameters`.
            seed: of everything that is random in training.
            device: where to compute, as PyTorch names it.
            ranks: the processes that learn it together, from `everlearn.learning.parallel`; by default this one alone.

        Raises:
            ConfigError: the strategy cannot be built so, or here; the sentence says why.
            NetworkError: this is no network.
        """
        from everlearn.learning.learner import Learner

        check_network(network)
        several = ranks is not None and ranks.size > 1
        check(
            self.together or not several,
            f"Several processes cannot learn {self.name} together",
            expected="one process",
            got=ranks.size if ranks else 1,
            do="Start it without torchrun.",
        )
        options: dict[str, Any] = {"seed": seed, "device": device}
        if self.together and ranks is not None:
            options["ranks"] = ranks
        learner = self._function()(network, self.hyperparameters(setting, knobs), **options)
        check(
            isinstance(learner, Learner),
            f"The strategy {self.name} cannot be used",
            expected="an everlearn.Learner from its function",
            got=type(learner).__name__,
            do="Mend its package.",
        )
        learner.recipe_ = {
            "name": self.name,
            "knobs": self.hyperparameters(setting, knobs),
            "network": described_network(network),
        }
        return learner

    def _function(self) -> "Callable[..., Learner]":
        if callable(self.learner):
            return self.learner
        check(
            self.learner is not None,
            f"{self.name} has words only",
            expected="a function that builds its learner",
            got="none",
            do="Choose a strategy of `everlearn list strategies`.",
        )
        return cast("Callable[..., Learner]", self._imported(cast(str, self.learner)))

    def _imported(self, place: str) -> Any:
        """What stands at a place, or what is missing here."""
        try:
            return found(place)
        except ImportError as error:
            needs = f"pip install '{self.extra}'" if self.extra else "Mend its package."
            raise ConfigError(
                sentence(
                    f"The strategy {self.name} cannot be used here",
                    expected=repr(place),
                    got=f"{type(error).__name__}: {error}",
                    do=needs,
                )
            ) from error

    def check_stream(self, batches: Batches, setting: str | None = None, knobs: Knobs | None = None) -> None:
        """Refuse a stream that cannot be learnt to the end, before anything is learnt. By default none is refused.

        Args:
            batches: the classes of each batch, B_1 first.
            setting, knobs: as for `hyperparameters`.

        Raises:
            DataError: the stream is refused; the sentence says why.
        """

    def space(
        self,
        setting: str | None = None,
        knobs: Knobs | None = None,
        *,
        etas: tuple[float, float] = (1e-4, 1e-1),
        sizes: Sequence[int] = (),
    ) -> Space:
        """What `everlearn tune` searches.

        Args:
            setting: where the search starts from, as for `hyperparameters`.
            knobs: held fixed.
            etas: the range of η that was asked for, where there is an η.
            sizes: the number of patterns of each batch.
        """
        return Space(self.searched, self.hyperparameters(setting, knobs), fixed=knobs or {})

    # What is said of it

    def held_by(self, knobs: Knobs) -> str:
        """What holds the weights of a run with these knobs: `holds`, or what the knob `regulariser` says instead."""
        return str(knobs.get("regulariser", self.holds))

    def advice(self, alarm: str, knobs: Knobs | None = None) -> str:
        """Which way to turn for an alarm, in a sentence.

        Args:
            alarm: a name of `everlearn.diagnostics.NAMES`, or `bar_and_band`.
            knobs: those of the run, as its config has them.
        """
        return self.advices.get(alarm) or advice(alarm, self.held_by(knobs or {}))

    @property
    def words(self) -> str:
        """`about`, and what must be installed."""
        return f"{self.about}; needs pip install '{self.extra}'" if self.extra else self.about


def described_network(network: "Network") -> dict[str, Any]:
    """How a network can be made again, or what it needs."""
    trunk = type(network.trunk)
    needs = f"a Network around {trunk.__module__}.{trunk.__qualname__}, for patterns of shape {network.input_shape}"
    fixed = [name for name, parameter in network.named_parameters() if not parameter.requires_grad]
    return {**(network.made or {"needs": needs}), **({"fixed": fixed} if fixed else {})}


def check_network(network: Any) -> None:
    """Refuse what is no network of ours."""
    from everlearn.errors import NetworkError
    from everlearn.models.network import Network

    if not isinstance(network, Network):
        raise NetworkError(
            sentence(
                "`network` must be an everlearn Network",
                expected="an everlearn.models.Network",
                got=type(network).__name__,
                do="Wrap a module of your own: everlearn.models.wrap(module, ...).",
            )
        )


def found(place: str) -> Any:
    """What stands at "package.module:name".

    >>> found("math:sqrt")(4)
    2.0
    """
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError as error:
        raise ImportError(f"{module} has no {name!r}") from error
