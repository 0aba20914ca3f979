"""Read off the measured tables what the scaling study found: numbers with intervals.

``losses`` compares runs of the main grid, ``variants`` compares others with them, ``laws`` holds their fits.
``isoflop`` finds the best size of each budget in runs that spend it in full.
``recall`` holds the probes of finished models, ``speed`` measured speeds.
"""
