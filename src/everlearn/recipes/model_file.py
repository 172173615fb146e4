"""A model is a file: a learner with its network, strategy, knobs, classes and history. It can always be taught further.

It is a state as `save_state` writes it: safetensors with JSON in the header, a checksum over all of it, written whole
or not at all. Nothing in it is executed, and no data set is needed to read it.
"""

import copy
import os
from collections.abc import Mapping
from math import prod
from typing import Any

import torch

from everlearn import models
from everlearn._kit.plugins import NETWORKS
from everlearn._kit.state import State, load_state, save_state
from everlearn._kit.version import __version__
from everlearn.data.labels import Labels
from everlearn.errors import ConfigError, EverlearnError, NetworkError, StateError, sentence
from everlearn.learning.learner import Learner
from everlearn.models.network import Network
from everlearn.recipes.known import BASELINE
from everlearn.recipes.parts import KINDS
from everlearn.recipes.recipe import described_network
from everlearn.recipes.registry import recipe_of
from everlearn.recipes.slot_recipe import slot_knobs

FORMAT = 1
"""Raised when a file of this version cannot be read by an older one."""
LARGEST = 2**28
"""Weights of a network that a file may ask for without holding them."""


def save(learner: Learner, path: str | os.PathLike[str], *, about: Mapping[str, Any] | None = None) -> None:
    """Write a learner to a file, whole or not at all.

    Args:
        learner: between two batches, or in the middle of one.
        path: the file, by custom `NAME.everlearn`.
        about: what a reader should know, plain values for JSON.

    Raises:
        ConfigError: the learner cannot be built again from a file, or the file cannot be written; it says why.
        StateError: a class has a label that no file can keep.

    >>> import tempfile
    >>> import everlearn
    >>> from everlearn.models import small
    >>> learner = everlearn.build("ar1", small(classes=4, input_shape=(1, 8, 8)))
    >>> learner.learn((torch.rand(8, 1, 8, 8), ["cat", "dog"] * 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(learner, f"{folder}/pets.everlearn")
    ...     load(f"{folder}/pets.everlearn").classes_
    ['cat', 'dog']
    """
    source = copy.deepcopy(learner)  # one moment, whatever other threads do
    write(path, {**header(source), "about": dict(about or {}), "learner": source.state_dict()})


def write(path: str | os.PathLike[str], model: State) -> None:
    """Write a header and a learner's state as a model file."""
    try:
        save_state(path, model)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            sentence("This model cannot be written", expected="values for JSON", got=error, do="Use plain values.")
        ) from error
    except OSError as error:
        raise ConfigError(
            sentence(
                "This model cannot be written",
                expected="a folder that is there, with room",
                got=f"{os.fspath(path)} ({error.strerror})",
                do="Choose another path.",
            )
        ) from error


def header(learner: Learner) -> State:
    """All of a model file but the learner's state: what it is, and what it was taught."""
    made = learner.recipe_ or _by_slots(learner)
    number = {label: k for k, label in enumerate(learner.labels.known or ())}
    history = [
        {**entry, "classes": [[number.get(label, label), n] for label, n in entry["classes"].items()]}
        for entry in learner.history_
    ]
    return {
        "format": FORMAT,
        "everlearn": __version__,
        "recipe": {"name": made["name"], "knobs": made["knobs"]},
        "network": made["network"],
        "rows": learner.rows_,
        "labels": learner.labels.state(),
        "history": history,
    }


def _by_slots(learner: Learner) -> dict[str, Any]:
    """A recipe for a learner that was built from slots directly."""
    slots, network = getattr(learner, "slots", None), getattr(learner, "network", None)
    if slots is None or network is None:
        raise ConfigError(
            sentence(
                "This learner cannot be built again from a file",
                expected="one that was built by its strategy's name",
                got=type(learner).__name__,
                do="Register a recipe for it (everlearn.recipes.register), and build it with everlearn.build.",
            )
        )
    unknown = [kind for place, kind in zip(KINDS, slots.names, strict=True) if kind not in KINDS[place]]
    if unknown:
        raise ConfigError(
            sentence(
                "This learner cannot be built again from a file",
                expected="slots of Everlearn, or a recipe for those of other packages",
                got=unknown,
                do="Register a recipe for it (everlearn.recipes.register), and build it with everlearn.build.",
            )
        )
    return {"name": BASELINE, "knobs": slot_knobs(slots, None), "network": described_network(network)}


def load(
    path: str | os.PathLike[str], *, network: Network | None = None, device: str | torch.device = "cpu"
) -> Learner:
    """Read a learner from a file, ready to be asked and taught further.

    Args:
        path: a file that `save` or `everlearn model` wrote.
        network: needed where the file's network was none of `everlearn.models`, such as a wrapped module: one that is
            built alike. Its weights come from the file.
        device: where to compute, as PyTorch names it.

    Raises:
        StateError: the file is no model, or damaged, or of a newer format.
        NetworkError: its network must be given.
        ConfigError: its strategy is not installed here.
    """
    model = read(path)
    try:
        recipe = recipe_of(model["recipe"]["name"])
        net = network if network is not None else _network(model)
        learner = recipe.build(net, knobs=model["recipe"]["knobs"], device=device)
        learner.load_state_dict(model["learner"])
        learner.labels = Labels.from_state(model["labels"])
        learner.history_ = history_of(model)
    except EverlearnError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from error
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise _no_model(path, f"{type(error).__name__}: {error}") from error
    return learner


def read(path: str | os.PathLike[str]) -> State:
    """A model file as it stands: its header, and the learner's state under `learner`."""
    model = load_state(path)
    if not isinstance(model, dict) or "format" not in model or "recipe" not in model:
        raise _no_model(path, "another kind of state, such as a run's checkpoint")
    if not isinstance(model["format"], int) or model["format"] > FORMAT:
        raise StateError(
            sentence(
                f"{os.fspath(path)} is of a newer Everlearn",
                expected=f"format {FORMAT} or older",
                got=f"format {model['format']}, written by version {model.get('everlearn', 'unknown')}",
                do="pip install --upgrade everlearn.",
            )
        )
    return model


def history_of(model: State) -> list[dict[str, Any]]:
    """What a model was taught, with classes by the names that it was taught them by."""
    labels = Labels.from_state(model["labels"])
    return [
        {**entry, "classes": {labels.names([number])[0]: n for number, n in entry["classes"]}}
        for entry in model["history"]
    ]


def _network(model: State) -> Network:
    """The network of a model, made again; of the size that the file holds, before any memory is taken for it."""
    made, classes = model["network"], max(1, len(model["rows"]))
    arguments = {
        name: tuple(value) if isinstance(value, list) else value for name, value in made.get("arguments", {}).items()
    }
    if "needs" in made:
        raise NetworkError(
            sentence(
                "The network of this model was made outside Everlearn",
                expected=f"network=: {made['needs']}",
                got="none",
                do="Build it as it was built for the model, and pass it: everlearn.load(path, network=network).",
            )
        )
    if "plugin" in made:
        if made["plugin"] not in NETWORKS:
            raise NetworkError(
                sentence(
                    "The network of this model comes from a package that is not installed",
                    expected=f"the network {made['plugin']!r}",
                    got="none of this name",
                    do=f"Install {made.get('package', 'the package that brings it')}.",
                )
            )
        network: Network = NETWORKS.load(made["plugin"])(classes, **arguments)
        return network
    maker = getattr(models, made["maker"]) if made["maker"] in models.__all__ else None
    if maker is None or not hasattr(maker, "__wrapped__"):
        raise StateError(
            sentence("Unknown network", expected="a maker of everlearn.models", got=made["maker"], do="Upgrade.")
        )
    with torch.device("meta"):
        sizes = {name: list(value.shape) for name, value in maker(classes, **arguments).state_dict().items()}
    held = model["learner"].get("network") if isinstance(model["learner"], dict) else None
    fits = {name: list(value.shape) for name, value in held.items()} if isinstance(held, dict) else None
    if fits is None and sum(map(prod, sizes.values())) > LARGEST:
        raise StateError(
            sentence("The network is too large", expected=f"{LARGEST:,} weights", got=sizes, do="Use another file.")
        )
    if fits is not None and _shared(fits) != _shared(sizes):
        differ = sorted(name for name in {*fits, *sizes} if fits.get(name) != sizes.get(name))
        raise StateError(
            sentence(
                "The network does not fit its weights",
                expected=f"{differ[0]} {sizes.get(differ[0])}",
                got=fits.get(differ[0]),
                do="Use another file.",
            )
        )
    made_again: Network = maker(classes, **arguments)
    for name, parameter in made_again.named_parameters():
        parameter.requires_grad_(name not in made.get("fixed", ()))
    return made_again


def _shared(sizes: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Shapes, of output layers those of a row."""
    return {name: shape[name.startswith("outputs.") :] for name, shape in sizes.items()}


def _no_model(path: str | os.PathLike[str], why: str) -> StateError:
    return StateError(
        sentence(
            "This file is not a model, or it is damaged",
            expected="a file that everlearn.save wrote",
            got=f"{os.fspath(path)} ({why})",
            do="Use an earlier copy; a run's model comes from: everlearn model RUN --out FILE.",
        )
    )
