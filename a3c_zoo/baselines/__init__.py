"""What agents are held against: other libraries' algorithms and random actions, behind the same entry as any agent."""

from __future__ import annotations
