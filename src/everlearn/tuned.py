"""Hyperparameters of our own for the benchmarks that need no download, as knobs of the presets.

Found by `python tools/tune_demo.py BENCHMARK 12 2`: random search on run 1, twelve trials for every strategy, scored on
held-out training data (mini50: two sessions, after the first five batches). `fw` and `cw` take CWR's rates, `ar1-ewc`
and `ar1-lwf` AR1's, `cwr*` and `ar1*` all that CWR+ and AR1 have; they were not searched for.
"""

from everlearn.paper import Knobs, phases, with_stars


def _with_relatives(tables: dict[str, Knobs]) -> dict[str, Knobs]:
    """The strategies that were searched for, and those that take their rates."""

    def rates(name: str) -> Knobs:
        return {knob: value for knob, value in tables[name].items() if knob.startswith("training.")}

    own = {"fw": rates("cwr"), "cw": rates("cwr"), "ar1-ewc": rates("ar1"), "ar1-lwf": rates("ar1")}
    return with_stars({**tables, **own})


def _si(lam: float, w: float) -> Knobs:
    return {"si.lam": lam, "si.w_1": w, "si.w_i": w}


TUNED: dict[str, dict[str, Knobs]] = {
    "small/digits": _with_relatives(
        {
            "naive": phases((8, 0.0081), (8, 0.0074)),
            "lwf": {**phases((8, 0.049), (8, 0.0036)), "lwf.map": ((0.66, 0.8), (0.45, 0.75))},
            "ewc": {**phases((8, 0.037), (8, 0.025)), "ewc.lam": 7200.0},
            "si": {**phases((8, 0.031), (8, 0.0058)), **_si(5700.0, 0.00095)},
            "cwr": {**phases((8, 0.037), (8, 0.0052)), "cwr.w_1": 1.67},
            "cwr+": phases((8, 0.038), (8, 0.014)),
            "ar1": {**phases((8, 0.024), (8, 0.0071)), **_si(73000.0, 0.0017)},
            "cumulative": phases((8, 0.0054), (8, 0.034)),
        }
    ),
    "small/mini50": _with_relatives(
        {
            "naive": phases((6, 0.001), (4, 0.00046)),
            "lwf": {**phases((6, 0.0052), (4, 0.0017)), "lwf.map": ((0.66, 0.9), (0.32, 0.83))},
            "ewc": {**phases((6, 0.0039), (4, 0.0047)), "ewc.lam": 49000.0},
            "si": {**phases((6, 0.0011), (4, 0.00065)), **_si(750000.0, 0.0015)},
            "cwr": {**phases((6, 0.0015), (4, 0.00058)), "cwr.w_1": 0.85},
            "cwr+": phases((6, 0.0029), (4, 0.0013)),
            "ar1": {**phases((6, 0.00051), (4, 0.0005)), **_si(280000.0, 0.00021)},
            "cumulative": phases((6, 0.0024), (4, 0.0088)),
        }
    ),
}
"""Knobs by setting and strategy."""
