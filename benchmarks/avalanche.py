"""Avalanche's strategies on the same network and data, in an environment of its own.

Used as its documentation does: strategies as they come, no logger, no evaluation while training, a tensor dataset in
memory, no worker processes (with tensors in memory they only cost), the same SGD, minibatches, epochs and threads.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from benchmarks import torchvision_shim
from benchmarks.sizes import ETA, EVALUATION_MINIBATCH, MOMENTUM, WEIGHT_DECAY, Size
from benchmarks.worker import FISHER, Contestant, serve
from everlearn.models import Network

STRATEGIES: dict[str, dict[str, Any]] = {
    "Naive": {},
    "SynapticIntelligence": {"si_lambda": 1.5e4},
    "EWC": {"ewc_lambda": 1.5e4},
    "LwF": {"alpha": 1.0, "temperature": 2.0},
    "CWRStar": {"cwr_layer_name": None},
    "Cumulative": {},
}
"""By the class's name, with the options that its constructor asks for."""


class LastOutput(nn.Module):
    """The network as Avalanche takes one: gives the last output layer's logits alone."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.network(x)[-1]
        return logits


class Avalanche(Contestant):
    """`train` and `frozen` learn B_2 after B_1; `evaluate` asks for the accuracy on the test patterns."""

    packages = ("torch", "torchvision", "avalanche-lib")

    def __init__(self, name: str, job: str, size: Size) -> None:
        super().__init__(name, job, size)
        torchvision_shim.declare()
        warnings.simplefilter("ignore")
        from avalanche.benchmarks import benchmark_from_datasets
        from avalanche.benchmarks.scenarios import with_classes_timeline
        from avalanche.benchmarks.utils import (
            ConstantSequence,
            DataAttribute,
            TaskAwareSupervisedClassificationDataset,
            TaskLabels,
        )

        def dataset(x: Tensor, y: Tensor) -> Any:
            """One task, as SIT is; LwF asks for its label."""
            labels = DataAttribute(y.tolist(), "targets")
            tasks = TaskLabels(ConstantSequence(0, len(y)))
            return TaskAwareSupervisedClassificationDataset([TensorDataset(x, y)], data_attributes=[labels, tasks])

        benchmark = benchmark_from_datasets(
            train=[dataset(*size.batch(i)) for i in (1, 2)], test=[dataset(*size.test())]
        )
        self.first, self.second = with_classes_timeline(benchmark).train_stream
        (self.test,) = benchmark.test_stream

    def strategy(self) -> Any:
        """A new strategy."""
        from avalanche.evaluation.metrics import accuracy_metrics
        from avalanche.training import supervised
        from avalanche.training.plugins import EvaluationPlugin, SupervisedPlugin

        turns = SupervisedPlugin()
        turns.after_training_iteration = turns.after_eval_iteration = lambda *_, **__: self.between()
        size = self.size
        model = LastOutput(size.make_network())
        metrics = [accuracy_metrics(stream=True)] if self.job == "evaluate" else []
        return getattr(supervised, self.name)(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), ETA, MOMENTUM, weight_decay=WEIGHT_DECAY),
            criterion=nn.CrossEntropyLoss(),
            train_mb_size=size.minibatch,
            train_epochs=1,
            eval_mb_size=EVALUATION_MINIBATCH,
            evaluator=EvaluationPlugin(*metrics, loggers=[]),
            eval_every=-1,
            plugins=[turns],
            **STRATEGIES[self.name],
        )

    def prepare(self) -> Callable[[], object]:
        strategy = self.strategy()
        strategy.train(self.first, num_workers=0)
        if self.job == "evaluate":
            return lambda: strategy.eval(self.test, num_workers=0)
        if self.name == "EWC":
            minibatch, model = self.each(FISHER), strategy.model
            model.register_forward_hook(lambda *_: None if model.training else minibatch())
        strategy.train_epochs = self.size.frozen_epochs if self.job == "frozen" else self.size.epochs
        return lambda: strategy.train(self.second, num_workers=0)


if __name__ == "__main__":
    serve(Avalanche)
