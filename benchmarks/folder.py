"""How fast a folder of images is read, beside a bare loop of Pillow with as many workers.

    python -m benchmarks.folder --images 10000 --workers 2

Images are made for it: JPEGs of noise that was made smooth, one folder for each of ten classes. Reading is
`image_folder` with an empty cache, all it does included (checks, the split, the cache safely on disk), and once more
from its cache; the bare loop decodes, makes RGB and scales into one array. Interleaved; medians over the rounds.
"""

import argparse
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image, ImageOps

from benchmarks.machine import about, said, versions
from everlearn._kit.files import write_atomically
from everlearn.data import image_folder

SIDES = (160, 120)


def make(folder: Path, images: int) -> list[Path]:
    """Write the images."""
    random, files = np.random.RandomState(0), []
    for k in range(images):
        small = random.randint(0, 256, (SIDES[1] // 8, SIDES[0] // 8, 3), dtype=np.uint8)
        file = folder / f"class-{k % 10}" / f"{k:06}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(small).resize(SIDES, Image.Resampling.BICUBIC).save(file, quality=90)
        files.append(file)
    return files


def bare(files: list[Path], size: tuple[int, int], workers: int) -> None:
    """Decode everything with Pillow and as many threads."""
    x = np.empty((len(files), 3, *size), dtype=np.uint8)

    def one(k: int) -> None:
        with Image.open(files[k]) as image:
            x[k] = np.asarray(ImageOps.fit(image.convert("RGB"), size[::-1], Image.Resampling.BICUBIC)).transpose(
                2, 0, 1
            )

    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(one, range(len(files))):
            pass


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Reading a folder of images beside bare Pillow.")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--side", type=int, default=128, help="height and width of the patterns")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="folder for folder.json; without it nothing is stored")
    arguments = parser.parse_args()
    size = (arguments.side, arguments.side)
    seconds: dict[str, list[float]] = {"bare Pillow": [], "image_folder": [], "image_folder, from its cache": []}
    with tempfile.TemporaryDirectory() as here:
        files = make(Path(here, "images"), arguments.images)
        for number in range(arguments.rounds):
            times = [perf_counter()]
            bare(files, size, arguments.workers)
            times.append(perf_counter())
            with patch.dict(os.environ, EVERLEARN_DATA=str(Path(here, f"cache-{number}"))):
                for _ in range(2):
                    image_folder(Path(here, "images"), size=size, workers=arguments.workers)
                    times.append(perf_counter())
            for each, (start, end) in zip(seconds.values(), pairwise(times), strict=True):
                each.append(end - start)
    rates = {name: arguments.images / median(each) for name, each in seconds.items()}
    result = {
        "workers": arguments.workers,
        "rounds": arguments.rounds,
        "images": arguments.images,
        "rates": rates,
        "versions": versions("everlearn", "pillow"),
        **about(),
    }
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.out / "folder.json", (json.dumps(result, indent=1) + "\n").encode())
    print(lines(result))


def lines(result: dict[str, Any]) -> str:
    """What was measured as Markdown."""
    measured = f"{result['images']:,} JPEGs, {result['workers']} workers, medians of {result['rounds']} rounds"
    floor = next(iter(result["rates"].values()))
    rows = [f"| {name} | {rate:,.0f} | {rate / floor:.2f} |" for name, rate in result["rates"].items()]
    return "\n".join([f"{measured}; {said(result)}", "", "| | images a second | × bare |", "|---|---:|---:|", *rows])


if __name__ == "__main__":
    main()
