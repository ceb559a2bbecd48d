"""`make bench SUITE=data`: a simulated week over five regions, by the time of events. No Git, no programs, no clock."""
