"""The frontend's half: the forward edge, and the deltas of the workers passed on."""
