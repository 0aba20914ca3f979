"""Read off the measured tables what the scaling study found: numbers with intervals, and figures.

``losses`` compares runs of the main grid, ``variants`` compares others with them, ``laws`` holds their fits.
``recall`` holds the probes of finished models, ``multi_query_recall`` models trained on that task, ``speed``
measured speeds. ``figures``, ``recall_figures`` and ``speed_figures`` draw.
"""
