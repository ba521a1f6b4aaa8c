"""The soak: thousands of worlds in one session, faults at random, and nothing left behind."""
