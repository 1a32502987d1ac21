"""What runs by itself, beside those who ask."""
