"""Open information extraction and coordinations, a system of its own on top of encoders and grids of labels (OpenIE6).

Readers, tasks, output formats and scorers are rows of the package's tables, which name this room's objects as
``module:name``: nothing here is imported until a recipe or a command needs it.
"""
