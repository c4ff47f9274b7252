"""How the section `roots` is shown."""
