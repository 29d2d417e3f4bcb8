"""Sources: records, how they are decoded, dead letters, topic groups, and bulk loads."""
