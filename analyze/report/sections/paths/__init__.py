"""How the section `paths` is shown, and how it is made of what was found."""
