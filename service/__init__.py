"""What clients see: GraphQL, HTTP beside it, the command line, and the table at which commands meet matches."""
