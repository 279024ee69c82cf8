"""A release driven from outside, task by task: by a shell script, or a job array of a batch system.

There are two kinds of calls. :func:`~microagg_flows.step_by_step.going_on.go_on` does the flow's half of the stages as
far as they get, and writes down the tasks that come next; :func:`~microagg_flows.step_by_step.one_task.do_task` does
one of them, wherever the work area is in reach. Stages, tasks and receipts are those of every other release, so the
same files come out, and a call that is made again finds what is done.
"""
