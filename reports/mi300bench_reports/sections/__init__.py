"""The sections of the page, one module for each group of them. No section imports another."""
