"""What every room uses: files, lines of JSON, locks, states, keyed randomness, histograms, knobs.

Nothing here knows of a network or of learning.
"""
