"""Known answers to ``ch07_four``, a file for each question."""
