"""PSI/J executes this file for the class, and knows no module by its name."""

from bee_psij import BeeJobExecutor

__all__ = ["BeeJobExecutor"]
