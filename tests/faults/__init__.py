"""Kills, stops, restarts and lost answers, judged by a witness that knows nothing of Headgate's code."""
