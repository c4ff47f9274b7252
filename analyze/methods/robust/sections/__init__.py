"""Say each section of robust mode as blocks."""
