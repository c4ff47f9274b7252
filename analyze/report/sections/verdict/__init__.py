"""How the section `verdict` is shown."""
