"""One module per scenario family. Each lists its scenarios as `SCENARIOS`: pairs of a name and a function of a stage."""
