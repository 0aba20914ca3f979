"""Provide what the pages of the book use when they run: figures, widgets, measured results, disagreements.

``linattn_book.builders`` makes the pages from their sources; it is not installed with the package.
"""
