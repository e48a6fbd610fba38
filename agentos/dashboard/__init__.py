"""How far a run is, for people who look at it from outside: the view of its records, and reports made from it."""
