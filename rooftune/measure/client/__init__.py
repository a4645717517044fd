"""The load generator: stamps every read before it is parsed, sends by an absolute schedule."""
