"""The experiments of the paper, by name."""

from typing import Any

from everlearn.experiments.experiment import CPU, Experiment, Variant
from everlearn.recipes import recipe_of

REHEARSAL_FREE = ("naive", "lwf", "ewc", "si", "cwr", "cwr+", "ar1")
NATIVE: dict[str, dict[str, Any]] = {
    "lwf": {"lwf.form": "distillation", "lwf.lam": 1.0, "lwf.temperature": 2.0},
    "ewc": {"ewc.terms": "per_batch", "ewc.max_F": None, "ewc.fisher": "per_example"},
    "si": {"si.max_F": None, "si.path": "gradient", "si.w_1": 1.0, "si.w_i": 1.0, "si.xi": 1e-3},
}
"""LWF, EWC and SI as their authors wrote them."""
NATIVE_PULL = {"ewc": 0.09, "si": 0.001}
"""η·λ of the native forms, ours: on iCIFAR-100 ΣF reaches 3 in EWC and 400 in SI, and nothing bounds it."""

CONSTANT = [[0.0, 1.0]]
BOOST = [[0.0, 4.0], [0.25, 1.0]]
"""A variable learning rate: fourfold at first, at η after a quarter of the steps."""


def rate(schedule: list[list[float]]) -> dict[str, Any]:
    """This schedule on all batches."""
    return {f"training.{phase}.schedule": schedule for phase in ("first", "later")}


def named(strategy: str) -> str:
    """A strategy's name as the paper writes it."""
    return recipe_of(strategy).title


def all_strategies(benchmark: str) -> list[Variant]:
    """The paper's rehearsal-free strategies, and Cumulative; on iCIFAR-100 the latter after B_1, B_4, B_7 and B_10."""
    joined = f"{benchmark}+joined" if benchmark == "icifar-100" else None
    free = [Variant(named(name), name) for name in REHEARSAL_FREE]
    return [*free, Variant("Cumulative", "cumulative", benchmark=joined)]


def mt_and_sit(benchmark: str) -> list[Variant]:
    """Each strategy trained and tested with the task known, and without; CWR is made for SIT alone."""
    names = ("naive", "ewc", "lwf", "si")
    cpu = f"{CPU[benchmark]}/mt" if benchmark.startswith("cifar-split") else None
    mt = [Variant(f"{named(name)} MT", name, {"head": "per_task"}, cpu=cpu) for name in names]
    return [*mt, *(Variant(f"{named(name)} SIT", name) for name in (*names, "cwr"))]


def head_growth(_benchmark: str) -> list[Variant]:
    """App. A: a maximal head, an expanding one, and that with a variable learning rate, which is constant elsewhere."""
    kinds: dict[str, dict[str, Any]] = {
        "maximal": {"head.growth": "maximal", **rate(CONSTANT)},
        "expanding": {"head.growth": "expanding", **rate(CONSTANT)},
        "expanding, variable rate": {"head.growth": "expanding", **rate(BOOST)},
    }
    return [Variant(f"{named(s)} {kind}", s, knobs) for s in ("cwr+", "ar1") for kind, knobs in kinds.items()]


def ablation(_benchmark: str) -> list[Variant]:
    """From CWR to CWR+, one step at a time at CWR+'s rates, and what the paper tried beside it."""
    same: dict[str, Any] = {"cwr.init": "constant", "cwr.init_scale": 0.01}
    return [
        Variant("CWR", "cwr", rates="cwr+"),
        Variant("CWR, mean shift", "cwr", {"cwr.shift": "batch", "cwr.w_1": 1.0}, rates="cwr+"),
        Variant("CWR, zero init", "cwr", {"cwr.init": "zero"}, rates="cwr+"),
        Variant("CWR+ (both)", "cwr+"),
        Variant("CWR+, unit deviation", "cwr+", {"cwr.unit_std": True}),
        Variant("CWR+, equal constant", "cwr+", same),
        Variant("Naive", "naive"),
        Variant("Naive, zero init", "naive", {"head.init": "zero"}),
    ]


def ar1_regularisers(_benchmark: str) -> list[Variant]:
    """CWR+ alone, and with each of the three regularisers on the shared weights."""
    pairs = {"CWR+": "cwr+", "CWR+ with SI (AR1)": "ar1", "CWR+ with EWC": "ar1-ewc", "CWR+ with LWF": "ar1-lwf"}
    return [Variant(label, name) for label, name in pairs.items()]


def native(_benchmark: str) -> list[Variant]:
    """LWF, EWC and SI as the paper runs them, and in their native forms."""
    forms = [
        (
            Variant(f"{named(name)}, the paper's", name),
            Variant(f"{named(name)}, native", name, knobs, pull=NATIVE_PULL.get(name)),
        )
        for name, knobs in NATIVE.items()
    ]
    return [variant for pair in forms for variant in pair]


def no_fc(_benchmark: str) -> list[Variant]:
    """EWC and LWF on CaffeNet, with fc6 and fc7 and without."""
    networks = {"with fc6 and fc7": "caffenet-128", "without": "caffenet-128-conv"}
    return [
        Variant(f"{named(name)} {words}", name, network=network)
        for name in ("ewc", "lwf")
        for words, network in networks.items()
    ]


def lwf_settings(_benchmark: str) -> list[Variant]:
    """LWF with its map, and with the same λ for all batches."""
    constants = [Variant(f"LWF, λ = {lam}", "lwf", {"lwf.lam": lam}) for lam in (0.5, 0.8)]
    return [Variant("LWF, the map", "lwf"), *constants]


def networks(_benchmark: str) -> list[Variant]:
    """Everything at once, by network, with the minibatches of Table 2."""
    names = {
        "CaffeNet": ("caffenet-128", 256),
        "NiN": ("nin-128", 256),
        "GoogLeNet": ("googlenet-128", 64),
        "ResNet-50": ("resnet-50", 12),
    }
    return [
        Variant(label, "cumulative", {"training.minibatch": minibatch}, network=network)
        for label, (network, minibatch) in names.items()
    ]


def only(*names: str) -> Any:
    """These strategies."""
    return lambda _benchmark: [Variant(named(name), name) for name in names]


CURVES = ("accuracy_curves", "bars")
CAFFENET = "CaffeNet on CORe50"

EXPERIMENTS: dict[str, Experiment] = {
    "table2": Experiment("Table 2", "core50-whole", networks, ("bars",)),
    "core50-nc": Experiment(
        "Figure 7", "core50-nc", all_strategies, CURVES, networks=("caffenet-128", "googlenet-128")
    ),
    "icifar100": Experiment("Figure 8", "icifar-100", all_strategies, CURVES),
    "mt-vs-sit": Experiment("Figure 3", "cifar-split-6", mt_and_sit, ("mt_vs_sit",)),
    "25x2": Experiment("Figure 9", "core50-25x2", only("cwr+", "ar1"), CURVES),
    "head-growth": Experiment("App. A", "icifar-100", head_growth, CURVES, theirs="CORe50"),
    "ablation": Experiment("Section 3.2", "icifar-100", ablation, CURVES),
    "ar1-regularisers": Experiment("Section 3.3", "icifar-100", ar1_regularisers, CURVES, theirs="CORe50"),
    "native": Experiment("Section 4.2", "icifar-100", native, CURVES, theirs="CORe50"),
    "no-fc": Experiment("Section 4.2", "core50-nc", no_fc, CURVES),
    "importance": Experiment(
        "Figures 4 and 5",
        "icifar-100",
        only("ewc", "si"),
        ("importance_histograms", "strength"),
        batches=3,
        trajectories=True,
        theirs=CAFFENET,
    ),
    "weight-change": Experiment(
        "Figure 13",
        "icifar-100",
        only("naive", "lwf", "ewc", "si", "cwr+", "ar1"),
        ("weight_change_3d", "weight_change_heat"),
        theirs=CAFFENET,
    ),
    "cm-naive": Experiment("Figure 10", "icifar-100", only("naive"), ("confusion_strip",), theirs=CAFFENET),
    "cm-lwf": Experiment("Figure 11", "icifar-100", lwf_settings, ("confusion_strip",), theirs=CAFFENET),
    "cm-ewc": Experiment(
        "Figure 12",
        "icifar-100",
        only("ewc"),
        ("confusion_strip",),
        options={"confusion_strip": {"batches": [-2, -1], "side": 2.4}},
        theirs=CAFFENET,
    ),
}
"""The paper's experiments, by the names of the catalogue."""
