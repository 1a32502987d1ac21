"""Speed, as ratios within one run: compared with the bare drivers of each store, and with peers."""
