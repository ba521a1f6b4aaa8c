"""How ranks start, run, are watched for their end, and are killed."""
