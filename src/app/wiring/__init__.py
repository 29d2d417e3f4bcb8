"""The composition root: binds the ports of a deployment to adapters."""
