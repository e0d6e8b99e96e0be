"""Sides of records held against each other: what changed, by how much, how sure, since when."""
