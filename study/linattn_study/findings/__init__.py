"""Read off the measured tables what the scaling study found: numbers with intervals.

``losses`` compares runs of the main grid, ``variants`` compares others with them, ``laws`` holds their fits.
``recall`` holds the probes of finished models, ``speed`` measured speeds.
"""
