"""Advantages for reinforcement learning on a data- and context-parallel grid."""
