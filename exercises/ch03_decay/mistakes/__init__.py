"""Known answers to ``ch03_decay``, a file for each question."""
