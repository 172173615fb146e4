"""The loop: how a strategy learns a batch, whatever its head, its regulariser and its memory are."""

from collections.abc import Callable

import torch
from torch import Tensor

from everlearn._kit.keyed import keyed_generator, keyed_seed
from everlearn._kit.state import State, mapped
from everlearn.data.batch import Batch
from everlearn.errors import NotFiniteError, StateError, sentence
from everlearn.learning import passes
from everlearn.learning.assembled import Assembled, Within, is_output
from everlearn.learning.bench import PASS_MINIBATCH
from everlearn.learning.learner import OnStep, Step
from everlearn.learning.loss import L_of, Minibatch, Replayed, Terms
from everlearn.learning.storage import measure

Forward = Callable[[Tensor, Replayed | None], tuple[Tensor, ...]]
"""Every output's logits for the patterns at these places of B_i's data; places behind its end are replayed ones."""


class Strategy(Assembled):
    """A learner: a network, and the slots Head × Regulariser × Memory, put together as `Assembled` says."""

    def learn_batch(self, batch: Batch, on_step: OnStep | None = None) -> None:
        """Learn B_i, whole or not at all; a learner whose state is from the middle of B_i resumes there."""
        self._check(batch)
        with self._whole():
            self._learn(batch, on_step)

    def _learn(self, batch: Batch, on_step: OnStep | None) -> None:
        """Algorithms 1 to 3, read top to bottom; the slots say what each line means."""
        head, regulariser, memory, theta, ranks = self.head, self.regulariser, self.memory, self.theta, self.ranks
        data = memory.mix(batch)  # B_i; with Cumulative's memory, all batches so far
        self._agree(data)
        if self.within_ is None:
            self._begin(batch, data)
        else:  # resumed in the middle of B_i: everything else came back with the state
            head.hold_begin(distils=regulariser.distils)
        assert self.within_ is not None

        i, phase, n = self.i_, self.training.phase(self.i_), len(data)
        per_epoch = -(-n // self.training.minibatch)
        steps = phase.epochs * per_epoch  # none at all for a head that is only solved
        y, order = head.rows_of(data.y).to(self.device), torch.empty(0, dtype=torch.long)
        theta.open()
        forward = self._forward(data.x.to(self.device))
        for step in range(self.within_.step, steps):
            epoch, k = divmod(step, per_epoch)
            if k == 0 or not len(order):
                order = self._order(i, epoch, n).to(self.device)
            idx = order[k * self.training.minibatch : (k + 1) * self.training.minibatch]
            replayed = memory.replay(i, step)  # old patterns join the minibatch, behind the new ones
            if replayed is not None:
                idx = torch.cat([idx, torch.arange(n, n + len(replayed.y), device=self.device)])
            rows = y if replayed is None else torch.cat([y, head.rows_of(replayed.y).to(self.device)])
            self._reseed(keyed_seed(self.seed, "step", i, step))  # dropout's masks: by key, so that resuming is exact
            eta = phase.eta_at(step, steps)

            L = ranks.mean(idx, lambda idx: self._loss(forward(idx, replayed), rows, idx, n, replayed))  # noqa: B023
            theta.backward(L)  # of (1), (2) or (3); of (6) without its penalty
            loss = self._finite(ranks.sum_(theta.moving, L), i, epoch, step)
            regulariser.constrain()  # (7): grad += λ·F̂·(θ − θ*)
            self.training.step_(theta, eta)  # v = momentum·v + η·grad; θ = θ − v
            head.hold()  # rows and biases that must not move
            regulariser.observe()  # (9): SI's path

            self.within_.step = step + 1
            if on_step is not None:
                on_step(Step(i, epoch + 1, phase.epochs, step + 1, steps, loss, eta))
        self._finite(theta.value.sum(), i, phase.epochs - 1, steps - 1)
        self._held_within = measure(self._owners())
        regulariser.consolidate(i, data)  # (8), (10), (11): importance
        if head.solves:  # a closed form, on the features as they are now
            head.solve(self._features[-1] if self._features else self.bench.features(data.x), y)
        head.consolidate(i)  # cw[j] = tw[j] − avg(tw)
        theta.close()
        self.network.eval()
        memory.store(i, batch)  # what is kept of B_i, chosen with the network as it is now
        self.within_ = None
        self._agree(data)

    def _begin(self, batch: Batch, data: Batch) -> None:
        """Make everything ready for B_i, in the order that the paper needs."""
        i = self.i_ + 1
        self.regulariser.prepare(i, data)  # y_lwf, before the head grows
        extend = self.head.begin(batch.counts, i, distils=self.regulariser.distils)  # expand; tw = 0
        if extend is not None and not self.head.shared_only:
            self.regulariser.grow(extend)
        if self._initial is not None:
            self._initial = self._restart(self._initial)
        if not self.training.carries_into(i):
            self.theta.v.zero_()
        self.regulariser.begin(i)
        self.i_, self._n_i, self.within_ = i, len(data), Within(0, batch.fingerprint)

    def _forward(self, x: Tensor) -> Forward:
        """Put the network into its training mode; a trunk that is still runs once for all steps of B_i."""
        theta, trunk, n = self.theta, self.regulariser.trunk, len(x)
        self.network.set_mode(
            trunk=not theta.frozen or trunk == "dropout",
            outputs=True,
            batch_norm=not theta.frozen and (self.i_ == 1 or self.training.batch_norm == "follow"),
        )

        def rows_at(idx: Tensor, new: Tensor, old: Tensor | None) -> Tensor:
            if old is None:
                return new.index_select(0, idx)  # whole rows: quicker than new[idx]
            return torch.cat([new.index_select(0, idx[idx < n]), old.index_select(0, idx[idx >= n] - n)])

        if not (theta.frozen and trunk == "still"):
            return lambda idx, replayed: self.network(rows_at(idx, x, replayed and replayed.x.to(self.device)))
        self._features = passes.features(self.network, x, PASS_MINIBATCH, self.ranks)

        def from_features(idx: Tensor, replayed: Replayed | None) -> tuple[Tensor, ...]:
            old = [None] * len(self._features)
            if replayed is not None:
                old = [*passes.features(self.network, replayed.x, PASS_MINIBATCH)]  # type: ignore[list-item]
            return self.network.logits(tuple(rows_at(idx, f, o) for f, o in zip(self._features, old, strict=True)))

        return from_features

    def _loss(
        self, outputs: tuple[Tensor, ...], rows: Tensor, idx: Tensor, n: int, replayed: Replayed | None
    ) -> Tensor:
        """L of one minibatch: every output layer's terms, as the regulariser has them."""
        hard = self.head.hard_targets(rows[idx])

        def terms(k: int, o: Tensor) -> Terms:
            found = self.regulariser.loss_terms(o, hard, Minibatch(k, idx, n, self.head.s, replayed))
            self.regulariser.check_together(found, self.ranks.size)
            return found

        return L_of(self.head.outputs, outputs, terms)

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

    def _check(self, batch: Batch) -> None:
        self.network.check_input(batch.x)
        if self.within_ is None:
            self.head.check(batch.classes)
        elif self.within_.batch != batch.fingerprint:
            raise StateError(
                sentence(
                    f"The learner is in the middle of B_{self.i_}",
                    expected=f"the batch that it was learning ({self.within_.batch})",
                    got=f"another one ({batch.fingerprint})",
                    do="Pass the same batch again to resume it.",
                )
            )
