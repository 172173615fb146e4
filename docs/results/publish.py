"""Publishes what `everlearn reproduce` left: python docs/results/publish.py RUNS [NAME ...]

RUNS/NAME is the folder of one experiment. Its tables and pictures come here, with a page about them, and the configs
and records of its runs as NAME/records.tar.xz, from which all of it can be drawn again:

    tar -xf docs/results/NAME/records.tar.xz -C there && everlearn figures there --by folder --out pictures
"""

import io
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

from everlearn import catalogue

HERE = Path(__file__).parent
KEPT = ("config.json", "records.jsonl")


def publish(folder: Path, target: Path) -> None:
    """One experiment."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    files = sorted(path for path in folder.rglob("*") if path.name in KEPT)
    (target / "records.tar.xz").write_bytes(packed(folder, files))
    drawn = sorted(path for path in (folder / "figures").iterdir() if path.suffix in (".png", ".md"))
    for path in drawn:
        shutil.copyfile(path, target / path.name)
    configs = [json.loads(path.read_text()) for path in files if path.name == "config.json"]
    (target / "README.md").write_text(page(target.name, drawn, configs))


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


def page(name: str, drawn: list[Path], configs: list[dict[str, Any]]) -> str:
    """What was run, on what, and what came out."""
    commands = sorted({config["command"] for config in configs})
    versions, machines = (
        sorted({", ".join(f"{k} {v}" for k, v in config[what].items()) for config in configs})
        for what in ("versions", "machine")
    )
    tables = [path.read_text() for path in drawn if path.suffix == ".md"]
    pictures = [f"![{path.stem}]({path.name})" for path in drawn if path.suffix == ".png"]
    title = f"{name}: {catalogue.EXPERIMENTS[name]}" if name in catalogue.EXPERIMENTS else name
    made = f"Versions: {'; '.join(versions)}. A run's process: {'; '.join(machines)}."
    lines = [f"# {title}", "", "```bash", *commands, "```", "", made, ""]
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
