"""Other people's pickles, read by an unpickler that knows only the names it is given.

A pickle is a program: reading one with `pickle.load` runs whatever its author wished. Here only listed names are found,
and NumPy's are replaced by stand-ins that check what they are told, because NumPy's own trust their input. Lengths and
places in the memo are checked before anything is built. So a hostile pickle can neither run anything nor fill the
memory; it can still waste some time.
"""

import pickle
import pickletools
from collections.abc import Set
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np

from everlearn.errors import DataError, sentence

Name = tuple[str, str]

PLAIN: frozenset[Name] = frozenset()
"""Lists, tuples, dicts, strings, bytes and numbers only, which need no names: CORe50's lists are such pickles."""

CIFAR: frozenset[Name] = frozenset(
    {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),  # NumPy 1
        ("numpy._core.multiarray", "_reconstruct"),  # NumPy 2
        ("_codecs", "encode"),  # how Python 3 writes bytes under protocol 2
        ("__builtin__", "bytes"),  # … and no bytes at all
    }
)
"""What the pickles of CIFAR-10 and CIFAR-100 need: arrays and bytes."""

LIMIT = 1 << 30
"""No pickle that we read is longer than this many bytes; CIFAR's are at most 155 MB."""

DTYPES = frozenset({"b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"})


def load(source: BinaryIO | bytes, allowed: Set[Name], *, encoding: str = "ASCII") -> Any:
    """What is in a pickle that uses no names but the allowed ones.

    allowed: pairs of module and name; encoding: for the strings of Python 2, as in `pickle.load`.

    >>> load(pickle.dumps({"paths": ["s1/o1/C_01_01_000.png"]}), PLAIN)
    {'paths': ['s1/o1/C_01_01_000.png']}
    >>> load(b"cos\\nsystem\\n.", PLAIN)
    Traceback (most recent call last):
    everlearn.errors.DataError: This pickle uses a name that it must not: expected only plain values, got os.system. \
Do not open it; get the file from its official address.
    """
    data = source if isinstance(source, bytes) else source.read(LIMIT + 1)
    if len(data) > LIMIT:
        raise _damaged(f"more than {LIMIT} bytes")
    try:
        _check_lengths(data)
        return _Limited(BytesIO(data), allowed, encoding).load()
    except DataError:
        raise
    except Exception as error:  # a damaged pickle can raise almost anything
        raise _damaged(f"{type(error).__name__}: {error}".rstrip(": .")) from error


class _Limited(pickle.Unpickler):
    """An unpickler that finds only what it is allowed to."""

    def __init__(self, file: BinaryIO, allowed: Set[Name], encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            known = ", ".join(sorted(".".join(pair) for pair in self._allowed))
            raise DataError(
                sentence(
                    "This pickle uses a name that it must not",
                    expected=f"only {known or 'plain values'}",
                    got=f"{module}.{name}",
                    do="Do not open it; get the file from its official address.",
                )
            )
        module = module.replace("numpy.core.", "numpy._core.")
        stand_in = _STAND_INS.get((module, name))
        if stand_in is None:
            return super().find_class(module, name)
        return stand_in if stand_in is _NDARRAY else lambda *given: stand_in(*given)  # fresh: a pickle may change it


def _check_lengths(data: bytes) -> None:
    """Read all instructions without following them; refuse lengths past the end and far places in the memo."""
    for k, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and (not isinstance(argument, int) or argument > k):
            raise _damaged(f"place {argument} in a memo after {k} instructions")  # it would be one huge table


def _damaged(got: str) -> DataError:
    return DataError(
        sentence(
            "This pickle cannot be read",
            expected="a whole pickle of lists, dicts, strings, numbers and arrays",
            got=got,
            do="Delete the file and fetch it again.",
        )
    )


class _Dtype:
    """Stands in for numpy.dtype: a plain number's kind and size, and its byte order."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = _text(code)
        self.order = "|"
        if self.code not in DTYPES:
            raise _damaged(f"an array of {self.code!r}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in ("|", "<", ">", "=") or any(part is not None for part in state[2:5]):
            raise _damaged("a structured array")
        self.order = order


class _Array(np.ndarray[Any, Any]):
    """Stands in for numpy.ndarray: empty, until it gets a checked state."""

    def __new__(cls) -> "_Array":
        return super().__new__(cls, (0,), np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        if isinstance(raw, str):
            raw = raw.encode("latin1")
        if not (isinstance(raw, bytes) and isinstance(dtype, _Dtype) and isinstance(shape, tuple)):
            raise _damaged("an array of objects")
        array = np.frombuffer(raw, np.dtype(dtype.order + dtype.code))
        whole = array.reshape(tuple(int(n) for n in shape), order="F" if fortran else "C")
        super().__setstate__((1, whole.shape, whole.dtype, bool(fortran), raw))  # type: ignore[arg-type]
        self.setflags(write=False)  # the memory is that of the bytes in the pickle


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    """Stands in for numpy.core.multiarray._reconstruct."""
    if kind is not _NDARRAY:
        raise _damaged(f"an array of kind {kind!r}")
    return _Array()


def _encode(text: str, encoding: str = "utf-8") -> bytes:
    """Stands in for _codecs.encode, in the one way that pickles use it."""
    if _text(encoding) != "latin1":
        raise _damaged(f"bytes written as {encoding!r}")
    return text.encode("latin1")


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


_NDARRAY = object()  # what numpy.ndarray is here: something to name, that cannot be called

_STAND_INS: dict[Name, Any] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Dtype,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",
}
