"""Many runs in processes of their own, a few at a time."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from tqdm import tqdm

from everlearn.errors import RunError, sentence
from everlearn.runs.config import Config
from everlearn.runs.folder import line_of


def run_folder(out: Path, config: Config) -> Path:
    """The folder of one run below the folder of all."""
    return out / config.strategy / f"run-{config.run}"


def run_all(configs: list[Config], out: Path, *, jobs: int, checkpoint_every: float) -> None:
    """Learn all these runs, so many at a time; those that are done are not learnt again.

    Each is a process of its own, so one that dies leaves the others alone; an error in one is told when all have ended.
    """
    waiting, failed = list(configs), list[str]()
    running: dict[subprocess.Popen[bytes], Config] = {}
    bar = tqdm(total=len(configs), unit="run", disable=None)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                config = waiting.pop(0)
                running[_start(config, run_folder(out, config), checkpoint_every)] = config
            time.sleep(0.05)
            for process in [p for p in running if p.poll() is not None]:
                config = running.pop(process)
                errors = process.stderr.read().decode() if process.stderr else ""
                if process.returncode:
                    failed.append(f"{config.strategy} run {config.run}: {errors.strip() or process.returncode}")
                bar.set_postfix_str(f"{config.strategy} run {config.run}")
                bar.update()
    except KeyboardInterrupt:
        _stop(list(running))
        raise
    finally:
        bar.close()
    if failed:
        raise RunError(
            sentence(
                "Some runs failed",
                expected=f"{len(configs)} runs to end well",
                got=f"{len(failed)} errors: " + " | ".join(failed),
                do="Mend them and give the same command again; what is done is not learnt again.",
            )
        )


def _start(config: Config, path: Path, checkpoint_every: float) -> "subprocess.Popen[bytes]":
    """A process that learns one run; its config goes in by its standard input."""
    path.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "everlearn.runs.worker", str(path), str(checkpoint_every), *sys.argv[1:]]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stdin is not None
    process.stdin.write(line_of(config.to_json()))
    process.stdin.close()
    return process


def _stop(processes: list["subprocess.Popen[bytes]"]) -> None:
    """Interrupt the processes, so that they save, and wait for them."""
    for process in processes:
        process.send_signal(signal.SIGINT)
    for process in processes:
        process.wait()
