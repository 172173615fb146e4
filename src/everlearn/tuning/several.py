"""Searches for several strategies, in processes of their own or on a cluster."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from everlearn._kit.allocation import keep_memory
from everlearn.errors import EverlearnError, RunError, sentence
from everlearn.runs.engine import Engine, LocalEngine, folder_name
from everlearn.tuning.search import Search

if TYPE_CHECKING:
    from everlearn.runs.cluster import RayEngine

INTERRUPTED = 130

Work = tuple[Search, Path, list[str]]
"""A search, its folder, and the command that asked for it."""


def search_all(searches: list[Search], out: Path, *, engine: Engine | None = None) -> dict[str, dict[str, Any]]:
    """Search for several strategies, so many at a time; what was found, by strategy.

    A strategy's trials come one after the other, since each is chosen by what those before it gave: what is found does
    not depend on the engine, nor on how many searches there are at a time. engine: by default one process.
    """
    work = [(search, out / folder_name(search.config.strategy), sys.argv) for search in searches]
    jobs = engine.jobs if engine else 1
    if engine is not None and not isinstance(engine, LocalEngine):
        found = _on_a_cluster(cast("RayEngine", engine), work)
    elif jobs == 1:
        found = [_one(job) for job in work]
    else:
        found = _here(work, jobs or 1)
    return {search.config.strategy: result for search, result in zip(searches, found, strict=True)}


def _one(job: Work) -> dict[str, Any]:
    search, folder, argv = job
    sys.argv = argv
    return search.run(folder)


def _on_a_cluster(engine: "RayEngine", work: list[Work]) -> list[dict[str, Any]]:
    """Searches in threads here, whose trials are learnt over there."""

    def one(search: Search, folder: Path) -> dict[str, Any]:
        engine.refuse_after_a_stop()
        return search.run(folder, engine.run)

    pool = ThreadPoolExecutor(engine.jobs or len(work))
    try:
        futures = [pool.submit(one, search, folder) for search, folder, _ in work]
        for _ in engine.watch(futures):
            pass
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _here(work: list[Work], jobs: int) -> list[dict[str, Any]]:
    """Searches in processes of this machine, which save and stop when this one is interrupted or dies."""
    context, waiting = get_context("spawn"), list(enumerate(work))
    found: dict[int, dict[str, Any]] = {}
    running: dict[Any, tuple[int, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                k, job = waiting.pop(0)
                answers, there = context.Pipe(duplex=False)
                process = context.Process(target=_there, args=(*job, there))
                process.start()
                there.close()
                running[answers] = k, process
            for ready in wait(list(running)):
                k, process = running.pop(ready)
                found[k] = _answer(ready, process, work[k][1])
    except BaseException:
        for _, process in running.values():
            process.terminate()
        raise
    return [found[k] for k in range(len(work))]


def _answer(answers: Any, process: Any, folder: Path) -> dict[str, Any]:
    """What a search's process has sent: what was found, or an error, which is raised."""
    answer: dict[str, Any] | EverlearnError | None = None
    with answers, suppress(EOFError):
        answer = answers.recv()
    process.join()
    if answer is None:
        answer = RunError(
            sentence(
                "A search's process died",
                expected="an answer",
                got=f"code {process.exitcode} from {folder}",
                do="Give the same command again: it goes on where it stopped.",
            )
        )
    if isinstance(answer, EverlearnError):
        raise answer
    return answer


def _there(search: Search, folder: Path, argv: list[str], answers: Any) -> None:
    os.setsid()  # Ctrl-C reaches the parent alone, which asks this process to stop, once
    threading.Thread(target=_stop_with_the_parent, daemon=True).start()
    keep_memory()
    try:
        answers.send(_one((search, folder, argv)))
    except EverlearnError as error:
        answers.send(error)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _stop_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
