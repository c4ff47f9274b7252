"""Critical path of every request, and what each edge of it contributes."""
