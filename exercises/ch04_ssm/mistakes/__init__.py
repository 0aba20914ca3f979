"""Known answers to ``ch04_ssm``, a file for each question."""
