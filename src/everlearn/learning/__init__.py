"""The loop and what it works with: Θ, training, passes, the ledger, the protocol of a learner, the equations.

The methods themselves are slots, in heads/, regularisers/ and memories/.
"""
