from packaging.version import Version
from psij.descriptor import Descriptor

__PSI_J_EXECUTORS__ = [Descriptor(name="bee", nice_name="BEE", version=Version("0.1.0"), cls="bee_psij.plugin.BeeJobExecutor")]
