"""Processes of this package's own."""

import sys


def module_command(module: str) -> list[str]:
    """The command line that runs a module with the search path of this process.

    `python -m` would look for modules in the working folder first, where a file of the user's may have the name of one.

    Args:
        module: its name, such as "fabir_tf.commands.entry"; arguments follow the command line.
    """
    run = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {run}"]
