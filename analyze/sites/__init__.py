"""Sites and local shapes (section L): where time goes, calls branch and errors start."""
