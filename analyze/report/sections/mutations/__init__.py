"""How the section `mutations` is shown."""
