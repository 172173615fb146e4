"""A progress bar for a run: steps of the batch at hand, the loss, the rate and the remaining time."""

from types import TracebackType
from typing import Any

from tqdm import tqdm

from everlearn.learning.learner import Step


class Bar:
    """Told of steps and records; silent when the output is not a terminal."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: tqdm[Any] | None = None

    def __enter__(self) -> "Bar":
        return self

    def __call__(self, step: Step | None, record: dict[str, Any] | None) -> None:
        """One step more, or one batch more."""
        if step is not None:
            if self.bar is None or step.step <= self.bar.n:
                self.close()
                self.bar = tqdm(
                    total=step.steps, initial=step.step - 1, disable=None, delay=2, leave=False, unit="step"
                )
            self.bar.set_description(f"{self.title}, B_{step.i}", refresh=False)
            self.bar.set_postfix(loss=f"{step.loss:.3f}", refresh=False)
            self.bar.update()
        if record is not None:
            self.close()

    def close(self) -> None:
        """End the bar of a batch."""
        if self.bar is not None:
            self.bar.close()
        self.bar = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
