"""Runs an experiment: learns its variants, draws its figures, and writes its table and page."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from everlearn import figures, report
from everlearn._kit import catalogue
from everlearn.benchmarks import benchmark_of, check_device
from everlearn.errors import ConfigError, sentence
from everlearn.experiments.experiment import Budget, Experiment, Variant
from everlearn.experiments.paper import EXPERIMENTS
from everlearn.experiments.trajectories import trajectories, write_table
from everlearn.recipes import recipe_of
from everlearn.recipes.paper import PAPER
from everlearn.runs import Config
from everlearn.runs.config import plain
from everlearn.runs.engine import Engine, LocalEngine


@dataclass(frozen=True)
class Order:
    """How an experiment is to be run.

    runs: orders of the classes, 1 to so many; benchmark: in place of the experiment's own; knobs: turned in every
    variant that has it, last; weights: what networks start from, FILE for all or NETWORK=FILE for one.
    """

    budget: Budget = "cpu"
    runs: int = 1
    benchmark: str | None = None
    knobs: dict[str, Any] | None = None
    weights: tuple[str, ...] = ()
    device: str = "cpu"
    threads: int = 1
    cpus: float | None = None
    gpus: float | None = None

    def weights_of(self, network: str) -> str | None:
        """The file that a network starts from, None for fresh weights.

        >>> order = Order(weights=("nin-128=n.safetensors", "c.safetensors"))
        >>> order.weights_of("nin-128"), order.weights_of("caffenet-128")
        ('n.safetensors', 'c.safetensors')
        """
        files = dict(self.files)
        return files.get(network, files.get(""))

    @property
    def files(self) -> list[tuple[str, str]]:
        """The networks that are named, "" for all, and their files."""
        parts = [(one, *one.partition("=")) for one in self.weights]
        return [(name, file) if file and name in catalogue.MODELS else ("", one) for one, name, _, file in parts]


def experiment_of(name: str) -> Experiment:
    """An experiment by name."""
    if name not in EXPERIMENTS:
        raise ConfigError(
            sentence("Unknown experiment", expected=f"one of {list(EXPERIMENTS)}", got=repr(name), do="Choose one.")
        )
    return EXPERIMENTS[name]


def configs(experiment: Experiment, order: Order) -> list[tuple[str, Config]]:
    """Every run of an experiment, with its folder below the experiment's."""
    benchmark = order.benchmark or experiment.benchmark
    found: list[tuple[str, Config]] = []
    for network in experiment.networks:
        for variant in experiment.variants(benchmark):
            for run in range(1, order.runs + 1):
                folder = Path(network or "", slug(variant.label), f"run-{run}")
                found.append((str(folder), _config(experiment, order, variant, benchmark, network, run)))
    _check_weights(order, [config for _, config in found])
    for knob in order.knobs or {}:
        if not any(knob in config.knobs for _, config in found):
            raise ConfigError(
                sentence(
                    "No variant has this knob",
                    expected="a knob of one of the experiment's strategies",
                    got=repr(knob),
                    do="See their pages in the docs.",
                )
            )
    return found


def _check_weights(order: Order, configs: list[Config]) -> None:
    """Refuse weights that nothing starts from, and files that are not there, before anything is learnt."""
    networks = sorted({config.network or benchmark_of(config.benchmark).network for config in configs})
    names = [name for name, _ in order.files]
    others = [f"{name}, of {networks}" for name in names if name and name not in networks]
    absent = [file for _, file in order.files if not Path(file).is_file()]
    again = [f"two for {name or 'all networks'}" for name in names if names.count(name) > 1]
    for wrong in (*others, *absent, *again):
        raise ConfigError(
            sentence(
                "Nothing can start from these weights",
                expected="one FILE, or NETWORK=FILE for each network of the experiment, and files that are there",
                got=wrong,
                do="Mend it; the experiment has begun nothing yet.",
            )
        )


def _config(
    experiment: Experiment, order: Order, variant: Variant, benchmark: str, network: str | None, run: int
) -> Config:
    place, network = variant.benchmark or benchmark, variant.network or network
    setting = experiment.setting(order.budget, place, variant)
    named = setting or benchmark_of(place, network).setting
    rates = _rates(variant.rates, named) if variant.rates else {}
    turned = {**rates, **experiment.knobs(order.budget, place), **variant.knobs}
    recipe, given = recipe_of(variant.strategy), order.knobs or {}
    turned |= {knob: value for knob, value in given.items() if recipe.has_knob(knob, named, turned)}
    if variant.pull is not None:
        lam, eta = f"{recipe.holds}.lam", recipe.hyperparameters(named, turned)["training.later.eta"]
        turned = {lam: variant.pull / eta, **turned}
    return Config(
        benchmark=place,
        strategy=variant.strategy,
        run=run,
        setting=setting,
        network=network,
        weights=order.weights_of(network or benchmark_of(place).network),
        knobs=turned,
        device=order.device,
        threads=order.threads,
        cpus=order.cpus,
        gpus=order.gpus,
        batches=experiment.batches,
    )


def _rates(strategy: str, setting: str | None) -> dict[str, Any]:
    """A strategy's epochs and rates, as knobs."""
    names = [f"training.{phase}.{name}" for phase in ("first", "later") for name in ("epochs", "eta", "schedule")]
    every = plain(recipe_of(strategy).hyperparameters(setting))
    return {name: every[name] for name in names}


def reproduce(
    name: str, out: Path, order: Order, *, engine: Engine | None = None, checkpoint_every: float = 30.0
) -> list[Path]:
    """Learn what is left of an experiment and draw it; gives what was written. engine: by default one process."""
    experiment = experiment_of(name)
    work = [(config, out / folder) for folder, config in configs(experiment, order)]
    if experiment.trajectories:  # which are followed here, also when an engine learns the runs elsewhere
        check_device(order.device)
    (engine or LocalEngine()).run_all(work, checkpoint_every=checkpoint_every)
    written: list[Path] = []
    labels = [slug(variant.label) for variant in experiment.variants(order.benchmark or experiment.benchmark)]
    tables = () if experiment.batches else ("table", "paired")  # which are of whole streams
    for network in experiment.networks:
        folder, wanted = out / (network or ""), [*experiment.figures, *tables]
        options = experiment.options
        album = figures.draw(folder, folder / "figures", wanted, by="folder", order=labels, options=options)
        written += album.paths
    if experiment.trajectories:
        found = {
            variant: trajectories(config, out / variant / "run-1" / "trajectories.json")
            for variant, config in _by_variant(configs(experiment, order)).items()
        }
        written += write_table(found, out / "figures" / "trajectories")
    everything = [f"{network}, {label}" if network else label for network in experiment.networks for label in labels]
    pictures = partial(figures.pictures, order=everything, asked=experiment.figures, options=experiment.options)
    return [*written, report.write(out, pictures=pictures, by="folder")]


def _by_variant(found: list[tuple[str, Config]]) -> dict[str, Config]:
    """Run 1 of each variant, by its folder."""
    return {folder.rpartition("/")[0]: config for folder, config in found if config.run == 1}


def described(name: str, order: Order) -> str:
    """What will be learnt: the experiment, the budget, and each variant with what it starts from and its epochs."""
    experiment, lines = experiment_of(name), []
    benchmark = order.benchmark or experiment.benchmark
    for variant, config in _by_variant(configs(experiment, order)).items():
        chosen, learnt = benchmark_of(config.benchmark), config.hyperparameters
        first, later = learnt["training.first.epochs"], learnt["training.later.epochs"]
        epochs = f"{first} {'epoch' if first == 1 else 'epochs'} on B_1, {later} on later batches"
        network = config.network or chosen.network
        start = config.weights or ("its pre-trained weights" if network in catalogue.PRETRAINED else "random weights")
        untold = order.budget == "paper" and config.own_setting not in PAPER
        none = " (the paper has no table for this)" if untold else ""
        lines.append(f"  {variant}: {config.strategy} on {config.benchmark}, {network} from {start}, {epochs}{none}")
    theirs = f", there {experiment.theirs}" if experiment.theirs and not benchmark.startswith("core50") else ""
    what = f"{catalogue.EXPERIMENTS[name]} ({experiment.where} of the paper{theirs})"
    title = f"{what}; budget {order.budget}, runs 1 to {order.runs}:"
    return "\n".join([title, *lines])


def folder_of(name: str, order: Order) -> Path:
    """Where an experiment goes unless told: a folder of its own for each benchmark and budget.

    >>> folder_of("ablation", Order()).as_posix()
    'runs/ablation'
    >>> folder_of("ablation", Order(budget="paper", benchmark="whole:digits")).as_posix()
    'runs/ablation-whole-digits-paper'
    """
    other = order.benchmark if order.benchmark != experiment_of(name).benchmark else None
    parts = [name, other, None if order.budget == "cpu" else order.budget]
    return Path("runs", slug("-".join(part for part in parts if part)))


def slug(label: str) -> str:
    """A label as a folder's name.

    >>> slug("CWR+, unit deviation"), slug("LWF, λ = 0.5")
    ('CWR+, unit deviation', 'LWF, λ = 0.5')
    """
    return re.sub(r"[\\/:*?\"<>|\x00-\x1f]", "-", label)
