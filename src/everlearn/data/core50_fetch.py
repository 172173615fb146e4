"""CORe50's official files, fetched into the data folder."""

from pathlib import Path
from typing import NamedTuple

from everlearn.data.core50 import SITE, core50
from everlearn.data.download import download
from everlearn.data.folder import data_folder, made
from everlearn.errors import DataError


class Official(NamedTuple):
    """A file: where it is, and its MD5 as Avalanche's loader publishes it (core50_data.py)."""

    url: str
    md5: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


IMAGES = Official(
    "http://bias.csr.unibo.it/maltoni/download/core50/core50_128x128.zip", "745f3373fed08d69343f1058ee559e13"
)
LISTS = (
    Official(f"{SITE}/data/batches_filelists.zip", "e3297508a8998ba0c99a83d6b36bde62"),
    Official(f"{SITE}/data/batches_filelists_NICv2.zip", "460f980a6c85b86b1ec8e7c6067bb7a3"),
)


def fetch(images: Official = IMAGES, lists: tuple[Official, ...] = LISTS) -> str:
    """Fetch what is not there yet, decode the images once, check the whole cache, and say what there is.

    Images in a folder of their own, or put there as a zip by hand, are taken as they are. The lists come first: they
    are small, and without them NICv2 cannot be had.
    """
    folder = made(data_folder() / "core50")
    for file in lists:
        if not (folder / file.name).exists():
            download(file.url, folder / file.name, md5=file.md5)
    if not _has_images(folder, Path(images.name).stem):
        download(images.url, folder / images.name, md5=images.md5)
    source = core50(check=True)
    return f"core50: {len(source.train):,} training and {len(source.test):,} test patterns, in {folder}."


def _has_images(folder: Path, stem: str) -> bool:
    """Whether all images are there, or a cache of them all; one of some images is made anew."""
    if (folder / stem).is_dir() or (folder / f"{stem}.zip").exists():
        return True
    try:
        return bool(core50())
    except DataError:
        return False
