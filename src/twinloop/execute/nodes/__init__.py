"""Small nodes laid onto the machine at hand."""
