"""What the scaling study found, as numbers with intervals and as figures: read from ``results`` alone.

``losses`` compares runs of the main grid, ``variants`` others with them, ``laws`` their fits; ``recall`` is
what models were asked, ``pairs`` multi-query recall, ``speed`` speed;
``figures`` and ``recall_figures`` draw.
"""
