"""Faults on real clusters: regions cut off, agents frozen, hubs killed, the store down; judged by the programs of this machine."""
