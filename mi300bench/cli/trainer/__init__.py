"""Commands that tune, export and run a trainer."""
