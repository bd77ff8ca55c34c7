"""The way through a comparison: plan, rehearsal, training, evaluation, figures, report."""
