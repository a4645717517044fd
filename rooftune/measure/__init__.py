"""The load generator, request records, telemetry and validity gates: one schedule against one target gives one Run."""
