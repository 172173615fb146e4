"""Publishes what `everlearn reproduce` left: python docs/results/publish.py RUNS [NAME ...]

RUNS/NAME is the folder of one experiment. Its tables and pictures come here, with a page about them, and the configs
and records of its runs as NAME/records.tar.xz, from which all of it can be drawn again:

    tar -xf docs/results/NAME/records.tar.xz -C there && everlearn figures there --by folder --out pictures

NAME/about.md is written by hand: what came out, and where it differs from the paper. It stays, and stands on the page.
"""

import io
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

from everlearn._kit import catalogue

HERE = Path(__file__).parent
KEPT = ("config.json", "records.jsonl")
ABOUT = "about.md"


def publish(folder: Path, target: Path) -> None:
    """One experiment."""
    files = sorted(path for path in folder.rglob("*") if path.name in KEPT)
    drawn = sorted(path for path in (folder / "figures").glob("*") if path.suffix in (".png", ".md"))
    if not files or not drawn:
        raise SystemExit(f"{folder} has no runs, or no figures: nothing was published.")
    target.mkdir(parents=True, exist_ok=True)
    for path in target.iterdir():
        if path.name != ABOUT:
            path.unlink()
    (target / "records.tar.xz").write_bytes(packed(folder, files))
    for path in drawn:
        shutil.copyfile(path, target / path.name)
    configs = [json.loads(path.read_text()) for path in files if path.name == "config.json"]
    about = (target / ABOUT).read_text() if (target / ABOUT).exists() else ""
    (target / "README.md").write_text(page(target.name, about, drawn, configs))


def packed(folder: Path, files: list[Path]) -> bytes:
    """The files as an archive that is the same whenever and wherever it is made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            content = path.read_bytes()
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def page(name: str, about: str, drawn: list[Path], configs: list[dict[str, Any]]) -> str:
    """What came out, what was run, on what, and the tables and pictures."""
    commands = sorted({config["command"] for config in configs})
    versions, machines = (
        sorted({", ".join(f"{k} {v}" for k, v in config[what].items()) for config in configs})
        for what in ("versions", "machine")
    )
    tables = [path.read_text() for path in drawn if path.suffix == ".md"]
    pictures = [f"![{path.stem}]({path.name})" for path in drawn if path.suffix == ".png"]
    title = f"{name}: {catalogue.EXPERIMENTS[name]}" if name in catalogue.EXPERIMENTS else name
    made = f"Versions: {'; '.join(versions)}. A run's process: {'; '.join(machines)}."
    lines = [f"# {title}", "", *([about] if about else []), "```bash", *commands, "```", "", made, ""]
    records = "The configs and records of all runs: [records.tar.xz](records.tar.xz)."
    return "\n".join([*lines, *tables, *pictures, "", records, ""])


def main() -> None:
    """`publish.py RUNS [NAME ...]`."""
    runs, *names = sys.argv[1:]
    for name in names or sorted(path.name for path in Path(runs).iterdir()):
        publish(Path(runs) / name, HERE / name)
        sys.stdout.write(f"{HERE / name}\n")


if __name__ == "__main__":
    main()
