"""The loop: a strategy is a head, a regulariser and a memory, and this is what they do together."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from everlearn._kit.keyed import forked, keyed_generator, keyed_seed
from everlearn._kit.state import State, mapped
from everlearn.data.batch import Batch, check_batch
from everlearn.errors import NotFiniteError, StateError, sentence
from everlearn.learning import passes
from everlearn.learning.assembled import EVALUATION_MINIBATCH, Assembled, Within, is_output
from everlearn.learning.equations import L_cross
from everlearn.learning.learner import OnStep, Step
from everlearn.learning.regulariser import Term
from everlearn.learning.storage import measure
from everlearn.learning.unsplit import unsplit


class Strategy(Assembled):
    """A learner: a network, and the slots Head × Regulariser × Memory, put together as `Assembled` says."""

    def learn(self, batch: Batch, on_step: OnStep | None = None) -> None:
        """Learn B_i, whole or not at all; a learner whose state is from the middle of B_i goes on there."""
        self._check(batch)
        self._before = self.state_dict()
        try:
            with forked(self.device), unsplit(self.network, self.ranks):
                self._learn(batch, on_step)
        except BaseException:
            self.theta.close()
            self.load_state_dict(self._before)
            raise
        finally:
            self._before, self._features = None, ()

    def _learn(self, batch: Batch, on_step: OnStep | None) -> None:
        """Algorithms 1 to 3, read top to bottom; the slots say what each line means."""
        data, ranks = self.memory.mix(batch), self.ranks
        ranks.agree(partial(self._held, data))
        if self.within_ is None:
            self._begin(batch, data)
        else:  # resumed in the middle of B_i
            self.head.hold_begin(distils=self.regulariser.distils)
        assert self.within_ is not None
        i, phase, theta = self.i_, self.training.phase(self.i_), self.theta
        x, y = data.x.to(self.device), self.head.rows_of(data.y).to(self.device)
        hard = self._hard_targets(y)
        per_epoch = -(-len(data) // self.training.minibatch)
        steps = phase.epochs * per_epoch
        order = torch.empty(0, dtype=torch.long)
        theta.open()
        forward = self._forward(x)

        def L_of(idx: Tensor) -> Tensor:
            return self._loss(forward(idx), partial(self._terms, hard, idx))

        for step in range(self.within_.step, steps):
            epoch, k = divmod(step, per_epoch)
            if k == 0 or not len(order):
                order = self._order(i, epoch, len(data)).to(self.device)
            idx = order[k * self.training.minibatch : (k + 1) * self.training.minibatch]
            self._reseed(keyed_seed(self.seed, "step", i, step))  # dropout's masks
            eta = phase.eta_at(step, steps)

            L = ranks.mean(idx, L_of)  # (1), (2) or (3); (6) without its penalty
            theta.backward(L)
            loss = self._finite(ranks.sum_(theta.moving, L), i, epoch, step)
            self.regulariser.constrain(self.scope)  # (7): grad += λ·F̂·(θ − θ*)
            self.training.step_(theta, eta)  # v = momentum·v + η·grad; θ = θ − v
            self.head.hold()  # rows and biases that must not move
            self.regulariser.observe(self.scope)  # (9): SI's path

            self.within_.step = step + 1
            if on_step is not None:
                on_step(Step(i, epoch + 1, phase.epochs, step + 1, steps, loss, eta))
        self._finite(theta.value.sum(), i, phase.epochs - 1, steps - 1)
        self._held_within = measure(self._owners())
        self.regulariser.consolidate(self.scope, i, self._gradients(x, y))  # (8), (10), (11)
        self.head.consolidate(i)  # cw[j] = tw[j] − avg(tw)
        self.memory.store(batch)
        theta.close()
        self.network.eval()
        self.within_ = None
        ranks.agree(partial(self._held, data))

    def _begin(self, batch: Batch, data: Batch) -> None:
        """Make everything ready for B_i, in the order that the paper needs."""
        i = self.i_ + 1
        rows = self.head.distilled_rows()
        predictions = partial(self._logits, data.x, rows, self.ranks)
        self.regulariser.look(i, len(data), rows, predictions)  # y_lwf, before the head grows
        extend = self.head.begin(batch.counts, i, distils=self.regulariser.distils)  # expand; tw = 0
        if extend is not None and not self.head.shared_only:
            self.regulariser.grow(extend)
        if self._initial is not None:
            self._initial = self._restart(self._initial)
        if not self.training.carries_into(i):
            self.theta.v.zero_()
        phase = self.training.phase(i)
        self.regulariser.begin(self.scope, i, phase.etas, self.training.bias_eta, self.training.momentum)
        self.i_, self._n_i, self.within_ = i, len(data), Within(0, batch.fingerprint)

    def _forward(self, x: Tensor) -> Callable[[Tensor], tuple[Tensor, ...]]:
        """Ready for training: gives every output's logits for the patterns idx; a trunk that is still runs once."""
        theta, trunk = self.theta, self.regulariser.trunk
        self.network.set_mode(
            trunk=not theta.frozen or trunk == "dropout",
            outputs=True,
            batch_norm=not theta.frozen and (self.i_ == 1 or self.training.batch_norm == "follow"),
        )
        if not (theta.frozen and trunk == "still"):
            return lambda idx: self.network(x.index_select(0, idx))  # whole rows: quicker than x[idx]
        self._features = passes.features(self.network, x, EVALUATION_MINIBATCH, self.ranks)
        return lambda idx: self.network.logits(tuple(f.index_select(0, idx) for f in self._features))

    def _restart(self, initial: State) -> State:
        """Back to the initial weights; gives them together with the rows that have just grown, which are at theirs."""
        for name, value in self.weights().items():
            kept = slice(len(initial[name])) if is_output(name) else ...
            value[kept] = initial[name]
        self.theta.v.zero_()
        grown: State = mapped(self.weights(), Tensor.clone)
        return grown

    def _reseed(self, seed: int) -> None:
        """Seed what dropout draws from; the CPU's generator alone, where that will do, since all devices' take long."""
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def _order(self, i: int, epoch: int, n: int) -> Tensor:
        """The order of the patterns in this epoch of B_i."""
        return torch.randperm(n, generator=keyed_generator(self.seed, "order", i, epoch * self.training.reshuffle))

    def _hard_targets(self, y: Tensor) -> Term:
        """y_1h for all patterns, over the rows that L_cross is over."""
        rows = self.head.train_rows()
        if rows is None:
            return Term(1.0, y)
        place = torch.full((self.head.s,), -1, device=y.device)
        place[rows] = torch.arange(len(rows), device=y.device)
        return Term(1.0, place[y], rows)

    def _terms(self, hard: Term, idx: Tensor, output: int) -> list[Term]:
        """One output layer's loss terms for the patterns idx."""
        return self.regulariser.targets(output, idx, hard._replace(t=hard.t[idx]), self.head.s)

    def _loss(self, outputs: tuple[Tensor, ...], terms: Callable[[int], list[Term]]) -> Tensor:
        """Every output layer's loss terms, weighted."""
        L = torch.zeros((), device=self.device)
        for k, (output, o) in enumerate(zip(self.head.outputs, outputs, strict=True)):
            for weight, t, rows, temperature in terms(k):
                chosen = o if rows is None else o[:, rows]
                L = L + output.loss_weight * weight * L_cross(chosen, t, temperature)
        return L

    def _finite(self, value: Tensor, i: int, epoch: int, step: int) -> float:
        number = float(value.detach())
        if number - number != 0.0:  # NaN or infinite
            raise NotFiniteError(
                sentence(
                    f"Training diverged in batch {i}, epoch {epoch + 1}, step {step + 1}",
                    expected="a finite loss and finite weights",
                    got=number,
                    do="Lower the learning rate, or λ; the learner is as it was before this call.",
                )
            )
        return number

    def _gradients(self, x: Tensor, y: Tensor) -> passes.Gradients:
        """The gradients of L_cross that a regulariser may ask for when B_i is learnt."""
        order = torch.randperm(len(y), generator=keyed_generator(self.seed, "fisher", self.i_)).to(self.device)
        loss: passes.Loss = lambda outputs, y: self._loss(outputs, lambda _: [self._hard_targets(y)])  # noqa: E731
        return passes.Gradients(self.theta, self.scope, loss, x, y, order, self.ranks)

    def _check(self, batch: Batch) -> None:
        check_batch(batch)
        self.network.check_input(batch.x)
        if self.within_ is None:
            self.head.check(batch.classes)
        elif self.within_.batch != batch.fingerprint:
            raise StateError(
                sentence(
                    f"The learner is in the middle of B_{self.i_}",
                    expected=f"the batch that it was learning ({self.within_.batch})",
                    got=f"another one ({batch.fingerprint})",
                    do="Pass the same batch again to go on with it.",
                )
            )
