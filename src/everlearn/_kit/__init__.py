"""What every room uses: files, states, keyed randomness, histograms, knobs.

Nothing here knows of a network or of learning.
"""
