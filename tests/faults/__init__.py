"""Kills, stops, restarts and lost answers, checked by a witness that is independent of Headgate's code."""
