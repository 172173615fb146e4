"""Every threshold of the alarms, and why it is there. `docs/diagnostics.md` says on what they were tried."""

BAND = 0.5
"""Forgetting: the share of older classes' patterns given to the newest batch, on a scale from what a blind guess gives
it (its share of the classes seen: 0) to all of them (1). Half-way: Naive is at 0.6 to 1, CWR+ and AR1 below
0.35."""

TILT = 0.25
"""… or a quarter of the way already, where older classes are recognised less than KEPT times as often as new ones."""

KEPT = 1 / 3
"""A third: in a run in balance the two are about equal. What is old is the mean over many classes, so that it can be
asked for more than what is new (LEARNT)."""

LEARNT = 0.25
"""New classes are not learnt if they are recognised less than a quarter as often as older ones. The two are about equal
in a run in balance; batches are not equally hard, so that a half or a third is seen in good runs too."""

LOST = 0.5
"""… and if so much of their patterns, at least, is given to older classes: else they are confused among themselves,
which is not a matter of too strong a hold."""

BAR = 0.55
"""A bar: one or few classes take so much of the patterns of older ones. Single batches of good runs were at 0.49, where
there are only few classes yet; real bars are at 0.6 to 1."""

FEW = 2
"""Few classes: this many, or one if the newest batch has fewer than ten. They must also hold half-way more of the
mistakes than their even share of the newest batch (0.6 for one class of five, 0.75 for one of two): else it is a band.
"""

HELD = 1e-3
"""A weight is held if its F̂ is at least so much of max_F: less is a pull a thousand times below the strongest one."""

NEARLY_ALL = 0.999
"""Importance is nearly all zero if so many weights are not held. EWC's is concentrated: 1 to 2 % of the weights carry
it in good runs, so that 0.99 would be too strict."""

MAX_F = 1e-3
"""The paper's max_F, for runs that do not say their own."""

SATURATED = 0.8
"""Importance is nearly all saturated if so many weights are at max_F: it no longer tells weights apart. AR1's reaches
0.68 in runs that learn well; with w some 7,000 times too large SI's is 0.87, since some weights hardly ever move."""

OVERSHOOT = 1 + 1e-6
"""Above 1, η·λ·max F̂ pulls a weight past its old value; 1e-6 for rounding. The paper's own tables reach 1.6: amber."""

DIVERGES = 2.0
"""Above 2, plain SGD diverges (with momentum 0.9, above 3.8): red."""

ALPHA = 0.05
"""A strategy can be told from Naive if the paired test's p is below this."""

SAME = 0.01
"""It does nothing at all (red, not amber) if it and Naive differ in right and wrong on at most so many patterns."""

OFTEN = 0.5
"""An alarm on matrices or importances is red if it holds after so many of the batches after B_1, or after the last one:
the state that is shipped. Classes that were not learnt in the last batch are a few among many, and no such reason."""
