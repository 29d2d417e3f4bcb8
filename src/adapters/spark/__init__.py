"""What every adapter that runs on Spark shares."""
