"""Level 2 of the bench: two training steps, and mutants of them made by program."""
