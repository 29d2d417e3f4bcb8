"""A status page, a JSON API and metrics of a deployment, over HTTP. It only reads."""
