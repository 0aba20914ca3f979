"""Known answers to ``ch06_fast``, a file for each question."""
