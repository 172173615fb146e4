"""The paper's numbered equations, as pure functions.

Maltoni and Lomonaco, "Continuous Learning in Single-Incremental-Task Scenarios" (2018). The numbers in
parentheses are the paper's. Where the printed equation has a slip, the docstring says so and
`docs/departures.md` says why. Functions whose name ends in `_` write into their first argument.
"""

from collections.abc import Sequence
from math import inf

import torch
import torch.nn.functional as fn
from torch import Tensor

Map = tuple[tuple[float, float], tuple[float, float]]
"""A linear map ((a, b), (c, d)) of [a … b] onto [c … d]."""


# --- LWF ------------------------------------------------------------------------------------------


def L_cross(o: Tensor, t: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross-entropy of softmax(o / temperature) with the targets t, averaged over the minibatch.

    Args:
        o: logits, [n, s].
        t: soft targets, [n, s], or the index of the true row, [n], for one-hot targets y_1h.
        temperature: divides the logits; 1 is the plain cross-entropy.

    Returns:
        A scalar.

    >>> o = torch.tensor([[0.0, 0.0]])
    >>> round(L_cross(o, torch.tensor([1])).item(), 4), round(L_cross(o, torch.tensor([[0.3, 0.7]])).item(), 4)
    (0.6931, 0.6931)
    """
    return fn.cross_entropy(o if temperature == 1.0 else o / temperature, t)


def L_1(o: Tensor, y_1h: Tensor, y_lwf: Tensor, lam: float) -> Tensor:
    """(2): (1 − λ)·L_cross(ŷ, y_1h) + λ·L_cross(ŷ, y_lwf).

    Args:
        o: logits, [n, s].
        y_1h: one-hot targets, [n, s].
        y_lwf: soft targets, the old network's predictions, [n, s].
        lam: λ, from 0 (new targets alone) to 1 (old predictions alone).

    Returns:
        A scalar.

    >>> o, y_1h, y_lwf = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    >>> round(L_1(o, y_1h, y_lwf, lam=0.5).item(), 4)
    0.6931
    """
    return (1 - lam) * L_cross(o, y_1h) + lam * L_cross(o, y_lwf)


def soft_target(y_1h: Tensor, y_lwf: Tensor, lam: float) -> Tensor:
    """The target of (3): (1 − λ)·y_1h + λ·y_lwf.

    Args:
        y_1h: one-hot targets, [n, s].
        y_lwf: soft targets, the old network's predictions, [n, s].
        lam: λ, from 0 (y_1h) to 1 (y_lwf).

    Returns:
        Targets, [n, s].

    >>> soft_target(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]]), lam=0.5)
    tensor([[0.2500, 0.7500]])
    """
    return torch.lerp(y_1h, y_lwf, lam)


def L_2(o: Tensor, y_1h: Tensor, y_lwf: Tensor, lam: float) -> Tensor:
    """(3): L_cross(ŷ, (1 − λ)·y_1h + λ·y_lwf); its gradient is that of L_1, by (4).

    Args:
        o: logits, [n, s].
        y_1h: one-hot targets, [n, s].
        y_lwf: soft targets, the old network's predictions, [n, s].
        lam: λ, from 0 (new targets alone) to 1 (old predictions alone).

    Returns:
        A scalar.

    >>> o, y_1h, y_lwf = torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])
    >>> round(L_2(o, y_1h, y_lwf, lam=0.5).item(), 4)
    0.6931
    """
    return L_cross(o, soft_target(y_1h, y_lwf, lam))


def dL_cross_do(o: Tensor, t: Tensor) -> Tensor:
    """(4): ∂L_cross/∂o = ŷ − t, for each pattern.

    Args:
        o: logits, [n, s].
        t: targets, [n, s].

    Returns:
        The gradient for each pattern, [n, s], not divided by n.

    >>> dL_cross_do(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor([[-0.5000,  0.5000]])
    """
    return o.softmax(dim=1) - t


def distilled(o: Tensor, temperature: float) -> Tensor:
    """The soft targets of knowledge distillation, softmax(o / temperature), used in (1).

    Args:
        o: logits of the old network, [n, s].
        temperature: above 1 the targets are softer.

    Returns:
        Targets, [n, s].

    >>> distilled(torch.tensor([[0.0, 2.0]]), temperature=2.0)
    tensor([[0.2689, 0.7311]])
    """
    return (o / temperature).softmax(dim=1)


def linear_map(value: float, ends: Map) -> float:
    """The paper's `map`: linear between the end points, and not extrapolated past them.

    Args:
        value: what to map.
        ends: ((a, b), (c, d)), which maps [a … b] onto [c … d].

    >>> round(linear_map(0.78, ((0.66, 0.9), (0.45, 0.85))), 6), linear_map(0.5, ((0.66, 0.9), (0.45, 0.85)))
    (0.65, 0.45)
    """
    (a, b), (c, d) = ends
    share = min(max((value - a) / (b - a), 0.0), 1.0)
    return c + share * (d - c)


def lambda_i(i: int, n_i: int, n_upto_i: int, ends: Map = ((0.0, 1.0), (0.0, 1.0))) -> float:
    """(5): λ_1 = 0; λ_i = map(1 − n_i / Σ_{j≤i} n_j).

    Args:
        i: the number of the batch (1-based).
        n_i: patterns in B_i.
        n_upto_i: patterns in B_1 … B_i.
        ends: the map, ((a, b), (c, d)); by default the share as it is.

    CORe50 brings 10 classes, then 5 at a time:

    >>> [round(lambda_i(i, 10 if i == 1 else 5, 5 + 5 * i), 3) for i in (1, 2, 3, 9)]
    [0.0, 0.667, 0.75, 0.9]
    """
    return 0.0 if i == 1 else linear_map(1 - n_i / n_upto_i, ends)


# --- EWC ------------------------------------------------------------------------------------------


def penalty(lam: float, F_hat: Tensor, theta: Tensor, theta_star: Tensor) -> Tensor:
    """The second term of (6): λ/2 · Σ_k F_k (θ_k − θ*_k)².

    Args:
        lam: λ.
        F_hat: F̂, the importance of each weight, [m].
        theta: θ, the weights, [m].
        theta_star: θ*, the weights as the last batch left them, [m].

    Returns:
        A scalar.

    >>> one, two = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 1.0])
    >>> penalty(0.5, F_hat=one, theta=two, theta_star=torch.zeros(2)).item()  # 0.25 · (1·4 + 3·1)
    1.75
    """
    return lam / 2 * (F_hat * (theta - theta_star) ** 2).sum()


def add_pull_(grad: Tensor, lam: float, F_hat: Tensor, theta: Tensor, theta_star: Tensor) -> Tensor:
    """(7): grad += λ·F̂·(θ − θ*), the gradient of (6)'s penalty. The printed rule lacks λ.

    Args:
        grad: ∂L/∂θ, [m], which is written into.
        lam: λ.
        F_hat: F̂, the importance of each weight, [m].
        theta: θ, the weights, [m].
        theta_star: θ*, the weights as the last batch left them, [m].

    Returns:
        `grad`.

    >>> add_pull_(torch.tensor([1.0]), 2.0, torch.tensor([3.0]), torch.tensor([0.5]), torch.tensor([0.25]))
    tensor([2.5000])
    """
    return grad.addcmul_(F_hat, theta - theta_star, value=lam)


def clip(F: Tensor, max_F: float | None) -> Tensor:
    """clip(F, max_F), and a floor at 0 (Zenke has it; a negative importance would push weights away).

    Args:
        F: the importance of each weight, [m].
        max_F: the ceiling; None for none.

    >>> clip(torch.tensor([-1.0, 0.5, 2.0]), max_F=1.0)
    tensor([0.0000, 0.5000, 1.0000])
    """
    return F.clamp(min=0.0, max=inf if max_F is None else max_F)


def F_hat_ewc(F: Tensor, i: int, max_F: float | None, average: bool = True) -> Tensor:
    """(8): F̂ = clip(F / i, max_F), with F = F + F^i summed over B_1 … B_i. `average=False` leaves out / i.

    Args:
        F: the sum of F^1 … F^i, [m].
        i: the number of batches in the sum.
        max_F: the ceiling; None for none.
        average: whether to divide by i.

    >>> F_hat_ewc(torch.tensor([0.5, 4.0]), i=2, max_F=1.0)
    tensor([0.2500, 1.0000])
    """
    return clip(F / i if average else F, max_F)


# --- SI -------------------------------------------------------------------------------------------


def delta_L(delta_theta: Tensor, grad: Tensor) -> Tensor:
    """(9): ΔL_k = Δθ_k · ∂L/∂θ_k, negative while the loss falls.

    Args:
        delta_theta: Δθ, the change of each weight in one step, [m].
        grad: ∂L/∂θ before the step, [m].

    >>> delta_L(torch.tensor([-0.1]), torch.tensor([2.0]))
    tensor([-0.2000])
    """
    return delta_theta * grad


def F_si(path: Tensor, T: Tensor, xi: float) -> Tensor:
    """(10): F_k = −ΣΔL_k / (T_k² + ξ). The printed equation lacks the minus.

    Args:
        path: −ΣΔL_k over the steps of B_i, [m].
        T: final minus initial value of each weight within B_i, [m].
        xi: ξ, above 0, which keeps the quotient finite where a weight did not move.

    >>> F_si(path=torch.tensor([0.2]), T=torch.tensor([-0.1]), xi=0.03)
    tensor([5.])
    """
    return path / (T * T + xi)


def F_hat_si(F: Tensor, max_F: float | None) -> Tensor:
    """(11): F̂ = clip(F, max_F), with F = F + w_i·F^i summed over B_1 … B_i.

    Args:
        F: the weighted sum of F^1 … F^i, [m].
        max_F: the ceiling; None for none.

    >>> F_hat_si(torch.tensor([-0.5, 4.0]), max_F=1.0)
    tensor([0., 1.])
    """
    return clip(F, max_F)


# --- CWR, CWR+ ------------------------------------------------------------------------------------


def consolidated(tw: Tensor, w_i: float = 1.0, avg: float = 0.0, std: float = 1.0) -> Tensor:
    """Algorithm 1, line 10: cw[j] = w_i·tw[j]; Algorithm 2, line 10: cw[j] = tw[j] − avg(tw).

    Args:
        tw: the rows of B_i's classes.
        w_i: CWR's scale of B_i; 1 for CWR+.
        avg: avg(tw), a scalar; 0 for CWR.
        std: a scalar to divide by. Other than 1 it is a normalisation that the paper tried and found worse.

    >>> consolidated(torch.tensor([[1.0, 3.0]]), w_i=1.25), consolidated(torch.tensor([[1.0, 3.0]]), avg=2.0)
    (tensor([[1.2500, 3.7500]]), tensor([[-1.,  1.]]))
    """
    return w_i * (tw - avg) / std


# --- CWR*, by the same authors after the paper -------------------------------------------------------


def w_past(past: Tensor, cur: Tensor) -> Tensor:
    """wpast_j = √(past_j / cur_j): what the past of class j weighs against B_i.

    Args:
        past: the patterns of each class before B_i.
        cur: the patterns of each class in B_i.

    >>> w_past(past=torch.tensor([0.0, 12.0]), cur=torch.tensor([5.0, 3.0]))
    tensor([0., 2.])
    """
    return (past / cur).sqrt()


def averaged(cw: Tensor, new: Tensor, wpast: Tensor) -> Tensor:
    """cw[j] = (cw[j]·wpast_j + new[j]) / (wpast_j + 1), with new[j] = tw[j] − avg(tw).

    Args:
        cw: the consolidated rows of B_i's classes.
        new: the rows that B_i gives, as many.
        wpast: a value for each row. A class without a past has wpast_j = 0 and takes new[j] as it is.

    >>> averaged(cw=torch.tensor([[0.0], [3.0]]), new=torch.tensor([[6.0], [6.0]]), wpast=torch.tensor([0.0, 2.0]))
    tensor([[6.],
            [4.]])
    """
    weight = wpast.view(-1, *[1] * (cw.ndim - 1))
    return (cw * weight + new) / (weight + 1)


# --- What a learner may do: the step's stability ----------------------------------------------------


def overshoot(eta: float, lam: float, max_F_hat: float) -> float:
    """η·λ·max F̂: beyond 1 a step of (7) overshoots θ*.

    Args:
        eta: η, the learning rate.
        lam: λ.
        max_F_hat: the largest F̂.

    >>> round(overshoot(eta=2.5e-5, lam=5e7, max_F_hat=1e-3), 6)  # EWC, CaffeNet
    1.25
    """
    return eta * lam * max_F_hat


def largest_lam(eta: float, max_F_hat: float) -> float:
    """The largest λ that does not overshoot, 1 / (η·max F̂).

    Args:
        eta: η, the learning rate.
        max_F_hat: the largest F̂.

    >>> round(largest_lam(eta=2.5e-5, max_F_hat=1e-3))
    40000000
    """
    return 1 / (eta * max_F_hat)


def divergence_limit(momentum: float) -> float:
    """η·λ·F̂ beyond which θ provably diverges on (6)'s penalty: 2·(1 + momentum).

    The heavy ball e' = (1 + μ − a)·e − μ·e₋₁ with a = η·λ·F̂ is stable just where a < 2·(1 + μ).

    Args:
        momentum: μ, SGD's momentum, 0 ≤ μ < 1.

    >>> divergence_limit(0.0), divergence_limit(0.9)
    (2.0, 3.8)
    """
    return 2 * (1 + momentum)


# --- Storage, in values, as the paper counts it -----------------------------------------------------


def overhead_lwf(n_i: int, s: int, outputs: int = 1) -> int:
    """n_i·s predictions y_lwf, for each output layer, for the life of the batch.

    Args:
        n_i: patterns in B_i.
        s: rows of each output layer.
        outputs: the number of output layers.

    >>> overhead_lwf(n_i=5000, s=100)
    500000
    """
    return n_i * s * outputs


def overhead_importance(m: int) -> int:
    """EWC and SI: F and Θ*, 2·m values.

    Args:
        m: the number of weights.

    >>> overhead_importance(m=1_297_028)
    2594056
    """
    return 2 * m


def overhead_cwr(s: int, pn: Sequence[int]) -> int:
    """CWR and CWR+: tw, s·pn values summed over the output layers.

    Args:
        s: rows of each output layer, one a class.
        pn: for each output layer, the weights in a row.

    >>> overhead_cwr(s=50, pn=[2048, 2048, 1024])
    256000
    """
    return s * sum(pn)


def overhead_ar1(m: int, s: int, pn: Sequence[int]) -> int:
    """AR1: s·pn + 2·(m − s·pn), summed over the output layers.

    Args:
        m: the number of weights, output layers included.
        s: rows of each output layer, one a class.
        pn: for each output layer, the weights in a row.

    >>> overhead_ar1(m=1_297_028, s=100, pn=[512])
    2542856
    """
    return overhead_cwr(s, pn) + overhead_importance(m - overhead_cwr(s, pn))
