"""One learner in several processes, each with a device of its own: `torch.distributed`, as `torchrun` starts it.

Every process holds the whole learner and is given whole batches. A minibatch is split into shares, one a process, and
the gradients of the shares are summed, weighted by their counts; so every process makes the same step with the gradient
of the whole minibatch, and whatever is made from Θ and its gradient is equal everywhere.
"""

import atexit
import hashlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from threading import Thread
from time import sleep
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from everlearn.errors import RanksError, sentence

TIMEOUT = timedelta(hours=12)  # the others wait so long while one prepares or saves; one that died is noticed at once
PIECE = 2**26  # bytes sent at once


class Place(NamedTuple):
    """Where the patterns at hand stand in their minibatch.

    A process whose share is empty takes part with the minibatch's first pattern, at weight 0.

    Args:
        rows: which patterns of the minibatch this process has.
        n: the patterns in the whole minibatch.
        counted: False for a pattern that is only borrowed.
    """

    rows: slice
    n: int
    counted: bool


class Ranks:
    """This process alone: every share is the whole, and nothing is sent. `Several` does what the words say.

    rank: this process's number, from 0; size: how many there are.

    >>> ALONE.mean(torch.arange(4), lambda idx: idx.float().mean())
    tensor(1.5000)
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def mean(self, idx: Tensor, L_of: Callable[[Tensor], Tensor]) -> Tensor:
        """This process's part of a mean over patterns; the parts of all processes sum to it.

        Args:
            idx: the patterns of the whole minibatch, by their places.
            L_of: the mean loss over any of them, from their places.
        """
        return L_of(idx)

    def share(self, idx: Tensor) -> Tensor:
        """This process's share of the patterns, as even as it goes; the first processes have one more.

        Args:
            idx: the patterns of the whole minibatch, by their places.
        """
        return idx

    def sum(self, value: Tensor) -> Tensor:
        """The sum over all processes, for every one of them.

        Args:
            value: this process's summand; every process gives one of the same shape.
        """
        return value

    def sum_(self, gradient: Callable[[], Tensor], L: Tensor) -> Tensor:
        """Replace a gradient by the sum over all processes, and give the sum of L; both in one message.

        Where there is one process the gradient is not asked for.

        Args:
            gradient: gives this process's gradient, [m], which is written into.
            L: this process's part of the loss, a scalar.
        """
        return L

    def any(self, flag: bool) -> bool:
        """Whether the flag is up in any process.

        Args:
            flag: this process's.
        """
        return flag

    def map(self, function: Callable[[Any], tuple[Tensor, ...]], parts: Sequence[Any]) -> list[tuple[Tensor, ...]]:
        """A function's results for each of the parts of the patterns, in order; each process computes some of them.

        Args:
            function: from a part to tensors whose first axis is the part's patterns.
            parts: the same in every process.
        """
        return [function(part) for part in parts]

    def agree(self, held: Callable[[], dict[str, Any]]) -> None:
        """Refuse to go on where the processes do not hold the same, byte for byte.

        Args:
            held: gives what this process holds, by name: trees of tensors and plain values.
        """

    def from_first(self, data: bytes) -> bytes:
        """What the first process gives, for every one of them.

        Args:
            data: the first process's is taken, the others' are not.
        """
        return data

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """The first process does it before the others, so that they find what it leaves on disk."""
        yield


ALONE = Ranks()


class Several(Ranks):
    """The processes of `torch.distributed`'s default group."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.place = Place(slice(0, 0), 0, False)

    def bounds(self, n: int) -> list[int]:
        """Where the shares of n patterns begin, and n.

        Args:
            n: the patterns to share out.
        """
        return [rank * (n // self.size) + min(rank, n % self.size) for rank in range(self.size + 1)]

    def _rows(self, n: int) -> slice:
        return slice(*self.bounds(n)[self.rank : self.rank + 2])

    def mean(self, idx: Tensor, L_of: Callable[[Tensor], Tensor]) -> Tensor:
        rows, n = self._rows(len(idx)), len(idx)
        counted = rows.stop > rows.start
        self.place = Place(rows if counted else slice(0, 1), n, counted)
        L: Tensor = L_of(idx[self.place.rows]) * ((rows.stop - rows.start) / n)
        return L

    def share(self, idx: Tensor) -> Tensor:
        return idx[self._rows(len(idx))]

    def sum(self, value: Tensor) -> Tensor:
        return _summed(value.detach().clone())

    def sum_(self, gradient: Callable[[], Tensor], L: Tensor) -> Tensor:
        own = gradient()
        total = _summed(torch.cat([own, L.detach().reshape(1)]))
        own.copy_(total[:-1])
        return total[-1]

    def any(self, flag: bool) -> bool:
        up = torch.tensor([int(flag)], device=_carrier())
        with _together():
            dist.all_reduce(up, dist.ReduceOp.MAX)
        return bool(up)

    def map(self, function: Callable[[Any], tuple[Tensor, ...]], parts: Sequence[Any]) -> list[tuple[Tensor, ...]]:
        if len(parts) < self.size:  # too few to be shared out
            return super().map(function, parts)
        shares, places = self.bounds(len(parts)), [0]
        for part in parts:
            places.append(places[-1] + len(part))
        mine = super().map(function, parts[self._rows(len(parts))])
        whole = tuple(_joined(output, places, shares, self.rank) for output in zip(*mine, strict=True))
        return [whole]

    def agree(self, held: Callable[[], dict[str, Any]]) -> None:
        parts = held()
        digests = torch.tensor([_digest(part) for part in parts.values()], device=_carrier())
        ends = torch.cat([digests, -digests])
        with _together():
            dist.all_reduce(ends, dist.ReduceOp.MAX)
        high, low = ends.tensor_split(2)
        differ = [name for name, same in zip(parts, (high == -low).tolist(), strict=True) if not same]
        if differ:
            raise RanksError(
                sentence(
                    "The processes do not hold the same learner and batch",
                    expected="everything equal in all of them",
                    got=f"differences in {', '.join(differ)}",
                    do="Build the learner alike in every process (strategy, knobs, weights, seed), and give every one "
                    "the whole batch: Everlearn itself splits the minibatches.",
                )
            )

    def from_first(self, data: bytes) -> bytes:
        size = torch.tensor([len(data)], device=_carrier())
        with _together():
            dist.broadcast(size, 0)
            values = torch.empty(int(size), dtype=torch.uint8)
            if self.first:
                values = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else values
            for piece in values.split(PIECE) if len(values) else ():
                sent = piece.to(_carrier())
                dist.broadcast(sent, 0)
                piece.copy_(sent)
        return values.numpy().tobytes()

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        if not self.first:
            self.any(False)
        yield
        if self.first:
            self.any(False)


def ranks() -> Ranks:
    """The processes of `torch.distributed`, once it has been initialised; this one alone where it has not.

    >>> ranks().size
    1
    """
    return Several() if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else ALONE


def own_device(name: str) -> str:
    """This process's device: of the CUDA devices of a machine torchrun's processes take one each, in their order.

    Args:
        name: the device as PyTorch names it; only "cuda" is made more precise.

    >>> own_device("cpu")
    'cpu'
    """
    return f"cuda:{os.environ['LOCAL_RANK']}" if name == "cuda" and "TORCHELASTIC_RUN_ID" in os.environ else name


def join(device: str | torch.device = "cpu") -> Ranks:
    """Join the processes that torchrun has started, until this one ends; this one alone without torchrun.

    A second call gives the same processes. When torchrun dies, this process is sent SIGTERM, so that nothing is learnt
    on that nobody waits for.

    Args:
        device: this process's: gloo for the CPU; nccl beside it for a CUDA device.

    >>> join().size
    1
    """
    if "TORCHELASTIC_RUN_ID" in os.environ and not dist.is_initialized():
        cuda = torch.device(device).type == "cuda"
        if cuda:
            torch.cuda.set_device(device)
        Thread(target=_stop_with, args=(os.getppid(),), daemon=True).start()
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=TIMEOUT)
        atexit.register(dist.destroy_process_group)  # not before: torchrun's processes cannot meet twice
    return ranks()


def _stop_with(parent: int) -> None:
    """Stop when this process is no longer a child of that one."""
    while os.getppid() == parent:
        sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _together() -> Iterator[None]:
    """What is done by all processes at once."""
    try:
        yield
    except RuntimeError as error:
        raise RanksError(
            sentence(
                "Another process of this learner is gone",
                expected="all of them to take the same steps",
                got=str(error).splitlines()[0],
                do="Read what the others printed; this process's learner is as it was before the batch.",
            )
        ) from error


def _summed(value: Tensor) -> Tensor:
    """The sum over all processes, in place of what each one had."""
    with _together():
        dist.all_reduce(value)
    return value


def _carrier() -> torch.device:
    """Where small values lie to be sent: nccl alone cannot send the CPU's."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def _joined(output: tuple[Tensor, ...], places: list[int], shares: list[int], rank: int) -> Tensor:
    """One output for all patterns, from the parts of it that every process has."""
    mine = torch.cat(output)
    whole = mine.new_empty(places[-1], *mine.shape[1:])
    for source, (first, end) in enumerate(pairwise(shares)):
        span = whole[places[first] : places[end]]
        if source == rank:
            span.copy_(mine)
        with _together():
            dist.broadcast(span, source)
    return whole


def _digest(node: Any) -> int:
    """A 63-bit digest of a tree of dicts and lists with tensors and plain values at its leaves.

    >>> _digest({"a": [torch.zeros(2), 1]}) == _digest({"a": [torch.zeros(2), 2]})
    False
    """
    digest = hashlib.blake2b(digest_size=8)

    def add(node: Any) -> None:
        if isinstance(node, Tensor):
            digest.update(f"{node.dtype} {list(node.shape)} ".encode())
            digest.update(node.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        elif isinstance(node, dict):
            for key, value in node.items():
                digest.update(f"{key}: ".encode())
                add(value)
        elif isinstance(node, list | tuple):
            digest.update(f"{len(node)} ".encode())
            for value in node:
                add(value)
        else:
            digest.update(f"{node!r} ".encode())

    add(node)
    return int.from_bytes(digest.digest(), "big") >> 1
