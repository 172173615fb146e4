"""Figures as files: whole, and the same bytes for the same numbers."""

from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from everlearn._kit.files import write_atomically
from everlearn.errors import EverlearnError, sentence
from everlearn.figures.style import DPI, styled


def save(figure: Figure, stem: Path | str) -> tuple[Path, Path]:
    """Write a figure as stem.png and stem.svg; gives back where they are.

    Args:
        figure: any figure of this package.
        stem: the files' path without its ending; folders are made.
    """
    stem = Path(stem)
    paths = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    write(paths[0], png(figure))
    write(paths[1], svg(figure))
    return paths


def write(path: Path, data: bytes) -> None:
    """Write a file whole, in a folder that is made if need be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        raise EverlearnError(
            sentence(
                "A figure cannot be written", expected="a file that can be written", got=error, do="Give another out."
            )
        ) from error


def png(figure: Figure) -> bytes:
    """The figure in pixels."""
    return _rendered(figure, "png", {"Software": None, "Title": figure.get_label()})


def svg(figure: Figure) -> bytes:
    """The figure in lines. Letters are drawn as outlines, so that it needs no font."""
    return _rendered(figure, "svg", {"Date": None, "Creator": None, "Title": figure.get_label()})


def _rendered(figure: Figure, kind: str, metadata: dict[str, Any]) -> bytes:
    file = BytesIO()
    with styled():
        figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
    return file.getvalue()
