"""How the section `categories` is shown."""
