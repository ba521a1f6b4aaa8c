"""One module for each way to start ranks; each is run in a process of its own by `Bench`."""
