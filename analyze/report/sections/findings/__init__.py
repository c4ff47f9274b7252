"""How the section `findings` is shown."""
