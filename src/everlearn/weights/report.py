"""What became of every tensor when weights were imported."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TensorEntry:
    """One tensor, in the network and in the file.

    Args:
        network: its name in the network; None where it is not there.
        network_shape: its shape there.
        file: its name in the file; None where it is not there.
        file_shape: its shape there.
        why: why it was left, where it was.
    """

    network: str | None
    network_shape: Shape | None
    file: str | None
    file_shape: Shape | None
    why: str = ""


@dataclass
class Report:
    """What became of every tensor: a list for each fate.

    A tensor of another shape stands once, under fresh, with both shapes.

    Args:
        matched: taken as they are.
        reshaped: reshaped and then taken.
        fresh: left fresh in the network.
        unused: left unused in the file.

    >>> report = Report(matched=[TensorEntry("trunk.conv1.weight", (96, 3, 11, 11), "conv1[0]", (96, 3, 11, 11))])
    >>> report.fresh.append(TensorEntry("outputs.0.layer.bias", (50,), "fc8[1]", (1000,), "another shape"))
    >>> print(report)
    in the network        shape       in the file  shape       fate
    --------------------  ----------  -----------  ----------  --------------------
    trunk.conv1.weight    96×3×11×11  conv1[0]     96×3×11×11  matched
    outputs.0.layer.bias  50          fc8[1]       1000        fresh: another shape
    <BLANKLINE>
    1 matched, 0 reshaped, 1 fresh, 0 unused
    """

    matched: list[TensorEntry] = field(default_factory=list)
    reshaped: list[TensorEntry] = field(default_factory=list)
    fresh: list[TensorEntry] = field(default_factory=list)
    unused: list[TensorEntry] = field(default_factory=list)

    @property
    def taken(self) -> list[str]:
        """The names in the network of all tensors that came from the file."""
        return [entry.network for entry in (*self.matched, *self.reshaped) if entry.network]

    def _fates(self) -> Iterator[tuple[str, list[TensorEntry]]]:
        yield from vars(self).items()

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("in the network", "shape", "in the file", "shape", "fate")]
        for fate, entries in self._fates():
            for entry in entries:
                places = (
                    entry.network or "—",
                    _times(entry.network_shape),
                    entry.file or "—",
                    _times(entry.file_shape),
                )
                rows.append((*places, f"{fate}: {entry.why}" if entry.why else fate))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, tuple("-" * width for width in widths))
        table = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        counts = ", ".join(f"{len(entries)} {fate}" for fate, entries in self._fates())
        return "\n".join([*table, "", counts])

    def to_json(self) -> str:
        """The four lists, as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)


def _times(shape: Shape | None) -> str:
    """A shape as it is shown.

    >>> _times((96, 3, 11, 11)), _times(()), _times(None)
    ('96×3×11×11', 'scalar', '—')
    """
    return "—" if shape is None else "×".join(map(str, shape)) or "scalar"
