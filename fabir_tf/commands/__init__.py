"""The console scripts: flags at the door, then one call."""
