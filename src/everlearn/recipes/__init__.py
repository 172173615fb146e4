"""Strategies by name: what each is made of, its knobs, its hyperparameters and its words.

Everything above knows recipes and the learner's protocol, never a strategy.
"""

from everlearn.recipes.recipe import Recipe
from everlearn.recipes.registry import recipe_of, recipes, register, words_of
from everlearn.recipes.slot_recipe import SlotRecipe
from everlearn.recipes.space import Range
from everlearn.recipes.style import Style

__all__ = ["Range", "Recipe", "SlotRecipe", "Style", "recipe_of", "recipes", "register", "words_of"]
