"""Known answers to ``ch05_selection``, a file for each question."""
