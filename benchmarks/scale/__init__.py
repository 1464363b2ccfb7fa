"""How far the passes over examples scale: rates, workers, faults, and a hundred million rows."""
