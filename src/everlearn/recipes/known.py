"""The strategies of this package: a row each, and nowhere else a name. Hyperparameters here are our own."""

from everlearn.recipes.recipe import Recipe
from everlearn.recipes.slot_recipe import SlotRecipe
from everlearn.recipes.style import Style

NAIVE = SlotRecipe(
    "naive",
    "go on training, with nothing against forgetting",
    title="Naive",
    style=Style(1, 0, 1),
    holds="none",
    slots=lambda s: s.Slots(s.Plain()),
)

KNOWN: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        NAIVE,
        SlotRecipe(
            "cumulative",
            "train on all batches so far: the upper bound",
            title="Cumulative",
            style=Style(0, 1, 0),
            keeps="everything",
            holds="none",
            slots=lambda s: s.Slots(s.Plain(), memory=s.Everything()),
        ),
        SlotRecipe(
            "lwf",
            "Learning Without Forgetting: soft targets from the old network",
            title="LWF",
            style=Style(5, 0, 3),
            holds="lwf",
            slots=lambda s: s.Slots(s.Plain(growth="expanding"), s.LWF()),
        ),
        SlotRecipe(
            "ewc",
            "Elastic Weight Consolidation: hold weights that the Fisher information calls important",
            title="EWC",
            style=Style(6, 0, 1),
            holds="ewc",
            slots=lambda s: s.Slots(s.Plain(), s.EWC(lam=1.5e4)),
        ),
        SlotRecipe(
            "si",
            "Synaptic Intelligence: hold weights whose path made the loss fall",
            title="SI",
            style=Style(7, 0, 4),
            holds="si",
            slots=lambda s: s.Slots(s.Plain(), s.SI(lam=1.5e4, w_1=1e-3, w_i=1e-3)),
        ),
        SlotRecipe(
            "fw",
            "freeze the trunk after B_1, and the rows of old classes",
            title="FW",
            style=Style(4, 2, 1),
            holds="freeze",
            holds_rows=True,
            slots=lambda s: s.Slots(s.Plain(growth="expanding", old_rows="frozen"), s.Freeze()),
        ),
        SlotRecipe(
            "cw",
            "freeze the trunk after B_1, tune all rows",
            title="CW",
            style=Style(4, 3, 0),
            holds="freeze",
            slots=lambda s: s.Slots(s.Plain(growth="expanding"), s.Freeze()),
        ),
        SlotRecipe(
            "cwr",
            "CWR: rows learnt apart from a random start, and copied",
            title="CWR",
            style=Style(4, 0, 2),
            holds="freeze",
            slots=lambda s: s.Slots(s.CWR(), s.Freeze()),
        ),
        SlotRecipe(
            "cwr+",
            "CWR+: rows learnt apart from zero, mean-shifted and copied",
            title="CWR+",
            style=Style(3, 0, 5),
            holds="freeze",
            slots=lambda s: s.Slots(s.CWR_PLUS, s.Freeze()),
        ),
        SlotRecipe(
            "ar1",
            "AR1: CWR+ with Synaptic Intelligence on the shared weights",
            title="AR1",
            style=Style(2, 0, 0),
            holds="si",
            slots=lambda s: s.Slots(s.CWR_PLUS, s.SI(lam=1.5e4, w_1=1e-4, w_i=1e-4)),
        ),
        SlotRecipe(
            "ar1-ewc",
            "CWR+ with EWC on the shared weights",
            title="AR1-EWC",
            style=Style(2, 2, 1),
            holds="ewc",
            slots=lambda s: s.Slots(s.CWR_PLUS, s.EWC(lam=1.5e4)),
        ),
        SlotRecipe(
            "ar1-lwf",
            "CWR+ with LWF",
            title="AR1-LWF",
            style=Style(2, 3, 3),
            holds="lwf",
            slots=lambda s: s.Slots(s.CWR_PLUS, s.LWF()),
        ),
        SlotRecipe(
            "cwr*",
            "CWR*: CWR+ for classes that come again, old rows and new averaged by their patterns",
            title="CWR*",
            style=Style(3, 1, 1),
            holds="freeze",
            like="cwr+",
            slots=lambda s: s.Slots(s.CWRStar(), s.Freeze()),
        ),
        SlotRecipe(
            "ar1*",
            "AR1*: CWR* with Synaptic Intelligence on the shared weights",
            title="AR1*",
            style=Style(2, 1, 2),
            holds="si",
            like="ar1",
            slots=lambda s: s.Slots(s.CWRStar(), s.SI(lam=1.5e4, w_1=1e-4, w_i=1e-4)),
        ),
    )
}
"""Every strategy that can be run here without another package."""

BASELINE = NAIVE.name
"""What others are compared with: training that does nothing against forgetting."""


ELSEWHERE: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("rehe", title="REHE", style=Style(8, 0, 2), keeps="some"),
        Recipe("gem", title="GEM", style=Style(8, 1, 3), keeps="some"),
        Recipe("icarl", title="iCaRL", style=Style(8, 2, 0), keeps="some"),
    )
}
"""Words for the records of strategies that others run: they cannot be built here."""
