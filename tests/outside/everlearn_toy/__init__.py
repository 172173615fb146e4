"""A package of somebody else's: its strategies. What they need is imported when a learner is built."""

from everlearn.recipes import Range, Recipe, SlotRecipe

PIXEL_MEANS = Recipe(
    "pixel-means",
    "the class whose mean pattern is nearest",
    "everlearn_toy.learner:build",
    {"means.shrink": 0.0, "means.least": 1},
    title="Pixel means",
)


def more() -> list[Recipe]:
    """Strategies that take more words."""
    return [
        Recipe(
            "shrunk-means",
            "the same, with means drawn towards their common mean",
            "everlearn_toy.learner:build",
            {"means.shrink": 0.25, "means.least": 1},
            searched={"means.shrink": Range(0.0, 0.75, log=False)},
            settings={"small/digits": {"means.shrink": 0.5}},
            advices={"forgetting": "Lower means.shrink."},
            keeps="some",
        ),
        SlotRecipe(
            "half-frozen",
            "CWR+ with a weak EWC",
            slots=lambda s: s.Slots(s.CWR_PLUS, s.EWC(lam=10.0)),
            holds="ewc",
            like="ar1-ewc",
        ),
    ]
