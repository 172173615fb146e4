"""A search for one strategy's hyperparameters on run 1, and for several strategies in processes of their own."""

import shutil
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from everlearn.benchmarks import prepare
from everlearn.errors import ConfigError, OvershootWarning, RunError, TrainingError, sentence
from everlearn.knobs import check
from everlearn.runs import Config, run
from everlearn.runs.config import PLACE
from everlearn.runs.engine import folder_name
from everlearn.runs.runner import choices
from everlearn.tuning.space import Range, Space

if TYPE_CHECKING:
    import optuna

STARTUP = 6  # trials before the sampler learns from them, and before anything is given up
WARMUP = 2  # batches before a trial may be given up
HOPELESS = 25.0  # per cent: a trial below so many of the others at the same batch is given up


class GivenUp(Exception):  # noqa: N818, no error
    """A trial that is clearly worse than the others; its accuracy so far."""

    def __init__(self, accuracy: float) -> None:
        super().__init__(accuracy)
        self.accuracy = accuracy


@dataclass(frozen=True)
class Search:
    """What to search, and how: the same for every strategy.

    config: of run 1, its knobs are held fixed; held_out is the share of each batch that is scored on.
    trials: points tried, the present settings first. seeds: a point's score is the mean over so many seeds.
    etas: the range of η.
    """

    config: Config
    trials: int = 20
    seeds: int = 1
    etas: tuple[float, float] = (1e-4, 1e-1)
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
        check(0 < self.etas[0] < self.etas[1], "A bad range of η", expected="0 < low < high", got=self.etas, do="Mend.")

    def run(self, folder: Path) -> dict[str, Any]:
        """Search until all trials are made; a search that was killed goes on where it stopped."""
        optuna = import_optuna()
        space = self._space()
        folder.mkdir(parents=True, exist_ok=True)
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / "journal")))
        study = optuna.create_study(
            study_name=self.config.strategy,
            storage=storage,
            load_if_exists=True,
            direction="maximize",
            pruner=optuna.pruners.PercentilePruner(100 - HOPELESS, n_startup_trials=STARTUP, n_warmup_steps=WARMUP),
        )
        self._settle(study, folder)
        self._take_up(study, space)
        with bar(self.trials, self.config.strategy) as progress:
            while (made := len(self._made(study))) < self.trials:
                progress.update(made - progress.n)
                study.sampler = optuna.samplers.GPSampler(seed=made, n_startup_trials=STARTUP)  # resumes alike
                self._trial(study, space, folder)
        made_to_the_end = [trial for trial in self._made(study) if "given_up" not in trial.user_attrs]
        best = max(made_to_the_end, key=lambda trial: trial.value or 0.0)
        return {
            "knobs": {**self.config.knobs, **space.knobs(space.point(lambda name, _span: best.params[name]))},
            "score": best.value,
            "trial": best.number,
            "scores": [trial.value for trial in made_to_the_end],
            "given_up": self.trials - len(made_to_the_end),
        }

    def _made(self, study: "optuna.Study") -> list["optuna.trial.FrozenTrial"]:
        return study.get_trials(deepcopy=False, states=(import_optuna().trial.TrialState.COMPLETE,))

    def _space(self) -> Space:
        stream, _, learner = prepare(self.config.benchmark, **choices(self.config))
        sizes = [len(chosen) for chosen in stream.indices]
        return Space(learner.slots, self.etas, sizes, fixed=self.config.knobs)

    def _settle(self, study: "optuna.Study", folder: Path) -> None:
        """Refuse to go on with a search of another kind: its trials could not be compared with these."""
        mine: dict[str, Any] = {**self.config.to_json(), "seeds": self.seeds, "etas": list(self.etas)}
        theirs = study.user_attrs.get("search", mine)
        differ = [name for name in mine if name not in PLACE and theirs.get(name) != mine[name]]
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

    def _take_up(self, study: "optuna.Study", space: Space) -> None:
        """The present settings are the first point; points that a killed search was at are tried again."""
        state = import_optuna().trial.TrialState
        for trial in study.get_trials(states=(state.RUNNING,)):
            study.tell(trial.number, state=state.FAIL)
            study.enqueue_trial(trial.params, user_attrs={"folder": _folder(trial)})
        if not study.get_trials(deepcopy=False):
            study.enqueue_trial(space.first)

    def _trial(self, study: "optuna.Study", space: Space, folder: Path) -> None:
        """One point: its mean accuracy on held-out data at the end of the stream."""
        trial = study.ask()

        def suggest(name: str, span: Range) -> float:
            return trial.suggest_float(name, span.low, span.high, log=span.log)

        knobs = {**self.config.knobs, **space.knobs(space.point(suggest))}
        place = folder / _folder(trial)
        study.tell(trial, self._score(trial, knobs, place))
        shutil.rmtree(place, ignore_errors=True)

    def _score(self, trial: "optuna.Trial", knobs: dict[str, Any], place: Path) -> float:
        """The mean over the seeds; a point that is clearly worse than the others at the same batch is given up.

        Its score is then what it had reached: less than it might have, and enough for the sampler to stay away.
        """
        scores: list[float] = []
        for seed in range(1, self.seeds + 1):
            config = replace(self.config, knobs=knobs, seed=seed)

            def watch(_step: object, record: dict[str, Any] | None) -> None:
                if record is not None:
                    trial.report(record["accuracy"], len(scores) * record["of"] + record["i"])
                    if trial.should_prune():
                        raise GivenUp(record["accuracy"])

            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", OvershootWarning)  # the search may go beyond η·λ·max_F = 1
                    records = run(
                        config, place / f"seed-{seed}", checkpoint_every=self.checkpoint_every, on_progress=watch
                    )
                scores.append(records[-1]["accuracy"])
            except GivenUp as hopeless:
                trial.set_user_attr("given_up", len(scores) + 1)
                scores.append(hopeless.accuracy)
                break
            except TrainingError as error:  # diverged: worth nothing, and the sampler should know it
                trial.set_user_attr("error", str(error))
                scores.append(0.0)
        return sum(scores) / len(scores)


def _folder(trial: "optuna.trial.FrozenTrial | optuna.Trial") -> str:
    """Where a trial's runs are, also when it is the second try of one that was killed."""
    return str(trial.user_attrs.get("folder", f"trial-{trial.number}"))


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


@contextmanager
def bar(total: int, title: str) -> Iterator["tqdm[Any]"]:
    """A progress bar over trials, silent when the output is not a terminal."""
    with tqdm(total=total, desc=title, unit="trial", disable=None) as progress:
        yield progress


def _one(job: tuple[Search, Path, list[str]]) -> dict[str, Any]:
    search, folder, argv = job
    sys.argv = argv
    return search.run(folder)


def search_all(searches: list[Search], out: Path, *, jobs: int) -> dict[str, dict[str, Any]]:
    """Search for several strategies, so many at a time; what was found, by strategy."""
    work = [(search, out / folder_name(search.config.strategy), sys.argv) for search in searches]
    if jobs == 1:
        found = [_one(job) for job in work]
    else:
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            found = list(pool.map(_one, work))
    return {search.config.strategy: result for search, result in zip(searches, found, strict=True)}
