"""Pre-training: a run on everything at once, whose network is saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from everlearn.benchmarks import benchmark_of, learnt_by, stream_of
from everlearn.errors import ConfigError, sentence
from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder
from everlearn.runs.place import command
from everlearn.runs.runner import OnProgress, learner_of, run
from everlearn.weights import save_weights
from everlearn.weights.ours import check_name


def pretrain(
    config: Config, out: Path, *, half: bool, checkpoint_every: float, on_progress: OnProgress, log: Sequence[str] = ()
) -> dict[str, Any]:
    """Train, and write the weights with how they were made; gives the latter.

    The run is in OUT.run beside the file OUT.safetensors: the same command again goes on with it.
    """
    folder = out.with_suffix(".run")
    if out.is_dir() or out == folder:
        raise ConfigError(
            sentence("This is no file", expected="a file for the weights", got=out, do="E.g. --out mine.safetensors.")
        )
    check_name(out)
    batches = len(stream_of(config.benchmark, config.network, config.run))
    if batches != 1:
        raise ConfigError(
            sentence(
                "Pre-training takes everything at once",
                expected="a benchmark of one batch",
                got=f"{config.benchmark}, with {batches} batches",
                do="E.g. --benchmark cifar-10, or --benchmark whole:PATH for data of your own.",
            )
        )
    records = run(config, folder, checkpoint_every=checkpoint_every, on_progress=on_progress, log=log)
    learner = learner_of(config, RunFolder(folder))
    network = config.network or benchmark_of(config.benchmark, config.network).network
    about = {
        "network": network,
        "made": command(),
        "benchmark": config.benchmark,
        "learnt": [*learnt_by(network, config.weights), config.benchmark],
        "classes": len(learner.rows_),
        "accuracy": records[-1]["accuracy"],
        **({"held_out": config.held_out} if config.held_out else {}),
        "knobs": config.to_json()["knobs"],
    }
    save_weights(out, learner.weights(), about=about, half=half)
    return about
