"""Everlearn's presets, by the door that everybody uses: build, learn, evaluate."""

from collections.abc import Callable

from benchmarks.sizes import ETA, EVALUATION_MINIBATCH, MOMENTUM, WEIGHT_DECAY, Size
from benchmarks.worker import FISHER, Contestant, serve
from everlearn import Batch, Strategy, build
from everlearn.learning.snapshot import Snapshot


class Ours(Contestant):
    """`train` and `frozen` learn B_2 after B_1; `evaluate` asks for the accuracy on the test patterns."""

    def __init__(self, name: str, job: str, size: Size) -> None:
        super().__init__(name, job, size)
        self.first, self.second = (Batch(*size.batch(i)) for i in (1, 2))
        self.test = Batch(*size.test())

    def learner(self) -> Strategy:
        """A new learner; the Fisher pass has training's minibatch, as in all of the paper's settings."""
        size = self.size
        knobs = {
            "training.first.epochs": 1,
            "training.later.epochs": size.frozen_epochs if self.job == "frozen" else size.epochs,
            "training.first.eta": ETA,
            "training.later.eta": ETA,
            "training.momentum": MOMENTUM,
            "training.weight_decay": WEIGHT_DECAY,
            "training.minibatch": size.minibatch,
            **({"ewc.minibatch": size.minibatch} if "ewc" in self.name else {}),
            **({"head.growth": "maximal"} if self.name == "lwf" else {}),  # as many rows as all others have
        }
        return build(self.name, size.make_network(), knobs=knobs)

    def prepare(self) -> Callable[[], object]:
        learner = self.learner()
        learner.learn(self.first)
        if self.job == "evaluate":
            learner.predict(self.test.x[:EVALUATION_MINIBATCH])
            asked = learner.snapshot()  # what `evaluate` asks, until the next batch
            assert isinstance(asked, Snapshot)
            asked.network.trunk.register_forward_hook(lambda *_: self.between())
            return lambda: learner.evaluate(self.test)
        for part, verb in (("look", "prepare"), ("consolidate", "consolidate")):  # LWF's pass, EWC's Fisher pass
            setattr(learner.regulariser, verb, self.timed(part, getattr(learner.regulariser, verb)))
        if "ewc" in self.name:
            minibatch, trunk = self.each(FISHER), learner.network.trunk
            learner.network.register_forward_hook(lambda *_: None if trunk.training else minibatch())
        return lambda: learner.learn(self.second, on_step=lambda *_: self.between())


if __name__ == "__main__":
    serve(Ours)
