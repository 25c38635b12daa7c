"""What clients see: the GraphQL API, the table at which commands meet matches, and the command line."""
