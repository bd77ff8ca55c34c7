"""L3: where workers live. In turn in this process (`serial`) or side by side in processes of their own (`pool`)."""
