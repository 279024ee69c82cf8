"""The commands of ``microagg``: one, or some that belong together, in a module each; a new one is a new file."""

#: As ``microagg --help`` lists them.
ORDER = ("release", "plan", "report", "receive", "studies", "init", "upkeep")
