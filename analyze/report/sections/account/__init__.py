"""How the section `account` is shown."""
