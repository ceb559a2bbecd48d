"""Tests of the whole: hub, agents, three real regions, a forge."""
