"""The supervisor: one thread of the pytest process for each live world. It has no judgement of its own."""
