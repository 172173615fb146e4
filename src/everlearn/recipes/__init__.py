"""Strategies by name: what each is made of, its knobs, its hyperparameters and its words.

Everything above knows recipes and the learner's protocol, never a strategy.
"""
