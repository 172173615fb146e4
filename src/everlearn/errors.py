"""Every error that Everlearn raises on purpose.

    EverlearnError
    ├── ConfigError          a knob, a preset or a combination of slots that makes no sense
    ├── DataError            what came in as patterns or labels cannot be learnt from
    ├── NetworkError         a network that cannot be split into trunk and output layers
    ├── StateError           a state that does not belong to this learner
    ├── RunError             a run's folder that cannot be used so
    ├── RanksError           processes that learn together hold different things, or one of them is gone
    └── TrainingError        learning itself went wrong; the learner is as it was before the call
        ├── NotFiniteError       the loss became NaN or infinite
        ├── DivergenceError      the pull towards the old weights provably diverges
        └── InactiveError        a regulariser that does nothing

    EverlearnWarning
    ├── OvershootWarning     the pull overshoots the old weights, but need not diverge
    ├── LogWarning           TensorBoard or MLflow cannot be written; learning goes on
    └── RunWarning           a run goes on from an earlier checkpoint, or to rounding only

One sentence form: what was wrong; what was expected, what was got; what to do.
"""


class EverlearnError(Exception):
    """The root of all errors that Everlearn raises on purpose."""


class ConfigError(EverlearnError, ValueError):
    """A knob, a preset or a combination of slots that makes no sense."""


class DataError(EverlearnError, ValueError):
    """What came in as patterns or labels cannot be learnt from."""


class NetworkError(EverlearnError, ValueError):
    """A network that cannot be split into a trunk and its output layers."""


class StateError(EverlearnError, ValueError):
    """A state that does not belong to this learner, or that is damaged."""


class RunError(EverlearnError, RuntimeError):
    """A run's folder that cannot be used so."""


class RanksError(EverlearnError, RuntimeError):
    """Processes that learn together hold different things, or one of them is gone."""


class TrainingError(EverlearnError, ArithmeticError):
    """Learning itself went wrong; the learner is as it was before the call."""


class NotFiniteError(TrainingError):
    """The loss became NaN or infinite."""


class DivergenceError(TrainingError):
    """The pull towards the old weights provably diverges."""


class InactiveError(TrainingError):
    """A regulariser that does nothing."""


class EverlearnWarning(UserWarning):
    """The root of all warnings that Everlearn gives on purpose."""


class OvershootWarning(EverlearnWarning):
    """The pull overshoots the old weights, but need not diverge."""


class LogWarning(EverlearnWarning):
    """TensorBoard or MLflow cannot be written; learning goes on without it."""


class RunWarning(EverlearnWarning):
    """A run goes on from an earlier checkpoint than its last, or gives the same only to rounding."""


def sentence(what: str, *, expected: object, got: object, do: str) -> str:
    """The one form of an error message.

    Args:
        what: what was wrong, without a full stop.
        expected: what would have been right.
        got: what came instead.
        do: what the user can do about it, with a full stop.

    >>> sentence("The batch is empty", expected="at least one pattern", got=0, do="Skip empty batches.")
    'The batch is empty: expected at least one pattern, got 0. Skip empty batches.'
    """
    return f"{what}: expected {expected}, got {got}. {do}"
