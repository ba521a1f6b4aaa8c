"""``python -m harness demo``: three faults of distributed training code, shown on real worlds.

``_ranks`` is the code under test, ``_figures`` runs it, ``_check`` says whether the outcome is what
the demo promises, ``_text`` prints it.
"""
