"""A search for one strategy's hyperparameters on run 1."""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import torch
from tqdm import tqdm

from everlearn._kit.files import keep_whole_lines
from everlearn._kit.knobs import check
from everlearn.benchmarks import prepare
from everlearn.errors import ConfigError, OvershootWarning, RunError, TrainingError, sentence
from everlearn.learning.evaluation import by_batch
from everlearn.recipes.space import Point, Range, Space
from everlearn.runs import Config, run
from everlearn.runs.config import PLACE
from everlearn.runs.folder import RunFolder, one_process
from everlearn.runs.place import machine, moved, versions
from everlearn.runs.runner import OnProgress, choices

if TYPE_CHECKING:
    import optuna

Score = Literal["patterns", "batches"]

STARTUP = 6  # trials before the sampler learns from them, and before anything is given up
WARMUP = 2  # batches before a trial may be given up
HOPELESS = 25.0  # per cent: a trial that is not above so many of the others at the same batch is given up


class Learn(Protocol):
    """Learns a run into a folder, and tells of its records as they come."""

    def __call__(
        self, config: Config, path: Path, /, *, checkpoint_every: float, on_progress: OnProgress
    ) -> list[dict[str, Any]]: ...


class GivenUp(Exception):  # noqa: N818, no error
    """A trial that is clearly worse than the others; its accuracy so far."""

    def __init__(self, accuracy: float) -> None:
        super().__init__(accuracy)
        self.accuracy = accuracy


@dataclass(frozen=True)
class Search:
    """What to search, and how: the same for every strategy.

    config: of run 1, its knobs are held fixed; held_out is the share of each batch that is scored on.
    trials: points tried, first those of `starts`, each as knobs, or else the present settings.
    seeds: a point's score is the mean over so many seeds, from the config's on. etas: the range of η.
    score: the accuracy on held-out data in which every pattern counts alike, or every batch does (its classes' patterns
    together), as in Figure 3: on CIFAR-10/100 Split two patterns of three are B_1's, which learning nothing more keeps.
    """

    config: Config
    trials: int = 20
    seeds: int = 1
    etas: tuple[float, float] = (1e-4, 1e-1)
    score: Score = "patterns"
    starts: tuple[dict[str, Any], ...] = ()
    checkpoint_every: float = field(default=30.0, compare=False)

    def __post_init__(self) -> None:
        check(self.trials >= 1, "Too few trials", expected="1 or more", got=self.trials, do="Raise --trials.")
        check(self.seeds >= 1, "Too few seeds", expected="1 or more", got=self.seeds, do="Raise --seeds.")
        check(
            self.config.held_out > 0,
            "A search must not see test patterns",
            expected="a share of the training data to score on",
            got=self.config.held_out,
            do="Set --held-out, e.g. 0.2.",
        )
        check(
            self.score in get_args(Score), "Unknown score", expected=get_args(Score), got=self.score, do="Choose one."
        )
        check(0 < self.etas[0] < self.etas[1], "A bad range of η", expected="0 < low < high", got=self.etas, do="Mend.")

    def run(self, folder: Path, learn: Learn | None = None) -> dict[str, Any]:
        """Search until all trials are made; a search that was killed goes on where it stopped.

        learn: what learns a trial's runs, by default this process.
        """
        import_optuna()
        torch.set_num_threads(self.config.threads)  # the sampler's sums too
        space = self._space()
        search = self if space.ranges else replace(self, trials=1)  # with nothing to search for, there is one point
        with one_process(folder, "This search is made by another process", expected="one process a search"):
            return search._run(folder, space, learn or _learn_here)

    def _run(self, folder: Path, space: Space, learn: Learn) -> dict[str, Any]:
        optuna = import_optuna()
        study = optuna.create_study(
            study_name=self.config.strategy,
            storage=journal(folder),
            load_if_exists=True,
            direction="maximize",
            pruner=optuna.pruners.PercentilePruner(100 - HOPELESS, n_startup_trials=STARTUP, n_warmup_steps=WARMUP),
        )
        given = [space.place(start) for start in self.starts] or [space.first]
        self._settle(study, folder, given)
        for point in given[len(study.get_trials(deepcopy=False)) :]:  # all of them, but after a kill right here
            study.enqueue_trial(point)
        with bar(self.trials, self.config.strategy) as progress:
            while (made := len(self._made(study))) < self.trials:
                progress.update(made - progress.n)
                study.sampler = optuna.samplers.GPSampler(seed=made, n_startup_trials=STARTUP)  # resumes alike
                self._trial(study, space, folder, learn)
        trials = self._made(study)
        made_to_the_end = [trial for trial in trials if "given_up" not in trial.user_attrs]
        best = max(made_to_the_end, key=lambda trial: trial.value or 0.0)
        return {
            "knobs": {**self.config.knobs, **space.knobs(space.point(lambda name, _span: best.params[name]))},
            "score": best.value,
            "trial": trials.index(best),
            "scores": [trial.value for trial in made_to_the_end],
            "given_up": self.trials - len(made_to_the_end),
            "starts": list(self.starts),
        }

    def _made(self, study: "optuna.Study") -> list["optuna.trial.FrozenTrial"]:
        """The trials that count: a search that was once longer gives what it would have given."""
        return study.get_trials(deepcopy=False, states=(import_optuna().trial.TrialState.COMPLETE,))[: self.trials]

    def _space(self) -> Space:
        stream, _, _ = prepare(self.config.benchmark, **choices(replace(self.config, device="cpu")))
        sizes = [len(chosen) for chosen in stream.indices]
        config = self.config
        return config.recipe.space(config.own_setting, config.knobs, etas=self.etas, sizes=sizes)

    def _settle(self, study: "optuna.Study", folder: Path, given: list[Point]) -> None:
        """Refuse to go on with a search of another kind: its trials could not be compared with these.

        One that goes on elsewhere is told of. What trials that were told of have left is removed.
        """
        own = {"seeds": self.seeds, "etas": list(self.etas), "score": self.score, "starts": given}
        mine: dict[str, Any] = {**self.config.settled, **own}
        theirs = {"score": "patterns", "starts": given, **study.user_attrs.get("search", mine)}
        differ = [name for name in mine if theirs.get(name) != mine[name]]
        if differ:
            raise RunError(
                sentence(
                    "This folder holds another search",
                    expected={name: theirs.get(name) for name in differ},
                    got={name: mine[name] for name in differ},
                    do=f"Choose another folder, or remove {folder}.",
                )
            )
        study.set_user_attr("search", mine)
        if len(self._made(study)) < self.trials:
            here = {
                **{name: getattr(self.config, name) for name in PLACE},
                "versions": versions(),
                "machine": machine(),
            }
            moved(folder, study.user_attrs.get("place", here), here, kept="its scores are compared all the same")
            study.set_user_attr("place", here)
        running = {_name(trial) for trial in _running(study)}
        for path in folder.glob("trial-*"):
            if path.name not in running:
                shutil.rmtree(path)

    def _next(self, study: "optuna.Study", space: Space) -> "optuna.Trial":
        """The trial in which the search was killed, else a new one."""
        module = import_optuna().trial
        for stopped in _running(study):
            if "fixed_params" in stopped.system_attrs or stopped.params.keys() == space.ranges.keys():
                trial: optuna.Trial = module.Trial(study, stopped._trial_id)
                return trial
            study.tell(stopped.number, state=module.TrialState.FAIL)  # killed while its point was drawn
        return study.ask()

    def _trial(self, study: "optuna.Study", space: Space, folder: Path, learn: Learn) -> None:
        """One point: its mean accuracy on held-out data at the end of the stream."""
        trial = self._next(study, space)

        def suggest(name: str, span: Range) -> float:
            return trial.suggest_float(name, span.low, span.high, log=span.log)

        knobs = {**self.config.knobs, **space.knobs(space.point(suggest))}
        place = folder / _name(trial)
        study.tell(trial, self._score(trial, knobs, place, learn))
        shutil.rmtree(place, ignore_errors=True)

    def _score(self, trial: "optuna.Trial", knobs: dict[str, Any], place: Path, learn: Learn) -> float:
        """The mean over the seeds; a point that is clearly worse than the others at the same batch is given up.

        Its score is then what it had reached: less than it might have, and enough for the sampler to stay away.
        """
        scores: list[float] = []
        told = set(trial.study.trials[trial.number].intermediate_values)  # before a kill
        first = 1 if self.config.seed is None else self.config.seed
        for seed in range(first, first + self.seeds):
            config = replace(self.config, knobs=knobs, seed=seed)

            def watch(_step: object, record: dict[str, Any] | None) -> None:
                if record is not None:
                    batch = len(scores) * record["of"] + record["i"]
                    if batch not in told:
                        trial.report(self.scored(record), batch)
                    if batch >= max(told, default=0) and trial.should_prune():
                        raise GivenUp(self.scored(record))

            where, every = place / f"seed-{seed}", self.checkpoint_every
            try:
                for record in RunFolder(where).records():  # of a search that was killed
                    watch(None, record)
                records = learn(config, where, checkpoint_every=every, on_progress=watch)
                scores.append(self.scored(records[-1]))
            except GivenUp as hopeless:
                trial.set_user_attr("given_up", len(scores) + 1)
                scores.append(hopeless.accuracy)
                break
            except TrainingError as error:  # diverged: worth nothing, and the sampler should know it
                trial.set_user_attr("error", str(error))
                scores.append(0.0)
        return sum(scores) / len(scores)

    def scored(self, record: dict[str, Any]) -> float:
        """What a record is worth."""
        if self.score == "patterns":
            return float(record["accuracy"])
        row = by_batch(np.array(record["confusion"]), record["patterns"], record["order"], record["batches"])
        return sum(row) / len(row)


def _learn_here(config: Config, path: Path, **options: Any) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OvershootWarning)  # the search may go beyond η·λ·max_F = 1
        return run(config, path, **options)


def _running(study: "optuna.Study") -> list["optuna.trial.FrozenTrial"]:
    """Trials that have begun and not ended: at most one, that of a search that was killed."""
    return study.get_trials(deepcopy=False, states=(import_optuna().trial.TrialState.RUNNING,))


def _name(trial: "optuna.trial.FrozenTrial | optuna.Trial") -> str:
    """The folder of a trial's runs."""
    return f"trial-{trial.number}"


def import_optuna() -> Any:
    """Optuna, which is an extra."""
    try:
        import optuna
    except ImportError as error:
        raise ConfigError(
            sentence(
                "The search needs Optuna",
                expected="the package optuna",
                got="it is not installed",
                do="pip install 'everlearn[tune]'",
            )
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def journal(folder: Path) -> Any:
    """Where a search keeps its trials; for one who knows that nobody is writing there."""
    storages = import_optuna().storages
    keep_whole_lines(folder / "journal")
    (folder / "journal.lock").unlink(missing_ok=True)  # of one that was killed: Optuna would wait for it for ever
    return storages.JournalStorage(storages.journal.JournalFileBackend(str(folder / "journal")))


@contextmanager
def bar(total: int, title: str) -> Iterator["tqdm[Any]"]:
    """A progress bar over trials, silent when the output is not a terminal."""
    with tqdm(total=total, desc=title, unit="trial", disable=None) as progress:
        yield progress
