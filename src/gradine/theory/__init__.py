"""What the theory says before anything is learned: conditions, tail bounds, plans."""
