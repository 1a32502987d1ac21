"""Kills, stops, restarts and lost answers, judged by a witness that is independent of Headgate's code."""
