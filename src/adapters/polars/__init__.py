"""What backends on Polars share: schemas, exact sums and the frame engine."""
