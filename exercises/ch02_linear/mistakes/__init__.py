"""Known answers to ``ch02_linear``, a file for each question."""
