"""How the section `distalyze` is shown."""
