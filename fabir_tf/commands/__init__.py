"""The console scripts: each parses its flags and calls the library."""
