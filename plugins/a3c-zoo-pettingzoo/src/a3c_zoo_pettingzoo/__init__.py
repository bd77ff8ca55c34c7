"""Games of several agents for a3c-zoo: those of PettingZoo, and those of Gymnasium's ids with tuples of spaces."""
