"""Take out of a lake what is past its age, and write windows anew."""
