"""Relate changes at call sites until few causes are left."""
