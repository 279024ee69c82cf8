"""The commands of ``microagg``: one, or some that belong together, in a module each; a new one is a new file."""

#: As ``microagg --help`` lists them.
ORDER = ("release", "backfill", "deploy", "doctor", "plan", "risk", "report", "receive", "studies", "init", "upkeep")
