"""The paper's equations, with the arithmetic that a reader can do with a pencil."""

import inspect
from math import inf, log, sqrt
from pathlib import Path

import pytest
import torch
from torch import Tensor

from everlearn.learning import equations as eq
from everlearn.models import cifarnet
from everlearn.recipes.paper import PAPER

CORE50_MAP: eq.Map = ((0.66, 0.9), (0.45, 0.85))
ICIFAR_MAP: eq.Map = ((0.5, 0.9), (0.45, 0.85))

O_13 = torch.tensor([[0.0, log(3)]], dtype=torch.float64)  # softmax (1/4, 3/4)


def row(*values: float) -> Tensor:
    """A minibatch of one pattern."""
    return torch.tensor([values], dtype=torch.float64)


def vector(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random_targets(n: int = 6, s: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Logits that want a gradient, one-hot targets and soft targets."""
    generator = torch.Generator().manual_seed(3)
    o = torch.randn(n, s, generator=generator, dtype=torch.float64).requires_grad_()
    y_1h = torch.eye(s, dtype=torch.float64)[torch.randint(s, (n,), generator=generator)]
    y_lwf = torch.randn(n, s, generator=generator, dtype=torch.float64).softmax(dim=1)
    return o, y_1h, y_lwf


def gradient(loss: Tensor, o: Tensor) -> Tensor:
    (g,) = torch.autograd.grad(loss, o)
    return g


def test_every_equation_has_a_test() -> None:
    """Each function of the module is called somewhere in this file."""
    here = Path(__file__).read_text(encoding="utf-8")
    functions = [name for name, f in inspect.getmembers(eq, inspect.isfunction) if f.__module__ == eq.__name__]
    assert len(functions) > 20
    assert [name for name in functions if f"eq.{name}(" not in here] == []


# --- LWF ------------------------------------------------------------------------------------------


def test_L_cross_of_the_true_row() -> None:
    """o = (0, ln 3): e^o = (1, 3), so ŷ = (1/4, 3/4).

    True row 0: −ln 1/4 = ln 4. True row 1: −ln 3/4 = ln 4/3. Both patterns in one minibatch: their mean.
    """
    assert eq.L_cross(O_13, torch.tensor([0])).item() == pytest.approx(log(4))
    assert eq.L_cross(O_13, torch.tensor([1])).item() == pytest.approx(log(4 / 3))
    both = eq.L_cross(torch.cat([O_13, O_13]), torch.tensor([0, 1]))
    assert both.item() == pytest.approx((log(4) + log(4 / 3)) / 2)


def test_L_cross_of_soft_targets() -> None:
    """ŷ = (1/4, 3/4), t = (1/5, 4/5): 1/5·ln 4 + 4/5·ln 4/3."""
    assert eq.L_cross(O_13, row(0.2, 0.8)).item() == pytest.approx(0.2 * log(4) + 0.8 * log(4 / 3))


def test_L_cross_at_a_temperature() -> None:
    """o = (0, 2·ln 3) at temperature 2 is (0, ln 3), so ŷ = (1/4, 3/4) again; true row 0: ln 4."""
    assert eq.L_cross(2 * O_13, torch.tensor([0]), temperature=2.0).item() == pytest.approx(log(4))


def test_L_1() -> None:
    """(2) with ŷ = (1/4, 3/4), y_1h = (1, 0), y_lwf = (1/2, 1/2) and λ = 1/4.

    3/4·ln 4 + 1/4·(1/2·ln 4 + 1/2·ln 4/3) = 7/8·ln 4 + 1/8·ln 4/3 = 1.24897.
    """
    value = eq.L_1(O_13, row(1, 0), row(0.5, 0.5), lam=0.25).item()
    assert value == pytest.approx(7 / 8 * log(4) + 1 / 8 * log(4 / 3))
    assert value == pytest.approx(1.24897, abs=1e-5)


def test_soft_target() -> None:
    """3/4·(0, 1, 0) + 1/4·(0.4, 0.4, 0.2) = (0.1, 0.85, 0.05)."""
    t = eq.soft_target(row(0, 1, 0), row(0.4, 0.4, 0.2), lam=0.25)
    torch.testing.assert_close(t, row(0.1, 0.85, 0.05))


def test_L_2() -> None:
    """(3) with the numbers of L_1: t = 3/4·(1, 0) + 1/4·(1/2, 1/2) = (7/8, 1/8), so 7/8·ln 4 + 1/8·ln 4/3."""
    value = eq.L_2(O_13, row(1, 0), row(0.5, 0.5), lam=0.25).item()
    assert value == pytest.approx(7 / 8 * log(4) + 1 / 8 * log(4 / 3))


@pytest.mark.parametrize("lam", [0.0, 0.3, 2 / 3, 1.0])
def test_L_1_and_L_2_have_one_gradient(lam: float) -> None:
    """(4): (1 − λ)·(ŷ − y_1h) + λ·(ŷ − y_lwf) = ŷ − ((1 − λ)·y_1h + λ·y_lwf), for each pattern."""
    o, y_1h, y_lwf = random_targets()
    one, two = eq.L_1(o, y_1h, y_lwf, lam), eq.L_2(o, y_1h, y_lwf, lam)
    torch.testing.assert_close(one, two)
    by_hand = (o.detach().softmax(dim=1) - ((1 - lam) * y_1h + lam * y_lwf)) / len(o)
    torch.testing.assert_close(gradient(one, o), by_hand)
    torch.testing.assert_close(gradient(two, o), by_hand)


def test_dL_cross_do() -> None:
    """(4) with ŷ = (1/4, 3/4) and t = (0, 1): (1/4, −1/4)."""
    torch.testing.assert_close(eq.dL_cross_do(O_13, row(0, 1)), row(0.25, -0.25))


@pytest.mark.parametrize("soft", [False, True], ids=["y_1h", "y_lwf"])
def test_dL_cross_do_is_what_autograd_finds(soft: bool) -> None:
    """L_cross is a mean over n patterns, so autograd's gradient times n is ŷ − t."""
    o, y_1h, y_lwf = random_targets()
    t = y_lwf if soft else y_1h
    torch.testing.assert_close(gradient(eq.L_cross(o, t), o) * len(o), eq.dL_cross_do(o, t).detach())


def test_distilled() -> None:
    """o = (0, 2·ln 3): at temperature 2 e^(o/2) = (1, 3), so (1/4, 3/4); at 1 e^o = (1, 9), so (1/10, 9/10)."""
    torch.testing.assert_close(eq.distilled(2 * O_13, temperature=2.0), row(0.25, 0.75))
    torch.testing.assert_close(eq.distilled(2 * O_13, temperature=1.0), row(0.1, 0.9))


@pytest.mark.parametrize(
    ("ends", "value", "expected"),
    [
        (CORE50_MAP, 0.66, 0.45),
        (CORE50_MAP, 0.72, 0.55),
        (CORE50_MAP, 0.9, 0.85),
        (CORE50_MAP, 0.5, 0.45),
        (CORE50_MAP, 0.97, 0.85),
        (ICIFAR_MAP, 0.5, 0.45),
        (ICIFAR_MAP, 0.65, 0.6),
        (ICIFAR_MAP, 0.9, 0.85),
        (ICIFAR_MAP, 0.1, 0.45),
        (ICIFAR_MAP, 1.0, 0.85),
    ],
)
def test_linear_map(ends: eq.Map, value: float, expected: float) -> None:
    """The published maps; past their ends nothing is extrapolated.

    CORe50: 0.45 + (0.72 − 0.66)·0.40/0.24 = 0.45 + 0.10. iCIFAR-100 has slope 1: 0.45 + (0.65 − 0.5).
    """
    assert eq.linear_map(value, ends) == pytest.approx(expected)


def test_lambda_i_of_CORe50() -> None:
    """(5): 10 classes and then 5 at a time, so λ_i = 1 − 5/(5 + 5·i) = i/(i + 1): 0, 2/3, 3/4 … 9/10."""
    n = [10, *[5] * 8]
    lams = [eq.lambda_i(i, n[i - 1], sum(n[:i])) for i in range(1, 10)]
    assert lams == pytest.approx([0, 2 / 3, 3 / 4, 4 / 5, 5 / 6, 6 / 7, 7 / 8, 8 / 9, 9 / 10])


@pytest.mark.parametrize(
    ("n", "ends", "second", "last"),
    [([10, *[5] * 8], CORE50_MAP, 0.45 + (2 / 3 - 0.66) / 0.6, 0.85), ([10] * 10, ICIFAR_MAP, 0.45, 0.85)],
    ids=["CORe50", "iCIFAR-100"],
)
def test_lambda_i_by_the_published_maps(n: list[int], ends: eq.Map, second: float, last: float) -> None:
    """The maps reach from λ_2 to the last λ_i, and B_1 is outside them: λ_1 = 0, not 0.45.

    CORe50: λ_2 = 0.45 + (2/3 − 0.66)/0.6 = 0.461, since 0.40/0.24 = 1/0.6; λ_9 = map(9/10) = 0.85.
    iCIFAR-100: ten equal batches, λ_2 = map(1/2) = 0.45 and λ_10 = map(9/10) = 0.85.
    """
    lams = [eq.lambda_i(i, n[i - 1], sum(n[:i]), ends) for i in range(1, len(n) + 1)]
    assert lams[0] == 0.0
    assert lams[1] == pytest.approx(second)
    assert lams[-1] == pytest.approx(last)
    assert lams == sorted(lams)


# --- EWC ------------------------------------------------------------------------------------------


def test_penalty() -> None:
    """(6): λ/2·Σ F_k (θ_k − θ*_k)² = 3/2·(2·(4 − 1)² + 5·(1 − 2)²) = 3/2·(18 + 5) = 34.5."""
    assert eq.penalty(3.0, F_hat=vector(2, 5), theta=vector(4, 1), theta_star=vector(1, 2)).item() == 34.5


def test_add_pull_() -> None:
    """(7): (1, 1) + 3·(2·(4 − 1), 5·(1 − 2)) = (1 + 18, 1 − 15), written into the gradient that was given."""
    grad = vector(1, 1)
    returned = eq.add_pull_(grad, 3.0, F_hat=vector(2, 5), theta=vector(4, 1), theta_star=vector(1, 2))
    assert returned is grad
    assert grad.tolist() == [19, -14]


def test_the_pull_is_the_gradient_of_the_penalty() -> None:
    """∂/∂θ_k of λ/2·F_k (θ_k − θ*_k)² is λ·F_k (θ_k − θ*_k), as autograd finds too."""
    F_hat, theta_star, theta = vector(2, 5, 0), vector(1, 2, 7), vector(4, 1, 3).requires_grad_()
    pull = eq.add_pull_(vector(0, 0, 0), 3.0, F_hat, theta.detach(), theta_star)
    torch.testing.assert_close(pull, gradient(eq.penalty(3.0, F_hat, theta, theta_star), theta))


@pytest.mark.parametrize(("max_F", "expected"), [(2.0, [0, 0, 1.5, 2]), (None, [0, 0, 1.5, 7])])
def test_clip(max_F: float | None, expected: list[float]) -> None:
    """(−3, 0, 1.5, 7): what is below 0 becomes 0; what is above max_F becomes max_F, or stays if there is none."""
    F = vector(-3, 0, 1.5, 7)
    assert eq.clip(F, max_F).tolist() == expected
    assert F.tolist() == [-3, 0, 1.5, 7]


@pytest.mark.parametrize(("average", "expected"), [(True, [0.5, 2, 3]), (False, [2, 3, 3])])
def test_F_hat_ewc(average: bool, expected: list[float]) -> None:
    """(8) after B_4, max_F = 3: (2, 8, 20)/4 = (0.5, 2, 5), clipped (0.5, 2, 3); without / i, (2, 3, 3)."""
    assert eq.F_hat_ewc(vector(2, 8, 20), i=4, max_F=3.0, average=average).tolist() == expected


# --- SI -------------------------------------------------------------------------------------------


def test_delta_L() -> None:
    """(9): (−0.5·4, 0.25·8, 3·0) = (−2, 2, 0): the first step lowers the loss, the second raises it."""
    assert eq.delta_L(vector(-0.5, 0.25, 3), vector(4, 8, 0)).tolist() == [-2, 2, 0]


def test_F_si() -> None:
    """(10) with ξ = 1: 10/(3² + 1) = 1; −4/(1² + 1) = −2; and 6/(0² + 1) = 6 for a weight that came back."""
    assert eq.F_si(path=vector(10, -4, 6), T=vector(-3, 1, 0), xi=1.0).tolist() == [1, -2, 6]


def test_F_si_along_a_path() -> None:
    """L = θ² from θ = 4 with η = 1/4: ∂L/∂θ = 2·θ, so each step halves θ: 4, 2, 1.

    −ΣΔL = 2·8 + 1·4 = 20; T = 1 − 4 = −3; with ξ = 1, F = 20/(9 + 1) = 2. The curvature of L is 2.
    """
    theta, path = vector(4), vector(0)
    for _ in range(2):
        grad = 2 * theta
        delta_theta = -grad / 4
        path -= eq.delta_L(delta_theta, grad)
        theta = theta + delta_theta
    assert theta.item() == 1
    assert eq.F_si(path, T=theta - 4, xi=1.0).item() == 2


def test_F_hat_si() -> None:
    """(11) with w_1 = 1/2 and w_2 = 2: F = 1/2·(4, −6, 2) + 2·(1, 1, 4) = (4, −1, 9); with max_F = 5, (4, 0, 5)."""
    F = 0.5 * vector(4, -6, 2) + 2 * vector(1, 1, 4)
    assert eq.F_hat_si(F, max_F=5.0).tolist() == [4, 0, 5]
    assert eq.F_hat_si(F, max_F=None).tolist() == [4, 0, 9]


# --- CWR, CWR+ ------------------------------------------------------------------------------------


def test_consolidated() -> None:
    """tw = ((2, 4), (6, 8)). CWR, w = 1/2: ((1, 2), (3, 4)). CWR+, avg = 20/4 = 5: ((−3, −1), (1, 3)).

    The squared distances from 5 are 9, 1, 1, 9, so std = √5, and the rows tried by the paper are CWR+'s / √5.
    """
    tw = torch.tensor([[2.0, 4.0], [6.0, 8.0]], dtype=torch.float64)
    shifted = torch.tensor([[-3.0, -1.0], [1.0, 3.0]], dtype=torch.float64)
    torch.testing.assert_close(eq.consolidated(tw, w_i=0.5), tw / 2)
    torch.testing.assert_close(eq.consolidated(tw, avg=5.0), shifted)
    torch.testing.assert_close(eq.consolidated(tw, avg=5.0, std=sqrt(5)), shifted / sqrt(5))


def test_the_weighted_average_of_CWR_star() -> None:
    """A class with 18 patterns before and 2 now: wpast = √9 = 3, so cw = (3·4 + 8) / 4 = 5, and (3·(−2) + 6) / 4 = 0.

    A class with 1 pattern before and 4 now: wpast = 1/2, cw = (4/2 + 7) / (3/2) = 6, and (−2/2 + 4) / (3/2) = 2.
    A class without a past: wpast = 0, and cw is the new row. Twice the past and twice the present change nothing.
    """
    past, cur = torch.tensor([18.0, 1.0, 0.0]), torch.tensor([2.0, 4.0, 5.0])
    wpast = eq.w_past(past, cur)
    assert wpast.tolist() == [3.0, 0.5, 0.0]
    assert torch.equal(eq.w_past(2 * past, 2 * cur), wpast)
    cw = torch.tensor([[4.0, -2.0], [4.0, -2.0], [0.0, 0.0]])
    new = torch.tensor([[8.0, 6.0], [7.0, 4.0], [1.0, 2.0]])
    expected = torch.tensor([[5.0, 0.0], [6.0, 2.0], [1.0, 2.0]])
    assert torch.equal(eq.averaged(cw, new, wpast), expected)
    assert torch.equal(eq.averaged(cw[:, 0], new[:, 0], wpast), expected[:, 0])  # a bias is one more column
    kernels = [part.view(3, 2, 1, 1) for part in (cw, new, expected)]
    assert torch.equal(eq.averaged(kernels[0], kernels[1], wpast), kernels[2])


# --- Stability ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "setting", "eta", "lam", "expected"),
    [
        ("ewc", "caffenet/core50", 2.5e-5, 5.0e7, 1.25),
        ("ewc", "googlenet/core50", 3.5e-5, 3.4e7, 1.19),
        ("ewc", "cifarnet/icifar-100", 2e-5, 8.0e7, 1.6),
        ("si", "caffenet/core50", 2e-5, 5.0e7, 1.0),
        ("si", "googlenet/core50", 3.5e-5, 3.4e7, 1.19),
        ("si", "cifarnet/icifar-100", 2e-5, 6.0e7, 1.2),
        ("ar1", "caffenet/core50", 3e-4, 8.0e5, 0.24),
        ("ar1", "googlenet/core50", 3e-4, 8.0e5, 0.24),
        ("ar1", "cifarnet/icifar-100", 1e-3, 4.0e5, 0.40),
    ],
)
def test_overshoot_of_the_papers_tables(name: str, setting: str, eta: float, lam: float, expected: float) -> None:
    """η·λ·max_F, e.g. EWC on CaffeNet: 2.5e−5 · 5e7 = 1250, · 1e−3 = 1.25. Above 1 it breaks the paper's own bound.

    The presets carry the same numbers.
    """
    assert eq.overshoot(eta, lam, max_F_hat=1e-3) == pytest.approx(expected)
    knobs, kind = PAPER[setting][name], "ewc" if name == "ewc" else "si"
    carried = (knobs["training.later.eta"], knobs[f"{kind}.lam"], knobs[f"{kind}.max_F"])
    assert carried == pytest.approx((eta, lam, 1e-3))


def test_largest_lam() -> None:
    """1/(0.02 · 0.5) = 100, and there η·λ·max_F is just 1."""
    assert eq.largest_lam(eta=0.02, max_F_hat=0.5) == pytest.approx(100)
    assert eq.overshoot(0.02, eq.largest_lam(0.02, 0.5), 0.5) == pytest.approx(1)


def heavy_ball(a: float, momentum: float, steps: int = 3000) -> float:
    """How far θ is from θ* after so many steps that start at distance 1: v = momentum·v + a·e; e = e − v."""
    e, v = 1.0, 0.0
    for _ in range(steps):
        v = momentum * v + a * e
        e = e - v
        if abs(e) > 1e100:
            return inf
    return abs(e)


@pytest.mark.parametrize(("momentum", "limit"), [(0.0, 2.0), (0.5, 3.0), (0.9, 3.8)])
def test_divergence_limit(momentum: float, limit: float) -> None:
    """2·(1 + μ): 2·1, 2·1.5, 2·1.9. One per cent below it θ comes back to θ*, one per cent above it runs away.

    At the limit itself e alternates: e' = (1 + μ − a)·e − μ·e₋₁ with a = 2·(1 + μ) has the root −1.
    """
    assert eq.divergence_limit(momentum) == pytest.approx(limit)
    assert heavy_ball(0.99 * limit, momentum) < 1e-9
    assert heavy_ball(1.01 * limit, momentum) > 1e9
    assert (-1) ** 2 - (1 + momentum - limit) * (-1) + momentum == pytest.approx(0)


# --- Storage --------------------------------------------------------------------------------------

NETWORKS = [
    pytest.param(1_297_028, 100, [512], 51_200, 2_594_056, 2_542_856, id="CifarNet"),
    pytest.param(25_509_298, 50, [2048], 102_400, 51_018_596, 50_916_196, id="CaffeNet"),
    pytest.param(6_363_078, 50, [2048, 2048, 1024], 256_000, 12_726_156, 12_470_156, id="GoogLeNet"),
]


@pytest.mark.parametrize(("m", "s", "pn", "cwr", "importance", "ar1"), NETWORKS)
def test_overheads(m: int, s: int, pn: list[int], cwr: int, importance: int, ar1: int) -> None:
    """s·pn, 2·m, and their sum with s·pn taken out of m: s·pn + 2·(m − s·pn) = 2·m − s·pn.

    CifarNet: 100·512 = 51,200; 2·1,297,028 = 2,594,056; 2,594,056 − 51,200 = 2,542,856.
    CaffeNet: 50·2048 = 102,400; 2·25,509,298 = 51,018,596; 51,018,596 − 102,400 = 50,916,196.
    GoogLeNet: 50·(2048 + 2048 + 1024) = 256,000; 2·6,363,078 = 12,726,156; 12,726,156 − 256,000 = 12,470,156.
    """
    assert eq.overhead_cwr(s, pn) == cwr
    assert eq.overhead_importance(m) == importance
    assert eq.overhead_ar1(m, s, pn) == ar1 == importance - cwr


def test_m_of_CifarNet_counts_biases() -> None:
    """(3·9 + 1)·32 + (32·9 + 1)·32 + (32·9 + 1)·64 + (64·9 + 1)·64 + 2305·512 + 513·100 = 1,297,028."""
    by_hand = 28 * 32 + 289 * 32 + 289 * 64 + 577 * 64 + 2305 * 512 + 513 * 100
    assert sum(p.numel() for p in cifarnet(classes=100).parameters()) == by_hand == 1_297_028


def test_overhead_lwf() -> None:
    """CORe50, a batch of 5 objects: 5·8·300 = 12,000 frames · 50 classes = 600,000; GoogLeNet has 3 outputs."""
    assert eq.overhead_lwf(n_i=5 * 8 * 300, s=50) == 600_000
    assert eq.overhead_lwf(n_i=12_000, s=50, outputs=3) == 1_800_000
