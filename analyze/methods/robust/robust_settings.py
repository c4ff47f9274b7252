"""Moved to `analyze.methods.robust.settings`; this goes once nobody names it."""

from analyze.methods.robust.settings import ConfounderSettings as ConfounderSettings
from analyze.methods.robust.settings import RobustSettings as RobustSettings
