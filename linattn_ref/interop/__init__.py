"""Other libraries' names, layouts and layers for what is computed here: FLA, Mamba."""
