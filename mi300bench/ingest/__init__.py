"""What other tools wrote, as records of origin imported."""
