"""Hyperparameters of our own, as knobs of the presets: what `everlearn tune` found, its files unchanged.

Each file of `resources/settings` says how it was found: the command, the trials of every strategy, all their scores on
held-out training data. `fw` and `cw` take CWR's rates, `ar1-ewc` and `ar1-lwf` AR1's, `cwr*` and `ar1*` all that CWR+
and AR1 have; they were not searched for.
"""

import json
from importlib.resources import files

from everlearn.paper import Knobs, with_stars

SETTINGS = {"small/digits": "small-digits.json", "small/mini50": "small-mini50.json"}


def _read(name: str) -> dict[str, Knobs]:
    """The strategies that were searched for, and those that take their rates."""
    text = (files("everlearn") / "resources" / "settings" / name).read_text()
    tables: dict[str, Knobs] = {strategy: found["knobs"] for strategy, found in json.loads(text)["strategies"].items()}

    def rates(strategy: str) -> Knobs:
        return {knob: value for knob, value in tables[strategy].items() if knob.startswith("training.")}

    own = {"fw": rates("cwr"), "cw": rates("cwr"), "ar1-ewc": rates("ar1"), "ar1-lwf": rates("ar1")}
    return with_stars({**tables, **own})


TUNED: dict[str, dict[str, Knobs]] = {setting: _read(name) for setting, name in SETTINGS.items()}
"""Knobs by setting and strategy."""
