"""The paper's strategies once more, in plain Python: floats, and loops over the weights θ_k.

Written from the paper and its reading notes, not from the library, so that the two can be compared. Only the random
numbers are the library's, since orders and drawn rows must be the same. Numbers in parentheses are the paper's
equations; the knobs have the library's names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, inf, log, sqrt, tanh
from typing import Any

import torch

from everlearn._kit.keyed import keyed_generator

Key = tuple[str, int, int, int]
"""k of θ_k: (kind, layer or output, row, column); kinds are W and b (hidden), U and c (output weights and biases)."""

Weights = dict[Key, float]
Row = list[float]
Term = tuple[float, Row, float]
"""One term of the loss: its share, the targets t, and the temperature."""

Pattern = tuple[Row, list[list[Term]]]
"""x, and the terms of every output."""

STRATEGIES: dict[str, dict[str, Any]] = {
    "naive": {"head": "plain", "regulariser": "none", "head.growth": "maximal"},
    "lwf": {"head": "plain", "regulariser": "lwf", "head.growth": "expanding"},
    "ewc": {"head": "plain", "regulariser": "ewc", "head.growth": "maximal"},
    "si": {"head": "plain", "regulariser": "si", "head.growth": "maximal"},
    "fw": {"head": "plain", "regulariser": "freeze", "head.growth": "expanding", "head.old_rows": "frozen"},
    "cw": {"head": "plain", "regulariser": "freeze", "head.growth": "expanding"},
    "cwr": {"head": "cwr", "regulariser": "freeze", "head.growth": "maximal"},
    "cwr+": {"head": "cwr+", "regulariser": "freeze", "head.growth": "maximal"},
    "ar1": {"head": "cwr+", "regulariser": "si", "head.growth": "maximal"},
    "ar1-ewc": {"head": "cwr+", "regulariser": "ewc", "head.growth": "maximal"},
    "ar1-lwf": {"head": "cwr+", "regulariser": "lwf", "head.growth": "maximal"},
    "cwr*": {"head": "cwr*", "regulariser": "freeze", "head.growth": "maximal"},
    "ar1*": {"head": "cwr*", "regulariser": "si", "head.growth": "maximal"},
}
"""What each strategy is."""

CWR: dict[str, Any] = {"head.w_1": 1.0, "head.w_i": 1.0, "head.bias": "fixed", "head.unit_std": False}
HEADS: dict[str, dict[str, Any]] = {
    "plain": {"head.init": "gaussian", "head.init_scale": 0.01, "head.old_rows": "tuned"},
    "cwr": {**CWR, "head.init": "gaussian", "head.init_scale": 0.01, "head.shift": "none"},
    "cwr+": {**CWR, "head.init": "zero", "head.init_scale": 0.01, "head.shift": "batch"},
    "cwr*": {**CWR, "head.init": "zero", "head.init_scale": 0.01, "head.shift": "batch"},
}
"""What each head is, where a test does not say otherwise."""


@dataclass(frozen=True)
class Shape:
    """Fully connected layers, widths[0] inputs first; taps: the layers (from 1) that feed an output."""

    widths: tuple[int, ...] = (3, 4)
    taps: tuple[int, ...] = (1,)
    loss_weights: tuple[float, ...] = (1.0,)
    activation: str = "tanh"


def keys(shape: Shape, s: int) -> list[Key]:
    """Every k of a network with s output rows: hidden weights, hidden biases, output weights, output biases."""
    layers = range(1, len(shape.widths))
    outputs = list(enumerate(shape.taps))
    return [
        *(("W", n, r, c) for n in layers for r in range(shape.widths[n]) for c in range(shape.widths[n - 1])),
        *(("b", n, r, 0) for n in layers for r in range(shape.widths[n])),
        *(("U", q, j, c) for q, tap in outputs for j in range(s) for c in range(shape.widths[tap])),
        *(("c", q, j, 0) for q, _ in outputs for j in range(s)),
    ]


def is_shared(k: Key) -> bool:
    return k[0] in "Wb"


def is_bias(k: Key) -> bool:
    return k[0] in "bc"


# --- the network ----------------------------------------------------------------------------------


def forward(shape: Shape, theta: Weights, s: int, x: Row) -> tuple[list[Row], list[Row]]:
    """The activations of every layer, x first, and the logits of every output."""
    a = [x]
    for n in range(1, len(shape.widths)):
        layer = []
        for r in range(shape.widths[n]):
            net = theta["b", n, r, 0]
            for c in range(shape.widths[n - 1]):
                net += theta["W", n, r, c] * a[n - 1][c]
            layer.append(tanh(net) if shape.activation == "tanh" else max(net, 0.0))
        a.append(layer)
    o = []
    for q, tap in enumerate(shape.taps):
        logits = []
        for j in range(s):
            net = theta["c", q, j, 0]
            for c in range(shape.widths[tap]):
                net += theta["U", q, j, c] * a[tap][c]
            logits.append(net)
        o.append(logits)
    return a, o


def softmax(o: Row, temperature: float = 1.0) -> Row:
    top = max(o)
    powers = [exp((value - top) / temperature) for value in o]
    return [power / sum(powers) for power in powers]


def backward(shape: Shape, theta: Weights, a: list[Row], d_o: list[Row], grad: Weights) -> None:
    """grad += ∂L/∂θ for one pattern, from its activations and ∂L/∂o."""
    d_a = [[0.0] * width for width in shape.widths]
    for q, tap in enumerate(shape.taps):
        for j, d in enumerate(d_o[q]):
            grad["c", q, j, 0] += d
            for c in range(shape.widths[tap]):
                grad["U", q, j, c] += d * a[tap][c]
                d_a[tap][c] += d * theta["U", q, j, c]
    for n in reversed(range(1, len(shape.widths))):
        for r in range(shape.widths[n]):
            out = a[n][r]
            d = d_a[n][r] * (1 - out * out if shape.activation == "tanh" else float(out > 0))
            grad["b", n, r, 0] += d
            for c in range(shape.widths[n - 1]):
                grad["W", n, r, c] += d * a[n - 1][c]
                d_a[n - 1][c] += d * theta["W", n, r, c]


def loss_and_gradient(shape: Shape, theta: Weights, s: int, patterns: Sequence[Pattern]) -> tuple[float, Weights]:
    """The mean loss over these patterns, and its gradient."""
    loss, grad = 0.0, dict.fromkeys(theta, 0.0)
    for x, terms in patterns:
        a, o = forward(shape, theta, s, x)
        d_o = [[0.0] * s for _ in shape.taps]
        for q, loss_weight in enumerate(shape.loss_weights):
            for share, t, temperature in terms[q]:
                y_hat = softmax(o[q], temperature)
                weight = loss_weight * share / len(patterns)
                for j in range(s):
                    loss -= weight * t[j] * log(y_hat[j])
                    d_o[q][j] += weight * (y_hat[j] - t[j]) / temperature  # (4)
        backward(shape, theta, a, d_o, grad)
    return loss, grad


# --- the strategies -------------------------------------------------------------------------------


class Oracle:
    """One strategy, learning batch after batch.

    theta: the initial weights; s: the rows of a maximal head, by default row k for class k. An expanding head starts
    with none.
    """

    def __init__(
        self, strategy: str, shape: Shape, theta: Weights, s: int, knobs: Mapping[str, Any], seed: int
    ) -> None:
        kind = STRATEGIES[strategy]
        self.knobs: dict[str, Any] = {**HEADS[kind["head"]], **kind, **knobs}
        self.cwr, self.star = kind["head"] != "plain", kind["head"] == "cwr*"
        self.past: dict[int, int] = {}  # CWR*: the patterns of each class before B_i, by row
        self.w_pasts: list[float] = []
        self.shape, self.seed = shape, seed
        maximal = self.knobs["head.growth"] == "maximal"
        self.classes: list[int] = list(self.knobs.get("head.classes", range(s))) if maximal else []
        self.batches: list[list[int]] = []  # the rows of B_1, B_2, …
        self.theta = dict(theta)
        if self.cwr:
            self.theta.update({k: 0.0 for k in theta if not is_shared(k)})  # cw = 0
        self.v = dict.fromkeys(theta, 0.0)
        self.F: Weights = {}
        self.theta_star: Weights = {}
        self.history: list[tuple[Weights, Weights]] = []  # (F^i, Θ^i), for EWC's option 1
        self._resize()
        self.F_hats: list[list[Weights]] = []  # those that pulled in B_1, B_2, …
        self.n: list[int] = []
        self.lam = 0.0
        self.y_lwf: list[list[Row]] = []  # of each output, for each pattern
        self.losses: list[float] = []
        self.etas: list[float] = []

    @property
    def i(self) -> int:
        return len(self.batches)

    @property
    def s(self) -> int:
        return len(self.classes)

    @property
    def scope(self) -> list[Key]:
        """What a regulariser sees: all weights, or Θ̄ in the CWR family."""
        return [k for k in self.theta if is_shared(k) or not self.cwr]

    def scores(self, x: list[Row]) -> list[Row]:
        return [forward(self.shape, self.theta, self.s, pattern)[1][-1] for pattern in x]

    def learn(self, x: list[Row], y: list[int]) -> None:
        """Algorithms 1, 2 and 3, and LWF, EWC and SI of Section 2."""
        self.n.append(len(y))
        self._look(x)
        cw = self._begin(sorted(set(y)))
        i, theta, knobs = self.i, self.theta, self.knobs
        pulls = self._pulls()
        self.F_hats.append([F_hat for F_hat, _ in pulls])
        start, path = dict(theta), dict.fromkeys(self.scope, 0.0)
        patterns = [(x[p], self._terms(self.classes.index(c), p)) for p, c in enumerate(y)]
        size, phase = knobs["training.minibatch"], "training.first" if i == 1 else "training.later"
        steps, step = knobs[f"{phase}.epochs"] * ceil(len(y) / size), 0
        for epoch in range(knobs[f"{phase}.epochs"]):
            order = self._order(len(y), "order", i, epoch if knobs["training.reshuffle"] else 0)
            for at in range(0, len(y), size):
                loss, g = loss_and_gradient(self.shape, theta, self.s, [patterns[p] for p in order[at : at + size]])
                eta = knobs[f"{phase}.eta"] * interpolated(knobs[f"{phase}.schedule"], step / steps)
                for k in theta:
                    if not self._moves(k):
                        self.v[k] = self.v[k] if is_shared(k) else 0.0
                        continue
                    rate = eta * (knobs["training.bias_eta"] if is_bias(k) else 1.0)
                    decay = knobs["training.weight_decay"] * (knobs["training.bias_decay"] if is_bias(k) else 1.0)
                    pull = sum(knobs[self._name("lam")] * F[k] * (theta[k] - star[k]) for F, star in pulls if k in F)
                    self.v[k] = knobs["training.momentum"] * self.v[k] + rate * (g[k] + pull + decay * theta[k])  # (7)
                    theta[k] -= self.v[k]
                    if k in path and knobs["regulariser"] == "si":
                        delta_L = -self.v[k] * g[k] if knobs["si.path"] == "gradient" else -self.v[k] * self.v[k]
                        path[k] -= delta_L  # (9), with the minus that (10) lacks
                self.losses.append(loss)
                self.etas.append(eta)
                step += 1
        if knobs["regulariser"] in ("si", "ewc"):
            self._consolidate_F(x, y, start, path)
        if self.cwr:
            cur = {self.classes.index(c): y.count(c) for c in set(y)}
            self._consolidate_rows(cw, cur)
            for row, count in cur.items():
                self.past[row] = self.past.get(row, 0) + count

    def _name(self, knob: str) -> str:
        return f"{self.knobs['regulariser']}.{knob}"

    def _order(self, n: int, *key: str | int) -> list[int]:
        return [int(p) for p in torch.randperm(n, generator=keyed_generator(self.seed, *key))]

    # --- before B_i -------------------------------------------------------------------------------

    def _look(self, x: list[Row]) -> None:
        """λ_i by (5), and y_lwf from the weights that B_{i−1} left, before the head grows."""
        self.lam, self.y_lwf = 0.0, []
        if self.knobs["regulariser"] == "lwf" and self.i:
            (a, b), (c, d) = self.knobs["lwf.map"]
            share = (1 - self.n[-1] / sum(self.n) - a) / (b - a)
            self.lam = self.knobs["lwf.lam"]
            if self.lam is None:
                self.lam = c + (d - c) * max(0.0, min(1.0, share))
            logits = [forward(self.shape, self.theta, self.s, pattern)[1] for pattern in x]
            for q, _ in enumerate(self.shape.taps):
                self.y_lwf.append([softmax(o[q], self.knobs["lwf.temperature"]) for o in logits])

    def _resize(self) -> None:
        """Give everything as many rows as there are classes; a new row is 0, and has no importance and no past."""
        every = keys(self.shape, self.s)
        self.theta, self.v = extended(self.theta, every), extended(self.v, every)
        if self.i and not self.cwr:
            self.F, self.theta_star = extended(self.F, every), extended(self.theta_star, every)
            self.history = [(extended(F_i, every), extended(star, every)) for F_i, star in self.history]

    def _begin(self, classes: list[int]) -> Weights:
        """Make the head ready for B_i; gives cw."""
        old = self.s
        self.classes += [c for c in classes if c not in self.classes]
        self._resize()
        if not self.cwr:
            self._start_rows(range(old, self.s), "rows", self.i, old)
        self.batches.append([self.classes.index(c) for c in classes])
        carry = self.knobs["training.carry"]
        if carry == "never" or (carry == "after_first" and self.i <= 2):
            self.v = dict.fromkeys(self.v, 0.0)
        if self.knobs["regulariser"] == "freeze" and self.i > 1:
            self.v = {k: 0.0 if is_shared(k) else v for k, v in self.v.items()}
        cw = {k: value for k, value in self.theta.items() if not is_shared(k)}
        if self.cwr:
            self._start_rows(range(self.s), "tw", self.i)
            for k in cw:
                self.v[k] = 0.0
                if is_bias(k):
                    self.theta[k] = self._bias(k)
                if self.star and k[2] in self.batches[-1] and k[2] in self.past:
                    self.theta[k] = cw[k]  # tw[j] = cw[j]
        return cw

    def _start_rows(self, rows: range, *key: str | int) -> None:
        """New output rows, or tw."""
        if not rows:
            return
        init, scale = self.knobs["head.init"], self.knobs["head.init_scale"]
        generator = keyed_generator(self.seed, *key)
        for q, tap in enumerate(self.shape.taps):
            drawn = torch.zeros(len(rows), self.shape.widths[tap])
            bound = sqrt(3 / self.shape.widths[tap])
            if init == "constant":
                drawn.fill_(scale)
            elif init == "gaussian":
                drawn.normal_(0.0, scale, generator=generator)
            elif init == "xavier":
                drawn.uniform_(-bound, bound, generator=generator)
            for row, j in enumerate(rows):
                self.theta["c", q, j, 0] = 0.0
                for c in range(self.shape.widths[tap]):
                    self.theta["U", q, j, c] = float(drawn[row, c])

    def _bias(self, k: Key) -> float:
        """A CWR head's bias where it is not learnt: 1 for classes seen, B_i's too, and 0 for others."""
        seen = any(k[2] in rows for rows in self.batches)
        return 1.0 if seen and self.knobs["head.bias"] == "fixed" else 0.0

    def _pulls(self) -> list[tuple[Weights, Weights]]:
        """The pairs F̂ and θ*, by (8) or (11)."""
        if self.knobs["regulariser"] not in ("si", "ewc") or self.i == 1:
            return []
        pairs = self.history or [(self.F, self.theta_star)]
        average = self.knobs["regulariser"] == "ewc" and not self.history and self.knobs["ewc.average"]
        max_F = self.knobs[self._name("max_F")]
        pulls = []
        for F, star in pairs:
            F_hat: Weights = {}
            for k in self.scope:
                value = F[k] / (self.i - 1 if average else 1)
                F_hat[k] = min(max(value, 0.0), inf if max_F is None else max_F)
                if is_bias(k) and not self.knobs[self._name("biases")]:
                    F_hat[k] = 0.0
            pulls.append((F_hat, star))
        return pulls

    # --- within B_i -------------------------------------------------------------------------------

    def _terms(self, row: int, p: int) -> list[list[Term]]:
        """The loss of one pattern, for every output: the true row, and y_lwf by (1), (2) or (3)."""
        y_1h = [float(j == row) for j in range(self.s)]
        terms: list[list[Term]] = []
        for q, _ in enumerate(self.shape.taps):
            if not self.lam:
                terms.append([(1.0, y_1h, 1.0)])
                continue
            y_lwf = self.y_lwf[q][p] + [0.0] * (self.s - len(self.y_lwf[q][p]))
            form, lam = self.knobs["lwf.form"], self.lam
            if form == "fused":
                soft = [(1 - lam) * y_1h[j] + lam * y_lwf[j] for j in range(self.s)]
                terms.append([(1.0, soft, 1.0)])
            elif form == "two_term":
                terms.append([(1 - lam, y_1h, 1.0), (lam, y_lwf, 1.0)])
            else:
                terms.append([(1.0, y_1h, 1.0), (lam, y_lwf, self.knobs["lwf.temperature"])])
        return terms

    def _moves(self, k: Key) -> bool:
        """Whether SGD moves this weight in B_i."""
        if is_shared(k):
            return self.i == 1 or self.knobs["regulariser"] != "freeze"
        if self.cwr:
            return not is_bias(k) or self.knobs["head.bias"] == "learned"
        old = any(k[2] in rows for rows in self.batches[:-1]) and k[2] not in self.batches[-1]
        return not old or self.knobs["head.old_rows"] == "tuned"

    # --- after B_i --------------------------------------------------------------------------------

    def _consolidate_F(self, x: list[Row], y: list[int], start: Weights, path: Weights) -> None:
        F_i = self._fisher(x, y) if self.knobs["regulariser"] == "ewc" else {}
        w = 1.0
        if self.knobs["regulariser"] == "si":
            w = self.knobs["si.w_1" if self.i == 1 else "si.w_i"]
            for k in self.scope:
                T = self.theta[k] - start[k]
                F_i[k] = path[k] / (T * T + self.knobs["si.xi"])  # (10)
        star = {k: self.theta[k] for k in self.scope}
        if self.knobs["regulariser"] == "ewc" and self.knobs["ewc.terms"] == "per_batch":
            self.history.append((F_i, star))
        else:
            self.F = {k: self.F.get(k, 0.0) + w * F_i[k] for k in self.scope}  # (8), (11)
            self.theta_star = star

    def _fisher(self, x: list[Row], y: list[int]) -> Weights:
        """Variance or second moment of minibatch gradients, or the mean square of each pattern's gradient."""
        n, kind = len(y), self.knobs["ewc.fisher"]
        hard = [[(1.0, [float(c == of) for of in self.classes], 1.0)] for c in y]
        order = self._order(n, "fisher", self.i)
        count = n if kind == "per_example" else ceil(n / self.knobs["ewc.minibatch"])
        gradients, at = [], 0
        for part in range(count):
            size = n // count + (part < n % count)
            patterns = [(x[p], [hard[p] for _ in self.shape.taps]) for p in order[at : at + size]]
            gradients.append(loss_and_gradient(self.shape, self.theta, self.s, patterns)[1])
            at += size
        F_i: Weights = {}
        for k in self.scope:
            mean = sum(g[k] for g in gradients) / count if kind == "variance" else 0.0
            F_i[k] = sum((g[k] - mean) ** 2 for g in gradients) / count
        return F_i

    def _consolidate_rows(self, cw: Weights, cur: dict[int, int]) -> None:
        """Algorithm 1, line 10: cw[j] = w_i·tw[j]; Algorithm 2, line 10: cw[j] = tw[j] − avg(tw).

        CWR*: cw[j] = (cw[j]·wpast_j + (tw[j] − avg(tw))) / (wpast_j + 1).
        """
        rows, shift = self.batches[-1], self.knobs["head.shift"]
        w = self.knobs["head.w_1" if self.i == 1 else "head.w_i"]
        for q, _ in enumerate(self.shape.taps):
            for kind in "Uc":
                part = [k for k in cw if k[0] == kind and k[1] == q]
                tw = [self.theta[k] for k in part if k[2] in rows]
                over = [self.theta[k] for k in part] if shift == "all" else tw
                avg = 0.0 if shift == "none" else sum(over) / len(over)
                mean, std = sum(tw) / len(tw), 1.0
                if self.knobs["head.unit_std"] and kind == "U":
                    std = sqrt(sum((value - mean) ** 2 for value in tw) / len(tw))
                for k in part:
                    if kind == "c" and self.knobs["head.bias"] != "learned":
                        cw[k] = self._bias(k)
                    elif k[2] in rows:
                        new = w * (self.theta[k] - avg) / std
                        w_past = sqrt(self.past.get(k[2], 0) / cur[k[2]]) if self.star else 0.0
                        cw[k] = (cw[k] * w_past + new) / (w_past + 1)
                        self.w_pasts.append(w_past)
        self.theta.update(cw)


def extended(weights: Weights, every: list[Key]) -> Weights:
    """The same weights, and 0 for those that are new."""
    return {k: weights.get(k, 0.0) for k in every}


def interpolated(points: Sequence[tuple[float, float]], share: float) -> float:
    """The factor at this share of the steps: linear between the points, constant before and after them."""
    if share <= points[0][0]:
        return points[0][1]
    for (a, f_a), (b, f_b) in pairwise(points):
        if share <= b:
            return f_a + (f_b - f_a) * (share - a) / (b - a)
    return points[-1][1]
