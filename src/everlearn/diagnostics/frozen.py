"""The alarm on weights that moved although the strategy freezes them."""

from everlearn.diagnostics.advice import kind, knob
from everlearn.diagnostics.alarm import Alarm, named
from everlearn.recipes import words_of
from everlearn.records import Run

_OUTPUTS = "outputs."


def frozen_alarms(run: Run) -> list[Alarm]:
    """Whether a frozen layer moved in some batch after B_1: by however little, since freezing is exact."""
    if kind(run) != "freeze":
        return []
    moved = {
        record.i: found
        for record in run.records
        if record.i > 1 and (found := {name: by for name, by in record.change.items() if by > 0 and _still(run, name)})
    }
    if not moved:
        return []
    layers = list(dict.fromkeys(name for one in moved.values() for name in one))
    most = max(by for one in moved.values() for by in one.values())
    shown = ", ".join(layers[:4]) + (f" and {len(layers) - 4} more" if len(layers) > 4 else "")
    said = (
        f"In {named(list(moved))}, frozen layers moved: {shown}, by up to {most:.2g} on average over a layer's weights."
    )
    do = (
        "A frozen trunk must stay as it is to the last bit: look at weight decay, momentum left from B_1, batch-norm "
        "statistics, and whatever else writes to it."
    )
    return [Alarm("frozen_moved", "red", tuple(moved), said, do, {"change": list(moved.values())})]


def _still(run: Run, layer: str) -> bool:
    """Whether a layer is frozen from B_2 on. FW's rows are, whose change is over the rows that were there before."""
    if not layer.startswith(_OUTPUTS):
        return True
    rows = knob(run, "head.old_rows", "frozen"), knob(run, "head.growth", "expanding")
    return words_of(run.strategy).holds_rows and rows == ("frozen", "expanding")
