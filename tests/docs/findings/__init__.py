"""One module for each kind of finding: what it means, a minimal program, its corrected form."""
