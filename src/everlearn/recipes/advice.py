"""Which way to turn, by what holds the weights of a strategy."""

_LESS = "train with fewer epochs or a lower rate"
_MORE = "train with more epochs or a higher rate (training.later)"
_FORGETTING = {
    "none": f"Nothing holds the old classes: take a strategy that does, or {_LESS} (training.later).",
    "freeze": "The trunk is frozen, so new rows outgrow old ones: lower training.later's epochs or rate.",
    "lwf": f"Regularise more (raise λ_i there: lwf.lam, or lwf.map's end points), or {_LESS}.",
    "ewc": f"Regularise more (raise λ, ewc.lam), or {_LESS}.",
    "si": f"Regularise more (raise λ, si.lam), or {_LESS}.",
    "": f"Regularise more (raise λ), or {_LESS}.",
}
_NOT_LEARNT = {
    "none": f"Nothing holds the weights, so there is too little training: {_MORE}.",
    "freeze": f"Only rows are trained: {_MORE}; in CWR raise w_i too.",
    "lwf": "Regularisation is too strong there: lower λ_i (lwf.lam), or lower lwf.map's end points for these batches; "
    f"or {_MORE}.",
    "ewc": f"Regularisation is too strong there: lower λ (ewc.lam), or {_MORE}.",
    "si": f"Regularisation is too strong there: lower λ (si.lam) or w_i (si.w_i), or {_MORE}.",
    "": f"Regularisation is too strong there: lower λ, or {_MORE}.",
}
_TOO_MUCH = "There is too much training for what the network can still learn: lower training.later's epochs or rate."
_ROWS = "Only rows are trained, and some outgrow the others: lower training.later's epochs or rate."
_BAR_AND_BAND = {"freeze": _ROWS, "": _TOO_MUCH}
_BAR = {
    "none": _TOO_MUCH,
    "freeze": _ROWS,
    "lwf": _TOO_MUCH,
    "": "The network's capacity is saturated, or there is too much training for what is left of it: lower λ so that "
    "weights can move, or lower training.later's epochs or rate.",
}
_ZERO = {
    "ewc": "Almost no weight is held, as in Naive: lower max_F (ewc.max_F) and raise λ (ewc.lam) as much, until "
    "η·λ·max F̂ is near 1; or take a smaller minibatch for the Fisher pass (ewc.minibatch) or fisher=per_example.",
    "si": "Almost no weight is held, as in Naive: raise w_1 and w_i (si.w_1, si.w_i).",
    "": "Almost no weight is held, as in Naive: raise the importance, or λ.",
}
_SATURATED = {
    "ewc": "All weights are held alike, and none is free to learn: raise max_F (ewc.max_F) and lower λ as much.",
    "si": "All weights are held alike, and none is free to learn: lower w_1 and w_i (si.w_1, si.w_i).",
    "": "All weights are held alike, and none is free to learn: lower the importance, or raise max_F.",
}
_SAME = {
    "lwf": "Raise λ (lwf.lam or lwf.map's end points); if predictions are the same to the last, look whether λ is 0.",
    "ewc": "Raise λ (ewc.lam); if predictions are the same to the last, look whether λ or all importances are 0.",
    "si": "Raise λ or w_i (si.lam, si.w_i); if predictions are the same to the last, look whether λ or all importances "
    "are 0.",
    "": "Look whether what sets it apart from Naive acts at all.",
}
_SENTENCES: dict[str, dict[str, str]] = {
    "forgetting": _FORGETTING,
    "not_learnt": _NOT_LEARNT,
    "bar": _BAR,
    "bar_and_band": _BAR_AND_BAND,
    "importance_zero": _ZERO,
    "importance_saturated": _SATURATED,
    "same_as_naive": _SAME,
}
"""By alarm, and by what holds the weights; "" for everything else."""


def advice(alarm: str, holds: str) -> str:
    """The direction to turn for an alarm (or for a bar beside a band), in a sentence.

    Args:
        alarm: a name of `everlearn.diagnostics.NAMES`, or `bar_and_band`.
        holds: what holds the weights: none, freeze, lwf, ewc, si; or anything else.

    >>> advice("forgetting", "ewc")
    'Regularise more (raise λ, ewc.lam), or train with fewer epochs or a lower rate.'
    """
    table = _SENTENCES[alarm]
    return table.get(holds, table[""])
