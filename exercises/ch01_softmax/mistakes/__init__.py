"""Known answers to ``ch01_softmax``, a file for each question."""
