"""The game of backgammon: boards, legal plays, the cube, matches, and the law that folds events into them.

Pure: no I/O, no clock, no chance (the import contracts in pyproject.toml hold it to that). Start at rules.py.
"""
