"""Running users' commands: started, watched, and stopped in time."""
