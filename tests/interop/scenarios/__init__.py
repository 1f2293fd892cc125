"""One module per scenario family. Each lists its scenarios as `SCENARIOS`: pairs of a name and a function of a stage.

A function that measures something returns it as text for the line that tells that the scenario held.
"""
