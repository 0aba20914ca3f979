"""What the scaling study found, as numbers with intervals and as figures: read from ``results`` alone.

``losses`` compares finished runs, ``laws`` their fits, ``recall`` what they were asked; ``figures`` draws.
"""
