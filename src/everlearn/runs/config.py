"""What a run is: everything that settles its result."""

import json
import re
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from everlearn._kit.knobs import check, check_types, flat
from everlearn.benchmarks import benchmark_of
from everlearn.errors import ConfigError, sentence
from everlearn.recipes import Recipe, recipe_of

PLACE = ("device", "threads")  # where it is computed: another place gives the same to rounding
SHARES = ("cpus", "gpus")  # of a machine: they settle nothing of the result
LEAST_CPUS = 0.0001  # Ray counts no less
FREE = ("batches", *PLACE, *SHARES)  # may be others when a run goes on


@dataclass(frozen=True)
class Config:
    """One run of one strategy on one benchmark.

    benchmark: its name, from `everlearn list benchmarks`. strategy: its name, from `everlearn list strategies`.
    run: numbers the order of the classes, from 1.
    setting: whose hyperparameters; by default the benchmark's own. network: by default the benchmark's.
    weights: a file that the network's weights start from, written by `everlearn pretrain` or `everlearn weights`.
    knobs: by dotted name, turned last. seed: of everything else that is random; by default the run's number.
    device: as PyTorch names it. threads: of the CPU. Another device or number gives results that agree to rounding.
    batches: learn the first so many; may be raised later.
    held_out: the share of the training data that is held out and tested on instead of the test set, for tuning.
    cpus, gpus: what a job takes of a machine of a cluster, as Ray counts; by default as many CPUs as threads, no GPU.
    """

    benchmark: str
    strategy: str
    run: int = 1
    setting: str | None = None
    network: str | None = None
    weights: str | None = None
    knobs: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    device: str = "cpu"
    threads: int = 1
    batches: int | None = None
    held_out: float = 0.0
    cpus: float | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        check_types(self)
        for name in ("run", "threads"):
            value = getattr(self, name)
            check(value >= 1, f"A bad {name}", expected="1 or more", got=value, do="Number from 1 up.")
        check(0 <= self.held_out < 1, "A bad share", expected="0 ≤ held_out < 1", got=self.held_out, do="Lower it.")
        check(
            self.batches is None or self.batches >= 1,
            "A bad number of batches",
            expected="1 or more, or None for all",
            got=self.batches,
            do="Raise it.",
        )
        for name, share, least in (("cpus", self.cpus, LEAST_CPUS), ("gpus", self.gpus, 0.0)):
            check(
                share is None or share >= least, "A bad share", expected=f"{name} ≥ {least}", got=share, do="Raise it."
            )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return plain(asdict(self))

    @property
    def settled(self) -> dict[str, Any]:
        """What settles the result, but for rounding."""
        return {name: value for name, value in self.to_json().items() if name not in (*PLACE, *SHARES)}

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Every one, as the setting and the knobs give it, by the names of `--set`."""
        return plain(self.recipe.hyperparameters(self.own_setting, self.knobs))

    @property
    def recipe(self) -> Recipe:
        """The strategy's recipe."""
        return recipe_of(self.strategy)

    @property
    def own_setting(self) -> str | None:
        """Whose hyperparameters: the setting, or by default the benchmark's own."""
        return self.setting or benchmark_of(self.benchmark, self.network).setting

    def differences(self, other: dict[str, Any]) -> list[str]:
        """What differs from a stored config, knob by knob; what may be changed when a run goes on is left out.

        Args:
            other: what config.json holds.

        Returns:
            A text for each difference; empty where there is none.
        """
        mine = {name: value for name, value in flat(self.to_json()).items() if name not in FREE}
        theirs = {name: value for name, value in flat(other).items() if name in mine or name.startswith("knobs.")}
        differ = [
            f"{name}: {theirs.get(name)!r} there, {mine.get(name)!r} now"
            for name in sorted({*mine, *theirs})
            if mine.get(name) != theirs.get(name)
        ]
        return differ or self._changed(other.get("hyperparameters", {}))

    def _changed(self, then: dict[str, Any]) -> list[str]:
        """What the setting stands for now, and stood for when the run was begun; older runs do not tell."""
        now = self.hyperparameters if then else {}
        return [
            f"{name}: {then[name]!r} there, {value!r} now by the setting"
            for name, value in now.items()
            if then.get(name, value) != value
        ]


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """The values as they come back from JSON."""
    back: dict[str, Any] = json.loads(json.dumps(values))
    return back


class _Loader(yaml.SafeLoader):
    """YAML 1.2's numbers, as JSON's: 4e5 is a number, not a word."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)$"), list("-+.0123456789")
)


def read_settings(path: Path, strategy: str) -> dict[str, Any]:
    """The knobs that a search found for a strategy."""
    try:
        knobs: dict[str, Any] = json.loads(path.read_text())["strategies"][strategy]["knobs"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            sentence(
                f"There are no settings for {strategy}",
                expected="a file written by everlearn tune, with this strategy in it",
                got=f"{path} ({type(error).__name__}: {error})",
                do="Check the path, or search for this strategy too.",
            )
        ) from error
    return knobs


def knobs_from(path: Path) -> dict[str, Any]:
    """The knobs of a TOML, YAML or JSON file, under `knobs`; nested tables become dotted names."""
    try:
        text = path.read_text()
        values: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else yaml.load(text, _Loader) or {}
        check(isinstance(values, dict), "A bad config", expected="names and values", got=path, do="Mend it.")
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(
            sentence(
                "This config cannot be read",
                expected="a TOML, YAML or JSON file",
                got=f"{path}: {error}",
                do="Mend it.",
            )
        ) from error
    others = sorted(set(values) - {"knobs"})
    do = f"Give what is an option as one, put knobs under `knobs:`, and mend {path}."
    check(not others, "A config file holds knobs alone", expected=["knobs"], got=others, do=do)
    return flat(values.get("knobs", {}))
