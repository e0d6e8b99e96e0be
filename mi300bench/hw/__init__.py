"""The machine without a framework: published facts (data/facts.toml), and what the kernel tells (inventory.py)."""
