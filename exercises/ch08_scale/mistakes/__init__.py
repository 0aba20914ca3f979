"""Known answers to ``ch08_scale``, a file for each question."""
