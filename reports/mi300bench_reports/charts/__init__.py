"""Charts as SVG text, in the colours of the page."""
