"""Errors that reach a user: one clear line that says what to change, and an exit status.

Exit status: 0 the work was done, whatever the verdict; 1 only with ``--check``; 2 wrong input;
3 invalid run; 4 environment (unreachable server, port in use, no disk).
"""

from __future__ import annotations


class RooftuneError(Exception):
    """Base of every error that is shown as one line on standard error, without a traceback."""

    exit_status: int = 4


class WrongInput(RooftuneError):
    """The user's input cannot be used; the message names what to change."""

    exit_status = 2


class InvalidRun(RooftuneError):
    """A measurement failed its validity gates; its numbers must not be used for a decision."""

    exit_status = 3


class EnvironmentProblem(RooftuneError):
    """Something outside the input: unreachable server, port in use, no disk space, missing package."""

    exit_status = 4
