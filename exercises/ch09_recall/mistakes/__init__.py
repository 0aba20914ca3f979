"""Known answers to ``ch09_recall``, a file for each question."""
