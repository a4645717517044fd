"""Why a service is slow: causes judged by evidence, separated by experiments whose signature is stated first."""
