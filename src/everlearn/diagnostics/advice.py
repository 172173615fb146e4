"""Which way to turn, as the recipe of a run's strategy has it."""

from everlearn.recipes import words_of
from everlearn.records import Run


def kind(run: Run) -> str:
    """What holds the weights of a run: none, freeze, lwf, ewc or si; "" for strategies that do not tell."""
    return words_of(run.strategy).held_by(run.config.knobs if run.config else {})


def advice(name: str, run: Run) -> str:
    """The direction to turn for an alarm (or for a bar beside a band), in a sentence."""
    return words_of(run.strategy).advice(name, run.config.knobs if run.config else {})


def knob(run: Run, name: str, default: object = None) -> object:
    """A knob that the run's config has, by its slot or by its kind: knob(run, "regulariser.max_F")."""
    knobs = {**run.config.hyperparameters, **run.config.knobs} if run.config else {}
    slot, _, rest = name.partition(".")
    other = {"regulariser": kind(run), "head": knobs.get("head", "plain")}.get(slot, slot)
    return knobs.get(name, knobs.get(f"{other}.{rest}", default))
